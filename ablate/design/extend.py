"""Whether a grid that changed still describes the study that a store holds.

A store may grow: more blocks, arms, levels or cells, and contrasts that involve an added arm or level. Anything else
would mix two studies (another margin, another outcome) or choose the comparisons after the results were seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from ablate.design.cross import cells
from ablate.design.spec import Arm, Contrast, GridSpec, level_text
from ablate.design.trial_spec import Scalar

_NOT_GIVEN = object()


def differences(old: GridSpec, new: GridSpec) -> list[str]:
    """Return what ``new`` changes in ``old`` beside adding to it, one readable line each; empty if it only adds."""
    lines: list[str] = []
    for name in ("study", "question", "trainable", "settings"):
        lines += _changes(name, getattr(old, name), getattr(new, name))
    lines += list(_factors(old, new)) or _cells(old, new)
    lines += _arms(old, new)
    lines += _blocks("blocks", old.blocks, new.blocks)
    lines += _changes("batches", old.batches, new.batches)
    lines += _changes("outcome", _plain(old.outcome), _plain(new.outcome))
    lines += _contrasts(old, new)
    if old.margin != new.margin:
        lines.append(f"margin: {old.margin or _text(_NOT_GIVEN)} -> {new.margin or _text(_NOT_GIVEN)}")
    return lines + list(_changes("guard", _plain(old.guard), _plain(new.guard)))


def _factors(old: GridSpec, new: GridSpec) -> Iterator[str]:
    lost = _lost(old, new)
    for name in {**old.factors, **new.factors}:
        before, after = old.factors.get(name), new.factors.get(name)
        if before is None and not lost:
            continue  # it exists in added cells only
        if before is None:
            yield f"factors.{name}: added; every trial of the store would need a level of it"
        elif after is None:
            yield f"factors.{name}: removed"
        elif type(before[0]) is not type(after[0]):
            advice = "; write whole numbers and numbers apart, such as 1.0" if set(before) <= set(after) else ""
            yield f"factors.{name}: {_levels(before)} -> {_levels(after)}, levels of another kind{advice}"
        elif not set(before) <= set(after):
            yield f"factors.{name}: {_levels(before)} -> {_levels(after)}"


def _cells(old: GridSpec, new: GridSpec) -> list[str]:
    lost = _lost(old, new)
    if not lost:
        return []
    arm, levels = lost[0]
    example = ", ".join([f"arm {arm}", *(f"{name}={level_text(level)}" for name, level in levels.items())])
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return [f"factors: leave out {example}{more}, which the store has planned"]


def _lost(old: GridSpec, new: GridSpec) -> list[tuple[str, dict[str, Scalar]]]:
    """Return the cells of the old grid that the new one leaves out although it has the arm."""
    planned = {(arm, frozenset(levels.items())) for arm, levels in cells(new)}
    return [
        (arm, levels)
        for arm, levels in cells(old)
        if arm in new.arms and (arm, frozenset(levels.items())) not in planned
    ]


def _arms(old: GridSpec, new: GridSpec) -> Iterator[str]:
    for name, before in old.arms.items():
        after = new.arms.get(name)
        if after is None:
            yield f"arms.{name}: removed"
            continue
        if before.repeat is not None and before.repeat == after.repeat:  # the original's lines say the rest
            yield from _changes(f"arms.{name}.perturb", before.numerics.perturb, after.numerics.perturb)
        else:
            yield from _changes(f"arms.{name}", _arm(before), _arm(after))
        if (set(before.blocks) - set(after.blocks)) & set(new.blocks):  # else the study's own blocks say it
            yield from _blocks(f"arms.{name}.blocks", before.blocks, after.blocks)


def _blocks(where: str, old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[str]:
    if not set(old) <= set(new):
        yield f"{where}: {_levels(old)} -> {_levels(new)}"


def _contrasts(old: GridSpec, new: GridSpec) -> Iterator[str]:
    for contrast in old.contrasts:
        if contrast not in new.contrasts:
            yield f"contrasts: {contrast.label}: removed"
    for contrast in new.contrasts:
        if contrast not in old.contrasts and not _involves_added(contrast, old):
            yield f"contrasts: {contrast.label}: added, between what the store already holds"


def _involves_added(contrast: Contrast, old: GridSpec) -> bool:
    levels = list(contrast.where.items())
    if contrast.factor is not None:
        levels += [(contrast.factor, level) for level in contrast.levels or ()]
    known = all(level in old.factors.get(factor, ()) for factor, level in levels)
    return not known or not set(contrast.arms or ()) <= set(old.arms)


def _arm(arm: Arm) -> dict[str, Any]:
    """Return an arm under the key paths of a grid file, without its blocks."""
    own = ("settings", "resources", "repeat", "kind", "machine")
    return {**_plain(arm.numerics), **{name: getattr(arm, name) for name in own}}


def _changes(where: str, old: Any, new: Any) -> Iterator[str]:
    """Compare nested values; 1, 1.0 and true are three different ones, as they are to a trainable."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _changes(f"{where}.{key}", old.get(key, _NOT_GIVEN), new.get(key, _NOT_GIVEN))
    elif _text(old) != _text(new):
        yield f"{where}: {_text(old)} -> {_text(new)}"
    elif type(old) is not type(new):
        yield f"{where}: {json.dumps(old)} -> {json.dumps(new)}"


def _plain(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json")


def _text(value: Any) -> str:
    if value is _NOT_GIVEN:
        return "(not given)"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _levels(levels: tuple[Scalar, ...]) -> str:
    return f"[{', '.join(level_text(level) for level in levels)}]"
