import numpy as np
import pyarrow as pa
import pytest
from auditing import GRADIENT, pair, rows, trial
from synthetic import audit, changed

from analysis.confounding import (
    GLOBAL_DRAWS,
    NAMES,
    Hashes,
    Mismatch,
    compare_batches,
    compare_generators,
    compare_trials,
    drew_otherwise,
    generator_states,
    sum_up,
)
from analysis.pairing import Match
from analysis.trials import STREAMS, Trial

SAME = dict.fromkeys(STREAMS, "same")


def match(block=0, batches=(60, 60), **other):
    return Match(
        block,
        Trial(f"r{block}", "a", block, batches=batches[0], hashes=SAME),
        Trial(f"o{block}", "b", block, batches=batches[1], hashes={**SAME, **other}),
    )


def watched(order, content, batches=range(60)):
    """Hashes of some batches, the watched ones by their number."""
    order, content = (pa.array([some.get(batch) for batch in batches], pa.uint64()) for some in (order, content))
    return Hashes(np.array(batches), order, content)


def compare_streams(matches, hashes):
    def found(one):
        both = [hashes[trial.trial_id] for trial in (one.reference, one.other) if trial.trial_id in hashes]
        return [*(compare_batches(*both) if len(both) == 2 else []), *compare_trials(one)]

    return sum_up((one.block, found(one)) for one in matches)


def compare_states(mine, theirs):
    one = Match(0, trial(), trial("t2", "b"))
    return sum_up([(0, compare_generators(one, {"t1": mine, "t2": theirs}))])


def test_equal_hashes_are_no_mismatch():
    same = watched({0: 1, 50: 2}, {0: 3})
    found = compare_streams([match()], {"r0": same, "o0": same})
    assert (found.compared, found.missing, found.mismatches) == (NAMES, (), ())


def test_each_stream_is_named_with_its_blocks():
    for column, name in STREAMS.items():
        found = compare_streams([match(2, **{column: "x"}), match(1, **{column: "x"}), match(0)], {})
        assert found.mismatches == (Mismatch(name, (1, 2), None),)
        assert str(found.mismatches[0]) == f"{name} (block 1 and 1 more)"


def test_the_first_differing_watched_batch_is_named():
    hashes = {"r0": watched({0: 1, 50: 2, 59: 5}, {0: 7, 50: 8}), "o0": watched({0: 1, 50: 3, 59: 6}, {0: 9, 50: 8})}
    found = compare_streams([match(order_hash="x")], hashes)
    assert [str(m) for m in found.mismatches] == [
        "data order (block 0, seen at batch 50)",
        "batch contents (block 0, seen at batch 0)",
    ]


def test_a_trial_that_stopped_early_is_not_confounded_by_its_shorter_hashes():
    found = compare_streams([match(batches=(60, 12), order_hash="x", draw_hash="x")], {})
    assert found.mismatches == ()
    assert STREAMS["draw_hash"] in found.missing


def test_what_was_not_recorded_is_not_called_equal():
    bare = Match(0, Trial("r0", "a", 0), Trial("o0", "b", 0))
    found = compare_streams([bare], {"r0": watched({0: 1}, {})})
    assert (found.compared, found.missing) == ((), NAMES)


def test_watched_batches_are_matched_by_index_not_by_position():
    mine, theirs = watched({10: 1, 50: 2}, {10: 7}, range(5, 60)), watched({10: 1, 50: 3}, {10: 8}, range(0, 55))
    found = compare_streams([match()], {"r0": mine, "o0": theirs})
    assert [(one.stream, one.batch) for one in found.mismatches] == [(NAMES[2], 50), (NAMES[3], 10)]


def test_a_batch_that_is_there_twice_is_compared_once():
    mine, theirs = watched({0: 1, 2: 2}, {0: 7}, (0, 0, 1, 2)), watched({0: 1, 2: 3}, {0: 7}, (0, 1, 1, 2, 3))
    found = compare_streams([match()], {"r0": mine, "o0": theirs})
    assert [(one.stream, one.batch) for one in found.mismatches] == [(NAMES[2], 2)]


def test_batches_that_only_one_side_watched_are_neither_equal_nor_unequal():
    bare = Match(0, Trial("r0", "a", 0), Trial("o0", "b", 0))
    found = compare_streams([bare], {"r0": watched({0: 1}, {3: 5}), "o0": watched({1: 2}, {3: 5})})
    assert (found.compared, found.mismatches) == ((NAMES[3],), ())


def states(detail, verdict, name="torch", batch=2):
    row = {"batch_index": batch, "check": "draw_state", "verdict": verdict, "near": name, "detail": detail}
    return generator_states(rows([row]))


@pytest.mark.parametrize(
    ("mine", "theirs", "differs"),
    [
        (states("ab", "drawn"), states("cd", "drawn"), True),
        (states("ab", "clean"), states("cd", "drawn"), True),
        (states("ab", "drawn"), states("ab", "drawn"), False),
        (states("ab", "clean"), states("cd", "clean"), False),
    ],
)
def test_generators_that_were_drawn_from_must_stand_alike(mine, theirs, differs):
    found = compare_states(mine, theirs)
    assert [str(one) for one in found.mismatches] == ([f"{GLOBAL_DRAWS} (block 0, seen at batch 2)"] if differs else [])
    assert GLOBAL_DRAWS not in found.missing


@pytest.mark.parametrize(("name", "whose"), [("numpy", "NumPy"), ("random", "Python")])
def test_a_generator_that_nobody_seeds_is_named_if_both_drew_from_it(name, whose):
    found = compare_states(*(states(detail, "drawn", name, 1) for detail in ("ab", "cd")))
    words = f"draws of {whose}'s global generator outside the streams (block 0, seen at batch 1)"
    assert [str(one) for one in found.mismatches] == [words]
    assert not compare_states(*(states("ab", "drawn", name, 1) for _ in range(2))).mismatches


def test_draws_that_went_otherwise_are_a_mismatch():
    matches, audits = pair(audit(), changed(audit(), {**GRADIENT, "batch_index": 1}, verdict="confounded"))
    assert str(drew_otherwise(matches, audits)) == f"{GLOBAL_DRAWS} (block 0, seen at batch 1)"
    assert drew_otherwise(*pair(audit(), audit())) is None
