"""What probes found of the curvature: one snapshot of one trial after the other, read from Parquet."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ablate.design.cross import trials as planned_trials
from ablate.errors import BadInput, Problem
from ablate.record.reader import Run
from analysis.cells import Cell

GAME = "game"
"""What the rows of several players' game Jacobian call their player."""

COLUMNS = (
    "trial_id",
    "batches",
    "player",
    "name",
    "position",
    "value",
    "bound",
    "converged",
    "method",
    "text",
    "dtype",
    "device",
    "mode",
    "samples",
    "probe_hash",
)


class NoProbes(BadInput):
    """The run has no probes of its curvature."""


@dataclass(frozen=True)
class Value:
    """One number that a probe found.

    Attributes:
        value: finite.
        bound: bound or standard error; None where it is exact, or unknown.
        converged: of an edge, whether it did; else None.
        method: how it was had.
    """

    value: float
    bound: float | None
    converged: bool | None
    method: str


@dataclass(frozen=True)
class Conditions:
    """How it was looked at: what differs here must not be compared.

    Attributes:
        probe_hash: content of the probe set.
        samples: in it.
        dtype: precision of the Hessian products.
        mode: of the model's modules.
        device: where it was computed; results differ between devices by rounding only, as the bounds say.
    """

    probe_hash: str
    samples: int | None
    dtype: str
    mode: str
    device: str


@dataclass(frozen=True)
class Probed:
    """One snapshot of one trial, as one player sees it.

    Attributes:
        trial_id: the trial's.
        arm: its arm.
        block: its block.
        cell: its levels of the factors.
        batches: trained on before the snapshot; 0 for the initial weights.
        player: the player's name; ``game`` for the game Jacobian of several.
        conditions: how it was looked at.
        kind: near a minimum, near a saddle, on a slope, undecided; empty for a game.
        evidence: for the kind.
        values: name -> numbers by their position; what is not finite is left out.
    """

    trial_id: str
    arm: str
    block: int
    cell: Cell
    batches: int
    player: str
    conditions: Conditions
    kind: str
    evidence: str
    values: Mapping[str, tuple[Value, ...]]

    def first(self, name: str) -> Value | None:
        """Return the value of that name, the outermost of several; None if there is none."""
        found = self.values.get(name)
        return found[0] if found else None


def firsts(probed: Iterable[Probed], name: str) -> list[Value]:
    """Return the value of that name of every snapshot that has one."""
    return [value for one in probed if (value := one.first(name)) is not None]


def has_probes(run: Run) -> bool:
    """Say whether anything was probed."""
    return bool(run.probes(["batches"]).num_rows)


def read_probed(run: Run) -> tuple[Probed, ...]:
    """Return every snapshot that was looked at, by trial in the plan's order, then by batches.

    Raises:
        NoProbes: there is none; the message says how to get them.
        StoreError: a part cannot be read.
    """
    by_trial: dict[str, dict[tuple[int, str], list[dict[str, Any]]]] = {}
    for row in run.probes(list(COLUMNS)).to_pylist():
        by_trial.setdefault(row["trial_id"], {}).setdefault((row["batches"], row["player"]), []).append(row)
    found = []
    for trial in planned_trials(run.grid) if by_trial else ():
        trial_id = trial.trial_id
        for (batches, player), rows in sorted(by_trial.get(trial_id, {}).items(), key=lambda pair: pair[0]):
            texts = {row["name"]: row["text"] or "" for row in rows if row["name"] in ("kind", "evidence")}
            found.append(
                Probed(
                    trial_id=trial_id,
                    arm=trial.arm,
                    block=trial.block,
                    cell=tuple(trial.factors.items()),
                    batches=batches,
                    player=player,
                    conditions=_conditions(rows[0]),
                    kind=texts.get("kind", ""),
                    evidence=texts.get("evidence", ""),
                    values=_values(rows),
                )
            )
    if not found:
        raise NoProbes(_how_to_get_them(run))
    return tuple(found)


def _how_to_get_them(run: Run) -> Problem:
    where, found = str(run.paths.root), "holds no probes of the curvature"
    if run.grid.probes:
        return Problem(
            where, found, advice=f"its trials keep snapshots: `ablate probe {shlex.quote(where)}` looks at them"
        )
    advice = (
        "write `probes: {curvature: {at: [0, 50, last]}}` into the grid and launch it; a trial that is done keeps no "
        "snapshots any more, so name a new study"
    )
    return Problem(where, found, advice=advice)


def players(probed: Iterable[Probed]) -> list[str]:
    """Return the players, in the order of their rows; a game is none."""
    return list(dict.fromkeys(one.player for one in probed if one.player != GAME))


def _conditions(row: Mapping[str, Any]) -> Conditions:
    known = {name: row[name] or "" for name in ("probe_hash", "dtype", "mode", "device")}
    return Conditions(samples=row["samples"], **known)


def _values(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Value, ...]]:
    placed: dict[str, list[tuple[int, Value]]] = {}
    for row in rows:
        value = row["value"]
        if value is not None and math.isfinite(value):
            bound = row["bound"]
            known = bound if bound is not None and math.isfinite(bound) else None
            one = Value(value, known, row["converged"], row["method"] or "")
            placed.setdefault(row["name"], []).append((row["position"] or 0, one))
    return {name: tuple(one for _, one in sorted(of, key=lambda pair: pair[0])) for name, of in placed.items()}
