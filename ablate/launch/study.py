"""A grid that was read and checked, and where its code is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ablate.design.cross import trials
from ablate.design.factors import written_levels
from ablate.design.grid import GridSpec, load_grid
from ablate.design.plan import refuse_oversubscription
from ablate.design.resolve import check_settings, find_trainable
from ablate.design.shadow import check_not_shadowed
from ablate.design.trial_spec import TrialSpec
from ablate.design.yaml_source import Loc, dotted, read_yaml
from ablate.errors import BadInput
from ablate.launch import placement
from ablate.launch.inputs import Inputs


@dataclass(frozen=True)
class Study:
    """A grid that was read and checked, and where its code is found.

    Attributes:
        path: the grid file.
        grid: what it says.
        specs: its trials, in launch order.
        search: folders that the trainable is imported from first.
        where: names a place of the grid file.
        inputs: weights and batches from elsewhere to run on; None for the trainable's own.
        keep: folder that every trial's audit writes its inputs and values to; None for none.
    """

    path: Path
    grid: GridSpec
    specs: tuple[TrialSpec, ...]
    search: tuple[str, ...]
    where: Callable[[Loc], str] = dotted
    inputs: Inputs | None = None
    keep: Path | None = None


def read_study(path: Path, cores: int | None = None) -> Study:
    """Read a grid and check it against its trainable's source and this machine, importing neither torch nor ray.

    Args:
        path: the grid file.
        cores: the most that a trial could use where it is to run; None for this machine's.

    Raises:
        BadInput: with every problem found.
    """
    grid = load_grid(path)
    search = (path.resolve().parent, Path.cwd())
    check_not_shadowed(search)
    written = read_yaml(path)
    where = written.where
    source = find_trainable(grid.trainable, search)
    if problems := check_settings(source, grid, where, written_levels(written)):
        raise BadInput(*problems)
    refuse_oversubscription(grid, cores or placement.available_cores(), where)
    return Study(path, grid, trials(grid), tuple(dict.fromkeys(str(folder) for folder in search)), where)
