"""Probes of synthetic runs, written through the real store; a function says what was found of each snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import Told, arm, block_losses, generator, grid, write_run

from ablate.design.cross import trials
from ablate.design.spec import GridSpec
from ablate.design.trial_spec import TrialSpec
from ablate.record.disk import write_aside
from ablate.record.reader import Run
from ablate.record.store import Store

CURVATURE = "loss / parameter^2"
DIMENSION = 400
AT = (0, 20, 40, 60)
SADDLE, MINIMUM, SLOPE, UNDECIDED = "near a saddle", "near a minimum", "on a slope", "undecided"


def snapshot(
    batches: int,
    kind: str = "near a minimum",
    *,
    player: str = "model",
    top: float = 10.0,
    bottom: float = -0.5,
    bound: float = 1e-6,
    converged: bool = True,
    share: float | None = 0.1,
    loss: float = 1.0,
    gradient: float = 0.05,
    escape: float | None = 0.01,
    density: bool = True,
    evidence: str = "told so",
    **columns: Any,
) -> list[dict[str, Any]]:
    """Return the rows of one probe, as ``ablate.curvature.rows`` and whoever runs it make them."""
    floor = 1e-3 * max(abs(top), abs(bottom))
    common = {"dtype": "float64", "device": "cpu", "mode": "train", "seed": 0, "products": 50, "samples": 64}
    common |= {"batches": batches, "player": player, "probe_hash": "0123456789abcdef"} | columns

    def row(name: str, value: float | None, **more: Any) -> dict[str, Any]:
        return {"name": name, "value": value, "method": "lanczos", **common, **more}

    rows = [
        row("loss", loss, unit="loss", method="exact"),
        row("dimension", float(DIMENSION), unit="count", method="exact"),
        row("lambda_max", top, unit=CURVATURE, position=0, bound=bound, converged=converged),
        row("lambda_max", top / 2, unit=CURVATURE, position=1, bound=bound, converged=converged),
        row("lambda_min", bottom, unit=CURVATURE, position=0, bound=bound, converged=converged),
        row("negativity_ratio", max(-bottom / top, 0.0), unit="share"),
        row("floor", floor, unit=CURVATURE),
        row("gradient_norm", 0.3, unit="loss / parameter", method="exact"),
        row("gradient_negative_share", gradient, unit="share"),
        row("gradient_captured", 0.9, unit="share"),
        row("decrement_most", float("inf"), unit="loss", method="bracket"),
        row("kind", None, method="decrement", text=kind),
        row("evidence", None, method="decrement", text=evidence),
        row("escape_rate", escape, unit="1 / step", method="SGD" if escape is not None else "no rule for Mine"),
    ]
    if share is not None:
        rows.append(row("negative_share", share, unit="share", method="quadrature", bound=0.02))
        rows.append(row("negative_share_low", share / 2, unit="share", method="quadrature"))
        rows.append(row("negative_share_high", min(share + 0.3, 1.0), unit="share", method="quadrature"))
    if density:
        # a bulk around 0, and each edge an atom of weight 1/n, from two starts
        for start in range(2):
            bulk = np.linspace(-0.02, 0.03, 5 + start)
            points = [bottom, *bulk.tolist(), top]
            masses = [1 / DIMENSION, *[(1 - 2 / DIMENSION) / len(bulk)] * len(bulk), 1 / DIMENSION]
            rows.append(
                row("density", None, unit="share", method="quadrature", position=start, points=points, masses=masses)
            )
    return rows


def game(batches: int, real: Sequence[float], imaginary: Sequence[float], **columns: Any) -> list[dict[str, Any]]:
    """Return the rows of a game Jacobian's eigenvalues."""
    common = {"batches": batches, "player": "game", "method": "dense", "unit": CURVATURE, "dtype": "float64"}
    common |= {"device": "cpu", "mode": "train", "samples": 64, "probe_hash": "0123456789abcdef"} | columns
    return [
        {"name": name, "position": at, "value": value, **common}
        for name, values in (("game_real", real), ("game_imag", imaginary))
        for at, value in enumerate(values)
    ]


LOOK = {"method": "exact", "dtype": "float64", "device": "cpu", "mode": "train", "samples": 64, "player": "model"}


def surface(batches: int, size: int = 15, extent: float = 2.0, **columns: Any) -> list[dict[str, Any]]:
    """Return the rows of a saddle's loss surface, 5 x^2 - y^2 + 6, one a line."""
    xs, ys = np.linspace(-extent, extent, size), np.linspace(-extent, extent, size)
    common = {**LOOK, "batches": batches, "name": "surface", "unit": "parameter", "probe_hash": "0123456789abcdef"}
    common |= columns
    return [
        {**common, "position": at, "value": float(y), "points": xs.tolist(), "masses": (5 * xs**2 - y**2 + 6).tolist()}
        for at, y in enumerate(ys)
    ]


def projection(batches: int, snapshot_of: str, x: float, y: float, **columns: Any) -> list[dict[str, Any]]:
    """Return where another snapshot, ``trial_id@batches``, lies on the surface around the one after ``batches``."""
    common = {**LOOK, "batches": batches, "text": snapshot_of, "probe_hash": "0123456789abcdef", **columns}
    return [
        {**common, "name": "projection", "position": 0, "value": x, "unit": "parameter"},
        {**common, "name": "projection", "position": 1, "value": y, "unit": "parameter"},
        {**common, "name": "projection_loss", "value": 5 * x**2 - y**2 + 7, "unit": "loss"},
    ]


def write_probes(root: Path, spec: GridSpec, tell: Callable[[TrialSpec], list[dict[str, Any]]]) -> Run:
    """Give the trials of a run their probes through the real store, and open it for reading.

    Args:
        root: a run that ``synthetic.write_run`` wrote.
        spec: its grid.
        tell: rows of all snapshots of a trial.
    """
    with Store.open(root, spec, b"study: synthetic\n") as store:
        for trial in trials(spec):
            rows = tell(trial)
            for batches in sorted({row["batches"] for row in rows}):
                lines = "".join(json.dumps(row) + "\n" for row in rows if row["batches"] == batches)
                write_aside(store.paths.probe_lines(trial.trial_id, batches), lines.encode())
                assert store.take_probe(trial.trial_id, batches)
    return Run(root)


def study(tmp_path, tell, blocks=7, arms=None, factors=None, **more):
    """A run of arms ``plain`` and ``slow`` and an A/A control; ``tell`` gives the rows of a trial's probes."""
    named = arms or {"plain": arm(blocks), "slow": arm(blocks, way=2), "again": arm(2, "plain")}
    spec = grid(named, factors=factors, **more)
    write_run(tmp_path / "run", spec, lambda trial: Told(block_losses(trial.block)))
    return write_probes(tmp_path / "run", spec, tell)


def kinds(told):
    """Return a ``tell`` that gives each arm's snapshots after training began these kinds, block by block."""

    def tell(trial):
        own = told[trial.arm](trial.block) if trial.arm in told else [MINIMUM] * 3
        rows = [row for batches, kind in zip(AT[1:], own, strict=True) for row in snapshot(batches, kind)]
        return [*snapshot(0, SLOPE), *rows]

    return tell


def values(trial):
    """Every snapshot with numbers of its own."""
    draws = generator(trial.arm, trial.block)
    return [
        row
        for batches in AT
        for row in snapshot(
            batches,
            SADDLE,
            top=10 * (1 + draws.random()),
            bottom=-draws.random(),
            share=draws.random(),
            gradient=draws.random(),
            loss=1 + draws.random(),
        )
    ]
