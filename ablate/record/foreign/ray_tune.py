"""A Ray Tune experiment's folder: one folder a trial, with its parameters and a line of results for each report.

Read are ``params.json`` and ``result.json`` (``progress.csv`` where that is missing or empty); Ray is not needed.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ablate.design.trial_spec import Scalar
from ablate.errors import BadInput, Problem, nearest
from ablate.record.foreign.csv_losses import number, whole
from ablate.record.foreign.trial import ForeignTrial, Names, significant_digits

PARAMS, RESULTS, PROGRESS = "params.json", "result.json", "progress.csv"
BLOCKS = ("block", "seed")


class _Number(float):
    """A float that remembers its text."""

    text: str

    def __new__(cls, text: str) -> _Number:
        made = super().__new__(cls, text)
        made.text = text
        return made


def trial_folders(path: Path) -> list[Path]:
    """Return the folders of trials under an experiment's folder; none if it is no such folder."""
    return sorted({file.parent for name in (RESULTS, PROGRESS) for file in path.glob(f"**/{name}")})


def read_tune(path: Path, names: Names) -> list[ForeignTrial]:
    """Read the trials of an experiment.

    Args:
        path: the experiment's folder.
        names: the parameter that is the arm, the one that is the block, the reported values that are step and loss.
            Every other parameter that varies between trials becomes a factor.

    Raises:
        BadInput: a parameter or value is missing or of no use; file and line are named.
    """
    folders = trial_folders(path)
    params = {folder: _params(folder) for folder in folders}
    known = sorted({name for one in params.values() for name in one})
    arm = _parameter("arm", names.arm, ("arm",), known, path)
    block = _parameter("block", names.block, BLOCKS, known, path)
    varied = [name for name in known if name not in (arm, block) and _varies(name, params)]
    return [
        _trial(folder, one, arm, block, varied, names.step or "training_iteration", names.loss or "loss")
        for folder, one in params.items()
    ]


def _params(folder: Path) -> dict[str, Any]:
    path = folder / PARAMS
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadInput(Problem(str(path), "is missing, so the trial's parameters are not known")) from error
    except (OSError, ValueError) as error:
        raise BadInput(Problem(str(path), f"cannot be read ({error})")) from error
    if not isinstance(content, dict):
        raise BadInput(Problem(str(path), "holds no parameters", "a JSON object"))
    return dict(_flat(content))


def _flat(content: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", value


def _parameter(role: str, given: str | None, wanted: tuple[str, ...], known: list[str], path: Path) -> str:
    for name in (given,) if given else wanted:
        if name in known:
            return name
    found = f"no trial has a parameter {' or '.join(map(repr, (given,) if given else wanted))} for the {role}"
    advice = "" if given else f"Name it with --{role} PARAMETER."
    raise BadInput(Problem(str(path), found, ", ".join(known) or "none", nearest(given or wanted[0], known), advice))


def _varies(name: str, params: Mapping[Path, Mapping[str, Any]]) -> bool:
    return len({json.dumps(one.get(name), sort_keys=True) for one in params.values()}) > 1


def _trial(
    folder: Path, params: Mapping[str, Any], arm: str, block: str, varied: list[str], step: str, loss: str
) -> ForeignTrial:
    where = str(folder / PARAMS)
    for name in (arm, block, *varied):
        if not isinstance(params.get(name), Scalar):
            found = f"found {json.dumps(params.get(name))}, and the parameter differs between trials"
            raise BadInput(Problem(f"{where}: {name}", found, "text, a number or a truth value"))
    steps, losses, digits, durations = [], [], 0, []
    last: Mapping[str, Any] = {}
    for line, row in _results(folder):
        for name in (step, loss):
            if name not in row:
                raise BadInput(Problem(line, f"reports no {name!r}", ", ".join(row), nearest(name, list(row)),
                                       "Name it with --loss or --step."))  # fmt: skip
        steps.append(whole(_text(row[step]), line, step))
        losses.append(number(_text(row[loss]), line, loss))
        digits = max(digits, significant_digits(_text(row[loss])))
        durations.append(number(_text(row.get("time_this_iter_s", "nan")), line, "time_this_iter_s"))
        if len(steps) > 1 and steps[-1] <= steps[-2]:
            advice = "The trial was restored or began again; keep one of its histories."
            raise BadInput(Problem(line, f"{step} {steps[-1]} comes after {steps[-2]}", advice=advice))
        last = row
    return ForeignTrial(
        arm=_text(params[arm]),
        block=whole(_text(params[block]), where, block),
        factors={name: params[name] for name in varied},
        where=str(folder),
        steps=steps,
        losses=losses,
        digits=digits,
        durations=durations,
        facts=_facts(last),
    )


def _results(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and content of each report; a last line that broke off is left out."""
    path = folder / RESULTS
    if path.exists() and path.stat().st_size:
        lines = path.read_text(encoding="utf-8").split("\n")
        for at, line in enumerate(lines[:-1], start=1):
            try:
                yield f"{path}:{at}", json.loads(line, parse_float=_Number)
            except ValueError as error:
                raise BadInput(Problem(f"{path}:{at}", f"is no JSON ({error})")) from error
        return
    path = folder / PROGRESS
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            for row in rows:
                yield f"{path}:{rows.line_num}", {name: value for name, value in row.items() if value not in (None, "")}


def _text(value: object) -> str:
    return value.text if isinstance(value, _Number) else str(value)


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if row.get("hostname"):
        facts["host"] = str(row["hostname"])
    if row.get("time_total_s"):
        facts["wall_s"] = float(row["time_total_s"])
    return facts
