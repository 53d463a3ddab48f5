"""Which pictures are put side by side, how they are drawn, and what is said when there are none."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ablate.design.grid import load_grid
from ablate.errors import BadInput
from ablate.record.artifact_file import write_arrays
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from analysis.picture_rows import SHARED, groups, scales
from analysis.pictures import find_pictures
from analysis.show import write_show
from analysis.showing import NothingToShow, showing

GRID = """
    study: looks
    question: q
    trainable: m:T
    arms: {one: {}, two: {threads: 2}, again: {repeat: one, blocks: 1}}
    blocks: [3, 5]
    batches: 100
    artifacts: {at: [0, 50, last]}
"""
PNG = b"\x89PNG\r\n\x1a\n"


def make(
    folder: Path,
    text: str = GRID,
    batches: Any = lambda spec: (0, 50, 99),
    kinds: str = "image map",
    equal: bool = False,
) -> Run:
    """A store whose trials show a shared input, an output of their own and an error."""
    from ablate.design.cross import trials

    (folder / "grid.yaml").write_text(textwrap.dedent(text))
    grid = load_grid(folder / "grid.yaml")
    with Store.open(folder / "runs" / "looks", grid, b"") as store:
        for number, spec in enumerate(trials(grid)):
            with Recorder(store.paths, spec, 1) as recorder:
                for batch in range(100):
                    recorder.record(batch, 1.0, 0.01, {})
                for batch in batches(spec):
                    level = 0.5 if equal else number / 10
                    pictures = {
                        "input": ("image", np.full((3, 3, 4, 6), 200, np.uint8)),
                        "output": ("image", np.full((3, 3, 4, 6), level, np.float16)),
                        "error": ("map", np.full((3, 1, 4, 6), 0.01 + level, np.float16)),
                    }
                    chosen = {name: array for name, (kind, array) in pictures.items() if kind in kinds}
                    if chosen:
                        path = store.paths.artifact_file(spec.trial_id, 1, batch)
                        digest = write_arrays(path, chosen)
                        for name, array in chosen.items():
                            columns = {"kind": pictures[name][0], "shape": array.shape, "file": path.name}
                            recorder.artifact(batch_index=batch, name=name, sha256=digest, **columns)
                    if "number" in kinds:
                        recorder.artifact(batch_index=batch, name="total", kind="number", shape=[], value=1.0)
                recorder.finish("done")
            store.absorb(spec.trial_id, 1)
    return Run(folder / "runs" / "looks")


def test_the_last_batch_that_every_arm_has_in_the_block_with_most_arms(tmp_path):
    run = make(tmp_path, batches=lambda spec: (0, 50) if spec.arm == "two" else (0, 50, 99))
    found = showing(run)
    assert (found.batch, found.block) == (50, 3)
    assert [trial.arm for trial in found.trials] == ["one", "two", "again"]
    assert [list(trial.pictures) for trial in found.trials] == [["input", "output", "error"]] * 3
    assert showing(run, batch=99).lacking == ("two",)
    assert [trial.arm for trial in showing(run, block=5).trials] == ["one", "two"]


def test_what_is_equal_in_every_arm_is_drawn_once(tmp_path):
    (group,) = groups(showing(make(tmp_path)).trials)
    assert [(row.arm, row.name) for row in group.rows] == [
        (SHARED, "input"),
        *((arm, name) for arm in ("one", "two", "again") for name in ("output", "error")),
    ]


def test_arms_that_are_equal_throughout_are_all_drawn(tmp_path):
    (group,) = groups(showing(make(tmp_path, equal=True)).trials)
    assert [row.arm for row in group.rows] == [arm for arm in ("one", "two", "again") for _ in range(3)]


def test_one_colour_scale_for_all_arms(tmp_path):
    (group,) = groups(showing(make(tmp_path)).trials)
    errors = [float(row.picture.values.max()) for row in group.rows if row.name == "error"]
    assert scales(group.rows) == {"error": pytest.approx(max(errors), rel=1e-6)}


def test_the_picture_is_written_and_is_the_same_every_time(tmp_path):
    run = make(tmp_path)
    path = write_show(run)
    assert path == run.paths.root / "pictures" / "batch-99-block-3.png"
    assert path.read_bytes().startswith(PNG)
    again = write_show(run, 99, 3, tmp_path / "other.png")
    assert again.read_bytes() == path.read_bytes()
    assert write_show(run, 0, 5).name == "batch-0-block-5.png"


def test_cells_have_a_group_each_and_a_report_a_picture_each(tmp_path):
    run = make(tmp_path, GRID + "    factors: {lr: [0.1, 0.2]}\n    contrasts: []\n")
    assert [group.title for group in groups(showing(run).trials)] == ["lr = 0.1", "lr = 0.2"]
    found = find_pictures(run)
    assert [one.title for one in found.shown] == ["What the arms produce after batch 99, block 3"] * 2
    assert "one colour scale for all arms" in found.shown[0].caption
    assert "On top: what is equal bit for bit in every arm." in found.shown[0].caption


def test_pixels_that_are_no_number_are_drawn(tmp_path):
    run = make(tmp_path)
    for path in (run.paths.artifact_files).iterdir():
        write_arrays(
            path, {n: np.full_like(a, np.nan) if a.dtype.kind == "f" else a for n, a in run.arrays(path.name).items()}
        )
    assert write_show(run).read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"text": GRID.replace("    artifacts: {at: [0, 50, last]}\n", ""), "batches": lambda spec: ()},
            "has no artifacts, since its grid asks for none\n    write `artifacts: {at: [0, last]}` into the grid",
        ),
        ({"batches": lambda spec: ()}, "has no artifacts yet: no trial that was to record them is done"),
        (
            {"kinds": "number"},
            "has no images, only 15 of kind number\n    return Images from the trainable's look(model, place)",
        ),
    ],
)
def test_messages_about_runs_without_pictures(tmp_path, changes, message):
    run = make(tmp_path, **changes)
    with pytest.raises(NothingToShow) as error:
        write_show(run)
    assert message in str(error.value)
    assert find_pictures(run)._repr_html_() == ""


def test_messages_about_unknown_batches_and_blocks(tmp_path):
    run = make(tmp_path)
    with pytest.raises(BadInput) as error:
        showing(run, batch=60)
    assert str(error.value) == (
        "--batch 60: has no pictures in block 3\n    did you mean '50'?\n    allowed: 0, 50, 99"
    )
    with pytest.raises(BadInput) as error:
        showing(run, block=9)
    assert str(error.value) == "--block 9: has no pictures\n    did you mean '5'?\n    allowed: 3, 5"


def test_a_lost_file_stops_the_command_but_not_the_report(tmp_path):
    run = make(tmp_path)
    next(run.paths.artifact_files.glob("*-99.npz")).unlink()
    for path in run.paths.artifact_files.glob("*-99.npz"):
        path.unlink()
    with pytest.raises(Exception, match="npz: is missing"):
        write_show(run)
    assert "The pictures cannot be shown" in find_pictures(run)._repr_html_()
