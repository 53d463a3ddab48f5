"""The slope check: is the gradient that backward made the slope of the loss that forward computes?

A wrong backward is wrong in every precision, so no comparison of float32 with float64 sees it. The loss itself does: it
is evaluated in float64 at both ends of a short step along a direction, and the difference is held against
<gradient, direction> (central differences; Nocedal and Wright, Numerical Optimization (2006), section 8.1).

**Directions.** Each parameter moves in proportion to its own size, more if its share of the slope is small, along
standard normals plus its own gradient's direction with a random sign: every parameter then weighs in every direction,
and neither a fault that scales a gradient nor one that adds something foreign to it can hide (``ablate.audit.steps``).

**Steps and tolerance.** Two step sizes a direction, far apart enough to tell rounding (eps |loss| / h), curvature
(h**2, by Richardson's rule) and kinks crossed (h**(1/2)) from a fault: whatever makes them disagree widens the
tolerance, measured, not assumed (``ablate.audit.slope_probe``). Where they do not tell, further steps are read.

**Kinks.** A ReLU net has so many that some are always crossed; each alters the slope by its own small share, which the
two steps show. A point that sits on a kink (a pre-activation of exactly 0, a tie in a max-pool) gives a slope between
the two one-sided ones at every step size; only the one-sided slopes show it, and they are compared before anything is
called a bug. A direction that departs is halved, group by group, down to the parameters that are at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ablate.audit.slope_probe import NotFinite, Probe, Reading, Spent, Verdict
from ablate.audit.steps import Directions

NAMED = 6
"""Faulty parameters to name before the search ends."""

MEANING = (
    "the gradient is not the slope of the loss: a wrong backward, or one replaced on purpose (gradient reversal, "
    "clipping in a backward or a hook), which looks the same and cannot be declared"
)


@dataclass(frozen=True)
class Slope:
    """One comparison of a gradient with a slope.

    Attributes:
        name: the parameter, or ``direction 0`` to ``direction 2`` for a direction over all of them.
        verdict: of this comparison alone.
        error: |<gradient, direction> - slope|, in units of the loss; 0 or more and finite.
        scale: root of the summed squares of each parameter's part of <gradient, direction>, or |slope| if larger.
        bound: what rounding, truncation and kinks explain of the error.
        words: for a bug, what is wrong and what it may mean; else empty.
    """

    name: str
    verdict: Verdict
    error: float
    scale: float
    bound: float
    words: str = ""


@dataclass(frozen=True)
class SlopeResult:
    """Outcome of a slope check.

    Attributes:
        verdict: bug if any parameter's gradient is not the slope; clean if no direction departs; kink if the loss has
            no slope there; unjudged if rounding hides it or a number is not finite.
        directions: the comparisons over all parameters, three unless some had to be made again; empty if none could.
        bugs: one for each faulty parameter named; empty unless the verdict is bug.
        unseen: parameters whose share is so small that a fault of 1 % in them would not be seen.
        forwards: how often the loss was evaluated.
        detail: the verdict in words.
    """

    verdict: Verdict
    directions: tuple[Slope, ...]
    bugs: tuple[Slope, ...]
    unseen: tuple[str, ...]
    forwards: int
    detail: str


def slope_check(
    loss: Callable[[], float],
    parameters: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor | None],
    seed: int,
    *,
    most_forwards: int = 400,
) -> SlopeResult:
    """Hold gradients against slopes of the loss along 3 seeded directions; 12 evaluations if nothing departs.

    Args:
        loss: the loss at the parameters' present values, computed in float64 without autograd, the same bit for bit at
            every call: it puts back buffers, carry and generators itself.
        parameters: name -> float64 tensor. Moved in place without autograd and put back bit for bit, also on an
            exception; a graph that was recorded before must not be used afterwards.
        gradients: name -> gradient of the same shape, any floating type; None or absent means 0.
        seed: of the directions (Philox; no global generator is touched).
        most_forwards: evaluations after which the search for the faulty parameter ends.

    Returns:
        The verdict, with the faulty parameters by name.

    Raises:
        ValueError: a parameter is not float64, or a gradient has another shape or belongs to no parameter.
    """
    _checked(parameters, gradients)
    moving = {name: p for name, p in parameters.items() if p.numel()}
    present = {name: g.detach().to("cpu", torch.float64) for name, g in gradients.items() if g is not None}
    if bad := [name for name, g in present.items() if not torch.isfinite(g).all()]:
        return _unjudged(f"the gradient of {', '.join(bad[:NAMED])} is not finite", 0)
    if bad := [name for name, p in moving.items() if not torch.isfinite(p).all()]:
        return _unjudged(f"parameter {', '.join(bad[:NAMED])} is not finite", 0)
    if not moving:
        return _unjudged("there is no parameter to move", 0)
    directions = Directions({name: p.detach().cpu() for name, p in moving.items()}, present, seed)
    probe = Probe(loss, moving, present, directions, most_forwards)
    try:
        with probe.put_back(), torch.no_grad():
            return _check(probe)
    except Spent:
        return _unjudged(f"{probe.forwards} evaluations of the loss did not tell", probe.forwards)


def _check(probe: Probe) -> SlopeResult:
    everything = tuple(probe.parameters)
    try:
        first = probe.screen(everything)
    except NotFinite:
        first = []
    if first and all(reading.verdict == "clean" and reading.sees(everything) for reading in first):
        hidden = set.intersection(*(set(reading.unseen) for reading in first))
        return _result(probe, "clean", first, [], tuple(name for name in everything if name in hidden))
    if not probe.repeatable():
        return _unjudged("the loss is not finite, or not the same when evaluated twice", probe.forwards)
    overall = probe.judge(everything, (3, 4, 5, 6))
    agreed = [reading for reading in first if reading.verdict == "clean"]
    if overall.verdict == "clean":
        verdict: Verdict = "clean" if overall.sees(everything) else "unjudged"
        return _result(probe, verdict, [*agreed, overall], [], overall.unseen)
    bugs, left, kinked = _search(probe, everything, overall)
    if bugs:
        return _result(probe, "bug", first or [overall], bugs, ())
    if not left:  # what departed together agrees in every part
        return _result(probe, "clean", agreed, [], ())
    return _result(probe, "kink" if kinked else "unjudged", first or [overall], [], tuple(left))


def _search(probe: Probe, names: Sequence[str], overall: Reading) -> tuple[list[Slope], list[str], bool]:
    """Halve what departs, down to single parameters.

    Returns:
        The faulty ones; those of which nothing can be said; whether a kink is why.
    """
    proved = overall.verdict == "bug"
    bugs: list[Slope] = []
    left: list[str] = []
    kinked = False
    waiting = [tuple(names)] if len(names) == 1 else _halves(names)
    while waiting and len(bugs) < NAMED:
        group = waiting.pop(0)
        alone = len(group) == 1
        try:
            found = probe.judge_alone(group[0], (3, 4, 5, 6)) if alone else probe.judge(group, (3, 4))
        except Spent:
            left.extend(name for part in (group, *waiting) for name in part)
            break
        if found.verdict == "clean":
            continue
        if not alone:
            waiting[:0] = _halves(group)
        elif found.verdict == "bug":
            bugs.append(_line(group[0], found, _words(probe, group[0], found)))
        else:
            left.append(group[0])
            kinked = kinked or found.verdict == "kink"
    if proved and not bugs:
        bugs.append(_line("all parameters together", overall, f"no single parameter stands out; {MEANING}"))
    return bugs, left, kinked or overall.verdict == "kink"


def _words(probe: Probe, name: str, found: Reading) -> str:
    if name not in probe.gradients or not probe.gradients[name].any():
        what = "the gradient is 0, and the loss moves with it"
    elif found.slope == 0:
        what = "the loss does not move with it, and the gradient is not 0"
    else:
        ratio = found.predicted / found.slope
        what = f"the gradient gives {ratio:.6g} times the slope ({found.predicted:.6g} for {found.slope:.6g})"
    return f"{name}: {what}; {MEANING}"


def _line(name: str, reading: Reading, words: str = "") -> Slope:
    return Slope(name, reading.verdict, reading.error, reading.scale, reading.bound, words)


def _halves(names: Sequence[str]) -> list[tuple[str, ...]]:
    middle = len(names) // 2
    return [tuple(names[:middle]), tuple(names[middle:])]


def _checked(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor | None]) -> None:
    for name, p in parameters.items():
        if p.dtype is not torch.float64:
            raise ValueError(f"parameter {name} is {p.dtype}: the slope check needs float64")
    for name, g in gradients.items():
        if name not in parameters:
            raise ValueError(f"gradient {name} belongs to no parameter")
        if g is not None and g.shape != parameters[name].shape:
            raise ValueError(
                f"gradient {name} has shape {tuple(g.shape)}, its parameter {tuple(parameters[name].shape)}"
            )


def _result(
    probe: Probe, verdict: Verdict, directions: Sequence[Reading], bugs: Sequence[Slope], unseen: tuple[str, ...]
) -> SlopeResult:
    lines = tuple(_line(f"direction {k}", reading) for k, reading in enumerate(directions))
    some = ", ".join(unseen[:NAMED]) + (f" and {len(unseen) - NAMED} more" if len(unseen) > NAMED else "")
    rest = "" if len(unseen) == len(probe.parameters) else "; of every other parameter the gradient is the slope"
    if verdict == "bug":
        detail = bugs[0].words + (f"; also {', '.join(bug.name for bug in bugs[1:])}" if len(bugs) > 1 else "")
    elif verdict == "clean":
        detail = "the gradient is the slope of the loss"
        detail += f"; a fault of 1 % would not be seen in {some}" if unseen else ""
    elif verdict == "kink":
        detail = f"a kink at or near the point (a ReLU at 0, a tie in a max-pool) hides the slope along {some}{rest}"
    else:
        detail = f"rounding of the loss hides its slope along {some}{rest}"
    return SlopeResult(verdict, lines, tuple(bugs), unseen, probe.forwards, detail)


def _unjudged(why: str, forwards: int) -> SlopeResult:
    return SlopeResult("unjudged", (), (), (), forwards, why)
