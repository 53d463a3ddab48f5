"""Numbers as a reader wants them: sensible digits, a sign on every gap, no NaN."""

from __future__ import annotations

import math

from analysis.bca import Interval

NONE = "-"
SMALL = 1e-4
TINY = 1e-5
"""As a fraction: a percentage below 0.001 % is printed as such. Its value is in the JSON."""


def number(value: float | None, digits: int = 4) -> str:
    """Return ``value`` with so many significant digits; a dash for None."""
    return NONE if value is None else f"{_finite(value):.{digits}g}"


def signed(value: float | None, digits: int = 3) -> str:
    """Return a gap with its sign; 0 without one."""
    return NONE if value is None else ("0" if value == 0 else f"{_finite(value):+.{digits}g}")


def percent(fraction: float | None, digits: int = 3) -> str:
    """Return a fraction as a signed percentage, ``+92.1%``; large ones without an exponent, tiny ones ``<0.001%``."""
    if fraction is not None and 0 < abs(_finite(fraction)) < TINY:
        return "<0.001%"
    return NONE if fraction is None else f"{_percent(fraction, digits)}%"


def interval(bounds: Interval, as_percent: bool = False) -> str:
    """Return ``[low, high]``; a dash when there is none."""
    return interval_words(bounds.low, bounds.high, as_percent)


def interval_words(low: float | None, high: float | None, as_percent: bool = False) -> str:
    """Return ``[low, high]`` of two ends; a dash when one is missing. A tiny percentage keeps its side of 0."""
    if low is None or high is None:
        return NONE
    first, last = (_end(end) if as_percent else signed(end) for end in (low, high))
    return f"[{first}, {last}]{'%' if as_percent else ''}"


def p_value(p: float | None) -> str:
    """Return a p value with two digits, ``< 0.0001`` below that, a dash for None."""
    if p is None:
        return NONE
    return "< 0.0001" if p < SMALL else f"{p:.2g}"


def p_words(p: float | None, name: str = "p") -> str:
    """Return ``p = 0.031``, ``p < 0.0001``, ``no p``."""
    if p is None:
        return f"no {name}"
    return f"{name} {p_value(p)}" if p < SMALL else f"{name} = {p_value(p)}"


def plural(count: int, noun: str) -> str:
    """Return ``1 block``, ``6 blocks``; ``2 batches``, ``2 losses``."""
    ending = "es" if noun.endswith(("ch", "ss")) else "s"
    return f"{count:,} {noun}" + ("" if count == 1 else ending)


def share(value: float) -> str:
    """Return a share as a percentage without a sign, ``3%``, ``1.1e-05%``; a large one as a multiple, ``14 times``."""
    if _finite(value) >= 2:
        return times(value)
    return f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.2g}%"


def times(value: float) -> str:
    """Return a multiple with two digits: ``1.2 times``, ``14 times``, ``12,000 times``, ``3e+08 times``."""
    if _finite(value) < 100:
        return f"{value:.2g} times"
    return f"{float(f'{value:.2g}'):,.0f} times" if value < 1e6 else f"{value:.1g} times"


def _end(fraction: float) -> str:
    if 0 < abs(_finite(fraction)) < TINY:
        return "<+0.001" if fraction > 0 else ">-0.001"
    return _percent(fraction, 3)


def _percent(fraction: float, digits: int) -> str:
    value = _finite(fraction) * 100
    if value == 0:
        return "0"
    return f"{value:+,.0f}" if abs(value) >= 10**digits else f"{value:+.{digits}g}"


def _finite(value: float) -> float:
    assert math.isfinite(value), "only finite numbers reach a table"
    return value
