"""``ablate export``: which formats there are."""

from __future__ import annotations

from pathlib import Path

from ablate.errors import BadInput, Problem, nearest
from ablate.record.reader import Run
from analysis.export_csv import check_fresh, export_csv
from analysis.export_wandb import export_wandb

FORMATS = {"csv": export_csv, "wandb": export_wandb}


def export(run: Run, to: str, folder: Path) -> dict[str, int]:
    """Export a run.

    Args:
        run: the store.
        to: a name in ``FORMATS``.
        folder: made here; must not be there yet.

    Returns:
        dict[str, int]: rows by data set.

    Raises:
        BadInput: there is no such format, the folder is there already, or wandb is not installed.
        StoreError: what was read back differs from what was written, or the disk is full or fails.
    """
    if to not in FORMATS:
        raise BadInput(Problem("--to", f'found "{to}"', ", ".join(FORMATS), nearest(to, FORMATS)))
    check_fresh(folder)
    return FORMATS[to](run, folder)
