"""What trials show of their models: the right numbers, at the right batches, and without a trace in the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from spec_factory import make_task
from torch import nn

from ablate.design.trial_spec import ArtifactPlan, CheckpointPlan, GuardPlan, Numerics
from ablate.record.artifact_file import read_arrays
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.trial.artifact import BINS, histogram, norm, shown
from ablate.trial.gallery import MOST_BYTES
from ablate.trial.protocol import Images
from ablate.trial.runner import run_trial

torch.set_num_threads(1)
PLAN = ArtifactPlan(at=(0, 7), every=5)
LOOKED_AT = [0, 5, 7]


def run(root: Path, trainable: str, attempt: int = 1, **changes: Any) -> dict[str, Any]:
    changes = {"batches": 10, "guard": GuardPlan(first=3, every=4), "artifacts": PLAN, **changes}
    task = make_task(root, f"small_trainables:{trainable}", attempt=attempt, **changes)
    end = run_trial(task)
    paths, trial = StorePaths(root), task.spec.trial_id
    lines, rows = paths.artifact_lines(trial, attempt), paths.rows(trial, attempt)
    return {
        "end": end,
        "paths": paths,
        "rows": read_journal(rows).rows if rows.exists() else None,
        "columns": json.loads(paths.trial_json(trial, attempt).read_text()),
        "audits": paths.audit_lines(trial, attempt).read_text(),
        "artifacts": [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else [],
    }


def arrays(found: dict[str, Any], batch: int) -> dict[str, Any]:
    names = {row["file"] for row in found["artifacts"] if row["batch_index"] == batch and "file" in row}
    assert len(names) == 1
    return read_arrays(found["paths"].artifact_files / names.pop())


@pytest.mark.parametrize("trainable", ["Shown", "function_shown"])
def test_looking_changes_no_bit_of_the_training(tmp_path: Path, trainable: str) -> None:
    """The look draws from every generator, moves batch statistics and switches the mode; all of it is undone."""
    with_looks = run(tmp_path / "a", trainable)
    without = run(tmp_path / "b", trainable, artifacts=ArtifactPlan())
    assert with_looks["end"].status == without["end"].status == "done"
    assert with_looks["artifacts"]
    assert not without["artifacts"]
    for column in ("loss", "batch_index", "flags", "order_hash", "content_hash"):
        assert with_looks["rows"][column].tobytes() == without["rows"][column].tobytes(), column
    for column in ("initial_hash", "order_hash", "draw_hash", "evaluate"):
        assert with_looks["columns"].get(column) == without["columns"].get(column), column
    assert with_looks["audits"] == without["audits"]  # no draw of the look is taken for the training's


@pytest.mark.parametrize("trainable", ["Shown", "function_shown"])
def test_artifacts_are_those_of_the_planned_batches(tmp_path: Path, trainable: str) -> None:
    found = run(tmp_path, trainable)
    keys = [(row["batch_index"], row["name"]) for row in found["artifacts"]]
    assert len(set(keys)) == len(keys)
    assert sorted({batch for batch, _ in keys}) == LOOKED_AT
    kinds = {row["name"]: row["kind"] for row in found["artifacts"]}
    assert kinds["picture"] == "image"
    for name in ("0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"):
        assert kinds[f"gradient_norm.{name}"] == "number"
        assert kinds[f"gradient.{name}"] == kinds[f"weight.{name}"] == "histogram"
    assert arrays(found, 5)["picture"].dtype == np.float16
    if trainable == "function_shown":
        assert [row["value"] for row in found["artifacts"] if row["name"] == "batch"] == LOOKED_AT


def test_numbers_are_those_of_the_gradient_that_is_applied(tmp_path: Path) -> None:
    """Plain SGD by hand: the weights recorded after batch 0 are the initial ones less lr times the gradient."""
    found = run(tmp_path, "Line", artifacts=ArtifactPlan(at=(0,)), batches=1)
    by_name = {row["name"]: row for row in found["artifacts"]}
    from ablate.trial.draw import Draw
    from ablate.trial.weights import seed_global_generators

    seed_global_generators("test", 0)
    model, draw = nn.Linear(3, 1), Draw("test", 0)
    x, y = draw("x").normal((5, 3)), draw("y").uniform((5, 1))
    (model(x) - y).square().mean().backward()
    gradient = model.weight.grad.numpy()  # type: ignore[union-attr]
    assert by_name["gradient_norm.weight"]["value"] == float(np.sqrt(np.square(gradient.astype(np.float64)).sum()))
    after = model.weight.detach().numpy() - np.float32(0.1) * gradient
    assert (by_name["weight.weight"]["low"], by_name["weight.weight"]["high"]) == (after.min(), after.max())
    assert by_name["weight.weight"]["shape"] == [1, 3]
    assert sum(by_name["weight.weight"]["counts"]) == 3


def test_every_player_s_own_gradient_is_recorded(tmp_path: Path) -> None:
    """Each as its optimiser got it, which is zero here, whatever another player's backward does later."""
    found = run(tmp_path, "Duel")
    norms = {row["name"]: row["value"] for row in found["artifacts"] if row["name"].startswith("gradient_norm.")}
    assert norms == {f"gradient_norm.{p}.{n}": 0.0 for p in ("first", "second") for n in ("weight", "bias")}


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_arrays_numbers_and_maps(tmp_path: Path, precision: Any) -> None:
    found = run(tmp_path, "Shown", settings={"show": "numbers"}, numerics=Numerics(precision=precision))
    kinds = {row["name"]: (row["kind"], row["shape"]) for row in found["artifacts"]}
    assert (kinds["answer"], kinds["total"], kinds["errors"]) == (
        ("array", [4, 1]),
        ("number", []),
        ("map", [4, 1, 3, 3]),
    )
    stored = arrays(found, 0)
    assert sorted(stored) == ["answer", "errors"]
    assert stored["answer"].dtype == (np.float64 if precision == "float64" else np.float32)


