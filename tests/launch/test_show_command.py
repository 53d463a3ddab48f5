"""The full path: a grid that asks for artifacts, a launch, a sound store, one picture."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from ablate.record.reader import Run
from tests.conftest import whole

SHOWN = """
import torch
from ablate.trial.protocol import Images
from doubles import Structured

class Shown(Structured):
    def __init__(self, *, bias: float = 0.0) -> None:
        super().__init__()
        self.bias = bias

    def look(self, model, place):
        x = torch.linspace(0, 1, 8).reshape(4, 2)
        y = model(place(x)).float().sigmoid().reshape(4, 1, 1, 1).expand(4, 1, 6, 6)
        return {"given": Images(torch.ones(4, 3, 6, 6)), "made": Images(y)}
"""
ARMS = """
    arms:
      float32: {}
      bfloat16: {precision: bfloat16}
"""
PLAN = "{at: [0, last], every: 4}"


def losses(root: Path) -> list[tuple[str, int, float]]:
    table = Run(root).batches(["trial_id", "batch_index", "loss"])
    return sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


@pytest.mark.slow
def test_a_launch_with_artifacts_gives_a_picture_and_the_same_losses_as_one_without(place):
    (place.folder / "shown.py").write_text(SHOWN)
    plain = place.grid(ARMS, "plain.yaml", trainable="shown:Shown")
    assert place.ablate("launch", "--local", plain, "--runs", place.folder / "other").code == 0
    grid = place.grid(ARMS, trainable="shown:Shown", artifacts=PLAN)
    assert place.ablate("launch", "--local", grid).code == 0
    root = place.root()
    assert whole(root) == 4
    assert losses(root) == losses(place.folder / "other" / "doubles")  # trial ids are equal too
    pictures = Run(root).artifacts(filter=pc.field("kind") == "image").to_pylist()
    assert sorted({row["batch_index"] for row in pictures}) == [0, 4, 5]
    assert len(pictures) == 4 * 3 * 2

    shown = place.ablate("show", "doubles")
    assert shown.code == 0, shown.text
    picture = root / "pictures" / "batch-5-block-0.png"
    assert shown.out.strip() == f"wrote {picture.relative_to(place.folder)}"
    assert picture.read_bytes().startswith(b"\x89PNG")
    refused = place.ablate("show", "doubles", "--batch", 3)
    assert refused.code == 2
    assert "--batch 3: has no pictures in block 0 did you mean '4'? allowed: 0, 4, 5" in refused.words
    none = place.ablate("show", place.folder / "other" / "doubles")
    assert none.code == 2
    assert "has no artifacts, since its grid asks for none" in none.words
