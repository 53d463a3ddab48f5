"""The optimiser's step as a linear map near a critical point: how fast it leaves along negative curvature.

SGD, with heavy ball (Polyak 1964) or Nesterov's momentum, is one on a quadratic. Adam, AdamW and RMSprop are with their
second moments held as they are, a diagonal preconditioner, which is how Cohen et al. 2022 (Adaptive gradient methods
at the edge of stability) read them; the moments follow the gradient within 1 / (1 - beta2) steps, so a rate holds for
fewer than that. Adam's first moment counts as warmed up: its correction, 1 / (1 - beta1^t), is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor

from ablate.curvature.edges import Edges

RULES = ("SGD", "Adam", "AdamW", "RMSprop")


@dataclass(frozen=True)
class Step:
    """One step of an optimiser: x' = shrink x - rate scale (momentum's mean of past gradients).

    Attributes:
        kind: the optimiser's class, and what is wrong with it if it has no rule.
        rate: the learning rate, times what a new gradient enters the momentum with; None: no rule for this optimiser.
        momentum: share of the past kept.
        scale: (n,) what each parameter's step is multiplied by; None for 1. 0 for one that the optimiser has not.
        shrink: 1 less learning rate times decoupled weight decay.
        added: curvature that a weight decay inside the gradient adds.
        nesterov: whether the momentum looks ahead.
    """

    kind: str
    rate: float | None = None
    momentum: float = 0.0
    scale: Tensor | None = None
    shrink: float = 1.0
    added: float = 0.0
    nesterov: bool = False


def escape_rate(
    curvature: float, rate: float, momentum: float = 0.0, shrink: float = 1.0, nesterov: bool = False
) -> float:
    """Return by how much the logarithm of a component along a direction of negative curvature grows per step.

    Gradient descent with heavy-ball momentum on a quadratic: the larger root of
    z^2 - (shrink + momentum - rate * curvature) z + momentum * shrink (Polyak 1964). 0 where nothing grows.

    Args:
        curvature: the eigenvalue.
        rate: the learning rate.
        momentum: the momentum, without dampening.
        shrink: what a decoupled weight decay multiplies the parameters with.
        nesterov: whether the momentum is Nesterov's: z^2 - (1 + momentum) d z + momentum d, d = 1 - rate * curvature.
    """
    if curvature >= 0:
        return 0.0
    down = 1 - rate * curvature
    middle, last = ((1 + momentum) * down, momentum * down) if nesterov else (shrink + momentum - 1 + down, momentum)
    last *= 1.0 if nesterov else shrink
    return max(float(np.log((middle + np.sqrt(middle**2 - 4 * last)) / 2)), 0.0)


def escape(edges: Edges, step: Step) -> tuple[float | None, float | None, str]:
    """Return the escape rate along the lowest eigenvectors, how far it may be from the true one, and the method.

    Without ``scale`` the bound is that of the lowest eigenvalue. With one, the map's fastest direction is no
    eigenvector of the Hessian: its curvature is at most the least of w' H w / w' D^-1 w, here over the bottom vectors'
    span. So the rate is a lower bound, and no bound from above is known.
    """
    if step.rate is None:
        return None, None, f"no rule for {step.kind}"
    lowest = edges.bottom[0]
    if step.scale is None:
        rate, least = (_rate(value + step.added, step) for value in (lowest.value, lowest.value - lowest.bound))
        return rate, least - rate, step.kind
    curvatures = np.array([edge.value for edge in edges.bottom]) + step.added
    vectors = torch.stack([edge.vector for edge in edges.bottom])
    scale = step.scale.to(vectors.device)
    at_rest = scale <= 0
    # a parameter that no step moves: an escape that needs it is none, rounding aside
    still = (vectors * at_rest).square().sum(dim=1).cpu().numpy() > len(at_rest) * np.finfo(np.float64).eps
    over = torch.where(at_rest, torch.zeros_like(scale), 1 / scale)
    masses = ((vectors * over) @ vectors.T).cpu().numpy()
    moved, method = ~still, f"{step.kind}: at least, diagonal held"
    if not moved.any():
        return 0.0, None, method
    curvature = float(eigh(np.diag(curvatures[moved]), masses[np.ix_(moved, moved)], eigvals_only=True)[0])
    return _rate(curvature, step), None, method


def _rate(curvature: float, step: Step) -> float:
    return escape_rate(curvature, step.rate or 0.0, step.momentum, step.shrink, step.nesterov)


def step_of(optimiser: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> Step:
    """Return an optimiser's next step as a linear map, from its groups and its state.

    Args:
        optimiser: as training left it, or after ``load_state_dict``.
        parameters: name -> the optimiser's own tensors, in the order of flat vectors (``Objective.parameters``).
    """
    cls, groups = type(optimiser), optimiser.param_groups
    kind = cls.__name__ if cls.__module__.startswith("torch.optim.") else f"{cls.__module__}.{cls.__qualname__}"
    if kind not in RULES:
        return Step(kind)
    if any(group["maximize"] for group in groups):
        return Step(f"{kind} that maximises")
    made = [_group(kind, group) for group in groups]
    first = next((step for step in made if step.rate), made[0])  # the others' rates are told relative to it
    if any(replace(step, rate=first.rate) != first for step in made):
        return Step(f"{kind} whose groups differ in momentum or weight decay")
    own = {id(p): torch.zeros(p.numel(), dtype=torch.float64) for p in parameters.values()}
    for group, step in zip(groups, made, strict=True):
        for p in (p for p in group["params"] if id(p) in own):
            held = _held(kind, group, optimiser.state.get(p))
            if held is None:
                return Step(f"{kind} before its first step")
            own[id(p)] += held * (step.rate / first.rate if step.rate and first.rate else 0.0)
    scale = torch.cat(list(own.values()))
    return first if bool((scale == 1).all()) else replace(first, scale=scale)


def _group(kind: str, group: Mapping[str, Any]) -> Step:
    """Return a group's step before second moments."""
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    if kind == "SGD":
        momentum = float(group["momentum"])
        enters = 1 - float(group["dampening"]) if momentum else 1.0
        return Step(kind, rate * enters, momentum, added=decay, nesterov=bool(group["nesterov"]) and momentum > 0)
    if kind == "RMSprop":
        return Step(kind, rate, float(group["momentum"]), added=decay)
    momentum = float(group["betas"][0])
    if group.get("decoupled_weight_decay", kind == "AdamW"):
        return Step(kind, rate * (1 - momentum), momentum, shrink=1 - rate * decay)
    return Step(kind, rate * (1 - momentum), momentum, added=decay)


def _held(kind: str, group: Mapping[str, Any], state: Mapping[str, Any] | None) -> Tensor | None:
    """Return what second moments multiply a parameter's step with, flat; None before there are any."""
    if kind == "SGD":
        return torch.ones((), dtype=torch.float64)
    if not state:
        return None
    if kind == "RMSprop":
        second = state["square_avg"].double()
        if group["centered"]:
            second = second - state["grad_avg"].double().square()
    else:
        second = state["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"].double()
        second = second / (1 - float(group["betas"][1]) ** float(state["step"]))
    held: Tensor = 1 / (second.clamp(min=0).sqrt() + float(group["eps"]))
    return held.reshape(-1).cpu()
