"""``ablate show``: one picture with the arms in rows, written beside the run's data or where the user says."""

from __future__ import annotations

from pathlib import Path

from ablate.record.disk import store_io, write_aside
from ablate.record.output_path import check_file
from ablate.record.reader import Run
from analysis.figures.arm_pictures import draw_arm_pictures
from analysis.showing import showing


def write_show(run: Run, batch: int | None = None, block: int | None = None, output: Path | None = None) -> Path:
    """Draw a batch of a block and write it as PNG.

    Args:
        run: the store; only its Parquet files and the files that they name are read.
        batch: the last one that every arm has, if None.
        block: the first with the most arms, if None.
        output: ``pictures/`` in the run's folder, if None.

    Returns:
        The picture's path.

    Raises:
        BadInput: no pictures, or none of that batch or block, or no place to write to.
        StoreError: a file cannot be read or written.
    """
    if output is not None:
        check_file(output, "--output")
    found = showing(run, batch, block)
    path = output or run.paths.picture(found.batch, found.block)
    if output is None:
        with store_io(path):
            path.parent.mkdir(exist_ok=True)
    write_aside(path, draw_arm_pictures(found, run.grid.study).png())
    return path
