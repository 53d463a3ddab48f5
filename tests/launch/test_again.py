"""Launching again: complete, grown, mended, or refused because something else changed."""

from __future__ import annotations

import json

import pytest

from ablate.record.reader import Run
from tests.conftest import whole

TWO = "arms:\n  one: {}\n  two: {settings: {at: 4}}\n"
THREE = TWO + "  three: {settings: {at: 5}}\n"


def ran(place):
    return {row["trial_id"]: row["started_utc"] for row in Run(place.root()).trials().to_pylist()}


def test_a_study_completes_grows_and_refuses_what_would_mix(place):
    place.grid(TWO, blocks=1)
    first = place.ablate("launch", "grid.yaml", "--local")
    assert first.code == 0, first.text
    one_block = ran(place)
    assert whole(place.root()) == 2

    complete = place.ablate("launch", "grid.yaml")
    assert complete.code == 0
    assert complete.out == first.out
    assert "initial weights" not in complete.err
    assert ran(place) == one_block
    assert complete.seconds < 8

    as_json = place.ablate("launch", "grid.yaml", "--json")
    json.loads(as_json.out, parse_constant=pytest.fail)

    place.grid(THREE, blocks=2)
    grown = place.ablate("launch", "grid.yaml", "--local")
    assert grown.code == 0, grown.text
    assert whole(place.root()) == 6
    assert one_block.items() <= ran(place).items()

    place.grid(THREE, blocks=2, batches=7)
    refused = place.ablate("launch", "grid.yaml", "--local")
    assert refused.code == 2
    assert "this store belongs to a grid that differs: batches: 6 -> 7" in refused.words
    assert whole(place.root()) == 6

    place.grid(THREE, blocks=3)
    doubles = place.folder / "doubles.py"
    doubles.write_text(doubles.read_text() + "\n# changed\n")
    changed = place.ablate("launch", "grid.yaml", "--local")
    assert changed.code == 2
    assert "source_hash: trials recorded there ran with" in changed.words
    assert "or pass --allow-mixed-code; reports then say so." in changed.words
    assert whole(place.root()) == 6

    allowed = place.ablate("launch", "grid.yaml", "--local", "--allow-mixed-code")
    assert allowed.code == 0, allowed.text
    assert len(ran(place)) == 9
    checked = place.ablate("check", "doubles")
    assert checked.code == 0
    assert "C9 note" in checked.out


@pytest.mark.slow
def test_a_preparation_that_failed_locks_nobody_out(place):
    place.grid(TWO, blocks=1, settings="{data: bad}")
    refused = place.ablate("launch", "grid.yaml", "--local")
    assert refused.code == 2
    assert "error: data: found 'bad' allowed: good" in refused.words
    assert "Traceback" not in refused.text

    place.grid(TWO, blocks=1, settings="{data: good}")
    mended = place.ablate("launch", "grid.yaml", "--local")
    assert mended.code == 0, mended.text
    assert whole(place.root()) == 2
