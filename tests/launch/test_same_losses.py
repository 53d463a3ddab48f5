"""Ray, the local launcher and `ablate trial` give the same losses, bit for bit, for the smoke study that ships."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ablate.record.reader import Run
from tests.conftest import whole

SMOKE = Path(__file__).parents[2] / "configs" / "smoke.yaml"


def losses(root):
    rows = Run(root).batches(["trial_id", "batch_index", "loss"]).to_pylist()
    return {(row["trial_id"], row["batch_index"]): struct.pack(">d", row["loss"]) for row in rows}


def test_losses_do_not_depend_on_what_places_the_trials(place):
    pytest.importorskip("skimage", reason="the smoke study moves a crop over scikit-image's photographs")
    local = place.ablate("launch", SMOKE, "--local", "--runs", "local")
    ray = place.ablate("launch", SMOKE, "--runs", "ray")
    assert (local.code, ray.code) == (0, 0), local.text + ray.text
    assert whole(place.folder / "local" / "smoke") == whole(place.folder / "ray" / "smoke") == 6
    reference = losses(place.folder / "local" / "smoke")
    assert len(reference) == 36
    assert losses(place.folder / "ray" / "smoke") == reference

    trials = Run(place.folder / "local" / "smoke").trials().to_pylist()
    trial_id = next(row["trial_id"] for row in trials if (row["arm"], row["block"]) == ("reused-buffer", 1))
    alone = place.ablate("trial", SMOKE, trial_id, "--runs", "alone")
    assert alone.code == 0, alone.text
    found = losses(place.folder / "alone" / f"smoke.{trial_id}")
    assert found == {key: bits for key, bits in reference.items() if key[0] == trial_id}
    assert local.out.startswith("BUG: ")
    assert local.out.partition(";")[0] == ray.out.partition(";")[0]
