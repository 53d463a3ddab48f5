"""Checks of a trainable's settings, made when it is constructed, so before any trial."""

from __future__ import annotations

from collections.abc import Iterable

from ablate.errors import BadInput, Problem, nearest


def one_of(where: str, value: str, choices: Iterable[str]) -> str:
    """Return ``value``.

    Raises:
        BadInput: if it isn't among ``choices``.
    """
    names = list(choices)
    if value not in names:
        raise BadInput(Problem(where, f"is {value!r}", ", ".join(names), nearest(str(value), names)))
    return value


def at_least(where: str, value: int, least: int) -> int:
    """Return ``value``.

    Raises:
        BadInput: if it isn't a whole number of at least ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(Problem(where, f"is {value!r}", f"a whole number, {least} or more"))
    return value


def not_negative(where: str, value: float) -> float:
    """Return ``value`` as a float.

    Raises:
        BadInput: if it isn't a finite number of at least 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise BadInput(Problem(where, f"is {value!r}", "a number, 0 or more"))
    return float(value)


def positive(where: str, value: float) -> float:
    """Return ``value`` as a float.

    Raises:
        BadInput: if it isn't a positive finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        advice = "YAML reads 1e-3 as text; write 1.0e-3 or 0.001" if isinstance(value, str) else ""
        raise BadInput(Problem(where, f"is {value!r}", "a positive number", advice=advice))
    return float(value)


def channel_list(where: str, text: str) -> tuple[int, ...]:
    """Return the channels of each layer, bottom first, of text such as ``3,16,32``.

    Raises:
        BadInput: if they aren't positive whole numbers of which the first is 3.
    """
    try:
        channels = tuple(int(part) for part in str(text).split(","))
    except ValueError:
        channels = ()
    if not channels or channels[0] != 3 or min(channels) < 1:
        allowed = "whole numbers separated by commas, the first 3 (red, green, blue), such as 3,16,32"
        raise BadInput(Problem(where, f"is {text!r}", allowed))
    return channels


def halvable(where: str, pixels: int, layers: int) -> int:
    """Return ``pixels``.

    Raises:
        BadInput: if it isn't a positive whole number that can be halved once per layer above the first.
    """
    step = 2 ** (layers - 1)
    at_least(where, pixels, 1)
    if pixels % step:
        allowed = f"a multiple of {step}, since {layers} layers halve it {layers - 1} times"
        raise BadInput(Problem(where, f"is {pixels}", allowed))
    return pixels