ARRAY = "Images, Maps, a tensor or array of numbers, or a number"


@pytest.mark.parametrize(
    ("show", "message"),
    [
        ("name", "look() after batch 0: an artifact is named 'A-B'\n    allowed: lower-case letters, digits and _"),
        ("text", f"look() after batch 0, artifact words: found a str\n    allowed: {ARRAY}"),
        ("shape", "artifact flat: Images of shape (4, 1)\n    allowed: (N, C, H, W) with C 1 or 3"),
        ("channels", "artifact flat: Maps of shape (1, 3, 2, 2)\n    allowed: (N, C, H, W) with C 1"),
        ("type", "artifact whole: Images of int64\n    allowed: uint8, or floats"),
        ("list", "look() after batch 0: returned a list\n    allowed: a dict of artifacts"),
        ("train", "look() after batch 0: parameter '0.weight' was changed while it was looked at"),
        (
            "large",
            "batch 0: artifacts of 38.1 MiB; the largest is 'huge', (5000, 1000)\n    allowed: 32 MiB a batch",
        ),
    ],
)
def test_messages(tmp_path: Path, show: str, message: str) -> None:
    end = run(tmp_path, "Shown", settings={"show": show})["end"]
    assert end.kind == "code"
    assert message in end.error


def test_the_same_name_twice(tmp_path: Path) -> None:
    end = run(tmp_path, "function_shown", settings={"twice": True})["end"]
    assert "batch 0: the artifact 'batch' was given twice\n    allowed: once per batch" in end.error


def test_the_limit_is_the_one_that_is_stated() -> None:
    assert MOST_BYTES == 32 * 2**20


def test_a_resumed_trial_shows_what_an_undisturbed_one_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"checkpoint": CheckpointPlan(batches=3)}
    broken = run(tmp_path / "a", "Shown", settings={"die_at": 8}, **plan)
    assert [row["batch_index"] for row in broken["artifacts"] if row["name"] == "picture"] == LOOKED_AT
    for file in broken["paths"].journal.iterdir():
        file.unlink()
    monkeypatch.setenv("alive", "1")
    resumed = run(tmp_path / "a", "Shown", attempt=2, settings={"die_at": 8}, **plan)
    undisturbed = run(tmp_path / "b", "Shown", settings={"die_at": 8}, **plan)
    assert resumed["columns"]["resumed_at"] == 6

    def content(found: dict[str, Any]) -> list[dict[str, Any]]:
        return [{k: v for k, v in row.items() if k not in ("file", "sha256")} for row in found["artifacts"]]

    assert content(resumed) == content(undisturbed)
    for batch in LOOKED_AT:
        mine, others = arrays(resumed, batch), arrays(undisturbed, batch)
        assert mine.keys() == others.keys()
        assert all(mine[name].tobytes() == others[name].tobytes() for name in mine)
    files = [row["file"].rsplit("-", 2)[1] for row in resumed["artifacts"] if row["name"] == "picture"]
    assert files == ["1", "1", "2"]  # the batch after the checkpoint was looked at again


def test_a_trial_that_diverges_shows_nothing_of_that_batch(tmp_path: Path) -> None:
    found = run(tmp_path, "Line", settings={"bad_at": 5, "how": "nan"})
    assert found["end"].status == "diverged"
    assert {row["batch_index"] for row in found["artifacts"]} == {0}


def test_histograms_of_numbers_that_are_none() -> None:
    inf, nan = float("inf"), float("nan")
    assert norm("n", torch.tensor([1.0, nan])).value is None
    assert norm("n", torch.tensor([3.0, 4.0])).value == 5.0
    mixed = histogram("h", torch.tensor([nan, inf, 1.0, 2.0]))
    assert (mixed.low, mixed.high, sum(mixed.counts or ()), mixed.shape) == (1.0, 2.0, 2, (4,))
    assert len(mixed.counts or ()) == BINS
    none = histogram("h", torch.tensor([nan]))
    assert (none.low, none.high, none.counts) == (None, None, (0,))
    equal = histogram("h", torch.zeros(5))
    assert (equal.low, equal.high, equal.counts) == (0.0, 0.0, (5,))
    assert histogram("h", torch.tensor([5e-324, 1e-323], dtype=torch.float64)).counts == (2,)
    assert histogram("h", torch.zeros(0)).counts == (0,)


def test_images_keep_eleven_bits_and_what_is_no_number() -> None:
    picture = shown("p", Images(torch.tensor([[[[-0.5, 0.25], [2.0, float("nan")]]]])), "here").array
    assert picture is not None
    assert picture.dtype == np.float16
    np.testing.assert_array_equal(picture[0, 0], np.array([[0.0, 0.25], [1.0, np.nan]], np.float16))
