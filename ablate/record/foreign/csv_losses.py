"""A plain CSV of losses, a row for each batch of each trial."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO

from ablate.design.trial_spec import Scalar
from ablate.errors import BadInput, Problem, nearest
from ablate.record.foreign.trial import ForeignTrial, Names, significant_digits

DEFAULTS = {
    "arm": ("arm",),
    "block": ("block", "seed"),
    "step": ("batch_index", "step", "batch", "iteration"),
    "loss": ("loss",),
}
_Key = tuple[str, int, tuple[tuple[str, Scalar], ...]]
_Row = tuple[int, str, int]


def read_csv(path: Path, names: Names) -> list[ForeignTrial]:
    """Read the trials of a CSV; the rows may come in any order.

    Args:
        path: a file with a head line.
        names: which columns hold what.

    Raises:
        BadInput: a column is missing, a value is no number, or a batch is there twice; file and line are named.
    """
    found: dict[_Key, list[_Row]] = defaultdict(list)
    with _opened(path) as file:
        lines = csv.reader(file)
        try:
            head = next(lines, [])
            columns = {role: _column(role, getattr(names, role), head, path) for role in DEFAULTS}
            factors = {name: _column("factor", name, head, path) for name in names.factors}
            for row in lines:
                if row:
                    _take(row, head, columns, factors, f"{path}:{lines.line_num}", lines.line_num, found)
        except csv.Error as error:
            raise BadInput(Problem(f"{path}:{lines.line_num}", f"is no CSV ({error})")) from error
        except UnicodeDecodeError as error:
            raise BadInput(Problem(str(path), "is no text in UTF-8", advice="Is it compressed?")) from error
    if not found:
        raise BadInput(Problem(str(path), "holds no row of losses"))
    return [_trial(key, rows, path) for key, rows in found.items()]


def number(text: str, where: str, role: str) -> float:
    """Read a number, ``nan`` and ``inf`` among them.

    Raises:
        BadInput: it is none.
    """
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(Problem(f"{where}: {role}", f'found "{text}"', "a number, nan or inf")) from error


def whole(text: str, where: str, role: str) -> int:
    """Read a whole number, also when it is written ``3.0``.

    Raises:
        BadInput: it is none, or the store's 64 bits do not hold it.
    """
    try:
        found = int(text)
    except ValueError:
        value = number(text, where, role)
        if value != value or value in (float("inf"), float("-inf")) or value != int(value):
            raise BadInput(Problem(f"{where}: {role}", f'found "{text}"', "a whole number")) from None
        found = int(value)
    if abs(found) >= 2**63:
        raise BadInput(Problem(f"{where}: {role}", f'found "{text}"', "a whole number of 64 bits"))
    return found


def level(text: str) -> Scalar:
    """Return a level as what it looks like: a truth value, a whole number, a number, else text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _opened(path: Path) -> IO[str]:
    try:
        return path.open(newline="", encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(Problem(str(path), f"cannot be read ({error.strerror})")) from error


def _column(role: str, given: str | None, head: Sequence[str], path: Path) -> int:
    wanted = (given,) if given else DEFAULTS[role]
    for name in wanted:
        if head.count(name) > 1:
            raise BadInput(
                Problem(f"{path}:1", f"has {head.count(name)} columns called {name!r}", advice="Rename one.")
            )
        if name in head:
            return head.index(name)
    found = f"has no column {' or '.join(map(repr, wanted))} for the {role}"
    advice = "" if given else f"Name it with --{role} COLUMN."
    raise BadInput(Problem(f"{path}:1", found, ", ".join(head) or "none", nearest(wanted[0], head), advice))


def _take(
    row: Sequence[str],
    head: Sequence[str],
    columns: Mapping[str, int],
    factors: Mapping[str, int],
    where: str,
    line: int,
    found: dict[_Key, list[_Row]],
) -> None:
    if len(row) != len(head):
        raise BadInput(Problem(where, f"has {len(row)} fields, and the head has {len(head)}"))
    arm = row[columns["arm"]].strip()
    if not arm:
        raise BadInput(Problem(f"{where}: {head[columns['arm']]}", "is empty", "an arm's name"))
    block = whole(row[columns["block"]], where, head[columns["block"]])
    cell = tuple((name, level(row[at].strip())) for name, at in factors.items())
    step = whole(row[columns["step"]], where, head[columns["step"]])
    found[arm, block, cell].append((step, row[columns["loss"]], line))


def _trial(key: _Key, rows: list[_Row], path: Path) -> ForeignTrial:
    arm, block, cell = key
    begin = min(line for _, _, line in rows)
    rows.sort()
    for (step, _, line), (again, _, other) in pairwise(rows):
        if step == again:
            found = f"batch {step} of arm {arm}, block {block} is there twice, first in line {min(line, other)}"
            advice = "Is there another column that tells these rows apart? Name it with --factor COLUMN."
            raise BadInput(Problem(f"{path}:{max(line, other)}", found, advice=advice))
    return ForeignTrial(
        arm=arm,
        block=block,
        factors=dict(cell),
        where=f"{path}:{begin}",
        steps=[step for step, _, _ in rows],
        losses=[number(text, f"{path}:{line}", "loss") for _, text, line in rows],
        digits=max(significant_digits(text) for _, text, _ in rows),
    )
