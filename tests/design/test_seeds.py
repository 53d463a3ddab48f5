from __future__ import annotations

import numpy as np

from ablate.design.seeds import stream_key


def test_the_key_is_the_same_everywhere():
    assert stream_key("study", 3, "order") == 0x98D5BBD8F6474DD24F7D287FEED8A5C0
    assert stream_key("study", 3, "order") < 2**128


def test_other_names_give_other_keys():
    keys = {stream_key(study, block, stream) for study in "ab" for block in range(3) for stream in ("x", "y")}
    assert len(keys) == 12
    # The parts are separated: moving a character from one to the next is another key.
    assert stream_key("s1", 2, "x") != stream_key("s", 12, "x")


def test_making_a_key_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].tolist()
    stream_key("study", 0, "x")
    assert np.random.get_state()[1].tolist() == before
