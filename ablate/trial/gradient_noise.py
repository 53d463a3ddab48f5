"""``gradient_noise``: rounding noise of a chosen size in every gradient, right before the optimiser uses it.

The unit is the gradient's own last place (ulp): ``gradient_noise: N`` moves each element by an even draw from [-N, N]
of the distances to its neighbours. So 1 is what one more rounding could do at worst, and in float32 65536 is one ulp of
bfloat16: 2^-7 / 2^-23, their spacings at 1. Zeros stay zeros, as they do under rounding. 0 adds nothing, bit for bit.

The draws come from a stream of their own (``session.declared``), made on the CPU: the same in every arm and on every
machine, outside the hash of the study's draws. A structured trainable's step calls ``noise``; a function trainable owns
its loop, so there every optimiser of torch is watched (``in_every_step``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ablate.errors import Problem
from ablate.trial.draw import Draw, Stream
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.protocol import Player

STREAM = "ablate:gradient-noise"


def noisy(gradient: Tensor, share: Tensor, ulps: float) -> Tensor:
    """Move each element by ``share * ulps`` units in its last place.

    Args:
        gradient: any floating type and shape.
        share: in [-1, 1], same shape, float64.
        ulps: the size of the noise.

    Returns:
        Tensor: same type and shape, rounded once from float64; zeros and what is not finite are as they were.
    """
    size = gradient.abs()
    spacing = torch.nextafter(size, torch.full_like(size, torch.inf)) - size  # exact: a power of two
    moved = (gradient.double() + ulps * share * spacing.double()).to(gradient.dtype)
    return torch.where((gradient == 0) | ~spacing.isfinite(), gradient, moved)


def inject(parameters: Mapping[str, nn.Parameter], stream: Stream, ulps: float) -> None:
    """Move the gradients of ``parameters`` in place, in the mapping's order; one without a gradient draws nothing."""
    with torch.no_grad():
        for parameter in parameters.values():
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.is_sparse:
                parameter.grad = gradient = gradient.coalesce()
                gradient = gradient._values()
            share = 2 * stream.uniform(tuple(gradient.shape)).double() - 1
            gradient.copy_(noisy(gradient, share.to(gradient.device), ulps))


def noise(draw: Draw, ulps: float) -> Callable[[Player], None] | None:
    """Return what moves a player's gradients; None for no noise."""
    return (lambda player: inject(player.parameters, draw(STREAM), ulps)) if ulps else None


@contextmanager
def in_every_step(draw: Draw, ulps: float) -> Iterator[None]:
    """Move the gradients that any optimiser of torch is about to use, while the block runs.

    A step that is given a closure computes its gradients in it, so there they are moved each time it has run. An
    optimiser that steps another one in its own step gets the noise twice.

    Raises:
        ArmNotInEffect: the block ended and no optimiser had made a step.
    """
    if not ulps:
        yield
        return
    steps = 0

    def move(optimiser: torch.optim.Optimizer) -> None:
        every = (parameter for group in optimiser.param_groups for parameter in group["params"])
        inject({str(position): parameter for position, parameter in enumerate(every)}, draw(STREAM), ulps)

    def before(optimiser: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        nonlocal steps
        steps += 1
        closure = args[1] if len(args) > 1 else kwargs.get("closure")  # args[0] is the optimiser
        if closure is None:
            move(optimiser)
            return None

        def computed() -> Any:
            loss = closure()
            move(optimiser)
            return loss

        return (args[0], computed, *args[2:]), {key: value for key, value in kwargs.items() if key != "closure"}

    hook = register_optimizer_step_pre_hook(before)
    try:
        yield
    finally:
        hook.remove()
    if not steps:
        found = f"asked for {ulps:g} ulps, but no optimiser of torch.optim made a step"
        advice = "Noise goes into the gradients that an optimiser is given; a loop that steps by hand gets none."
        raise ArmNotInEffect(Problem("gradient_noise", found, advice=advice))
