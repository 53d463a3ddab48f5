"""A map of the loss in the plane of a snapshot's extreme eigenvectors, with where other snapshots fall on it.

The plane goes through the centre, along the eigenvector of the largest eigenvalue and along that of the smallest. A
projection leaves out whatever a trajectory does outside the plane, which for a network is most of its length; so each
projected point's own loss is given too, which differs from the map's under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.curvature import Objective
from ablate.design.probes import SURFACE_POINTS
from ablate.record.paths import StorePaths
from ablate.trial.directions import Directions
from ablate.trial.kept_weights import KeptWeights, KeptWeightsError
from ablate.trial.kept_weights import load as load_weights
from ablate.trial.probed_model import ProbedModel, flat
from ablate.trial.protocol import Player
from ablate.trial.task import ProbeRequest

MARGIN = 0.15
"""The map reaches beyond the outermost projection by this share of the projections' range."""

Rows = list[dict[str, Any]]
Array = np.ndarray[Any, np.dtype[np.float64]]


def surface_rows(
    model: ProbedModel,
    centre: KeptWeights,
    directions: Mapping[str, Directions],
    paths: StorePaths,
    request: ProbeRequest,
) -> Rows:
    """Return the rows of a map around ``centre`` for each player, and of the projections onto it.

    Rows: ``surface``, one a line of the map: ``value`` its coordinate along the lower eigenvector, ``points`` those
    along the upper, ``masses`` the losses. ``projection`` at position 0 (upper) and 1 (lower) and ``projection_loss``,
    with the snapshot in ``text``.

    Args:
        model: the centre's trial; it is left at other weights.
        centre: its last snapshot.
        directions: each player's eigenvectors there.
        paths: the store.
        request: names the trials whose snapshots are projected.
    """
    others = dict(_others(paths, request))
    found: Rows = []
    for player in model.players:
        model.go_to(centre)
        found += _player(model, player, centre, directions[player.name], others)
    return found


def _others(paths: StorePaths, request: ProbeRequest) -> list[tuple[str, KeptWeights]]:
    """Return every snapshot that is there by ``trial_id@batches``."""
    found = []
    for trial_id in request.surface:
        for batches in request.plan.at:
            try:
                kept = load_weights(paths.snapshot(trial_id, batches))
            except KeptWeightsError as error:
                print(f"left out of the map: {error}", flush=True)
                continue
            if kept is not None:
                found.append((f"{trial_id}@{batches}", kept))
    return found


def _player(
    model: ProbedModel, player: Player, centre: KeptWeights, along: Directions, others: Mapping[str, KeptWeights]
) -> Rows:
    names, target = along.names, model.objective(player)
    plane = torch.stack([along.top[0], along.bottom[0]])
    at = flat(centre.model, names)
    places: dict[str, Array] = {}
    for label, kept in others.items():
        if all(name in kept.model and kept.model[name].shape == centre.model[name].shape for name in names):
            places[label] = (plane @ (flat(kept.model, names) - at)).numpy()
        else:
            print(f"{label} left out of the map: it is of another model", flush=True)
    dtype = str(target.dtype).removeprefix("torch.")

    def row(name: str, position: int | None, value: float, unit: str, **more: Any) -> dict[str, Any]:
        columns: dict[str, Any] = {"player": player.name, "name": name, "position": position, "value": value}
        rest = {"unit": unit, "bound": None, "converged": None, "method": "exact", "text": None, "points": None}
        return {**columns, **rest, "masses": None, "dtype": dtype, "seed": 0, "products": 0, **more}

    first, second = (_extent([place[i] for place in places.values()]) for i in (0, 1))
    found = [
        row(
            "surface",
            line,
            float(y),
            "parameter",
            points=first.tolist(),
            masses=_line(target, at + y * plane[1], plane[0], first),
        )
        for line, y in enumerate(second)
    ]
    for label, place in places.items():
        found += [row("projection", i, float(place[i]), "parameter", text=label) for i in (0, 1)]
        try:
            model.go_to(others[label])
            value = _loss(model.objective(player))
        except KeptWeightsError as error:
            print(f"{label}: no loss of its own on the map: {error}", flush=True)
            continue
        found.append(row("projection_loss", None, value, "loss", text=label))
    return found


def _line(target: Objective, at: Tensor, along: Tensor, steps: Array) -> list[float]:
    """Return the losses on a line of the map; the log grows with each, so that no long map is taken for hung."""
    losses = []
    for step in steps:
        losses.append(_loss(target, at + step * along))
        print("loss on the map", flush=True)
    return losses


def _extent(coordinates: list[float]) -> Array:
    """Return the map's coordinates along one direction: they cover the projections and the centre at 0, and more."""
    low, high = min([0.0, *coordinates]), max([0.0, *coordinates])
    beyond = MARGIN * (high - low) or 1.0  # nothing moved along it: any width does
    return np.linspace(low - beyond, high + beyond, SURFACE_POINTS)


def _loss(target: Objective, at: Tensor | None = None) -> float:
    """Return the loss, at other parameters if given; they stay there."""
    with torch.no_grad():
        if at is not None:
            pieces = target.split(at.to(device=target.device, dtype=target.dtype))
            for parameter, piece in zip(target.parameters.values(), pieces, strict=True):
                parameter.copy_(piece)
        return sum(weight * float(part()) for weight, part in zip(target.weights, target.parts, strict=True))
