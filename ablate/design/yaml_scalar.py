"""One plain YAML scalar: the value its author meant, and what YAML 1.1 makes of it instead.

PyYAML reads YAML 1.1, in which ``1e-3`` is text, ``on`` is true, ``010`` is eight and ``1:30`` is ninety. Nothing may
change its meaning silently in a study, so each of these is refused and explained rather than guessed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Trap:
    """Why a scalar is refused.

    Attributes:
        found: what stands there and what YAML 1.1 makes of it.
        advice: how to write what was probably meant.
    """

    found: str
    advice: str


def plain_scalar(text: str, tag: str) -> tuple[Any, Trap | None]:
    """Return the meant value of an unquoted scalar, and the trap it fell into, if any.

    Args:
        text: the scalar as written.
        tag: the tag that PyYAML resolved it to.
    """
    kind = tag.removeprefix(_TAG)
    reader = {"bool": _boolean, "int": _integer, "float": _float, "timestamp": _date, "null": _null}.get(kind, _text)
    try:
        return reader(text)
    except ValueError:
        return 0, Trap("a number too long to be read", "write a shorter number, or quote it for the text")


def quoted(text: str) -> str:
    """Return ``text`` as it would be quoted in the file."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _boolean(text: str) -> tuple[Any, Trap | None]:
    value = text.lower() in ("true", "on", "yes")
    if text.lower() in ("true", "false"):
        return value, None
    word = "true" if value else "false"
    return value, Trap(
        f"{text} is the boolean {word} in YAML 1.1", f"write {word} if you mean it, or {quoted(text)} for the text"
    )


def _integer(text: str) -> tuple[Any, Trap | None]:
    digits = text.replace("_", "")
    if ":" in text:
        return text, _sexagesimal(text)
    if re.fullmatch(r"[-+]?0\d+", digits):
        decimal = str(int(digits))
        return int(decimal), Trap(
            f"{text} is octal in YAML 1.1, the number {int(digits, 8)}",
            f"write {decimal} for the number, or {quoted(text)} for the text",
        )
    return int(digits, 0), None


def _float(text: str) -> tuple[Any, Trap | None]:
    if ":" in text:
        return text, _sexagesimal(text)
    digits = text.replace("_", "").lower()
    number = float(digits) if _NUMBER.fullmatch(digits) else math.nan
    if math.isfinite(number):
        return number, None
    return 1.0, Trap(f"{text} is not a finite number", "write a number, or null for none")


def _sexagesimal(text: str) -> Trap:
    total = 0.0
    for part in text.lstrip("+-").replace("_", "").split(":"):
        total = total * 60 + float(part)
    total = -total if text.startswith("-") else total
    return Trap(
        f"{text} is a number in base 60 in YAML 1.1, {total:g}", f"write {quoted(text)} for the text, or {total:g}"
    )


def _date(text: str) -> tuple[Any, Trap | None]:
    return text, Trap(f"{text} is a date in YAML 1.1", f"write {quoted(text)} for the text")


def _null(text: str) -> tuple[Any, Trap | None]:
    return None, None


def _text(text: str) -> tuple[Any, Trap | None]:
    if text == "None":
        return None, Trap("None is text in YAML", f"write null for none, or {quoted(text)} for the text")
    if text.lower().lstrip("+-.") in ("inf", "infinity", "nan"):
        return 1.0, Trap(f"{text} is not a finite number", f"write a number, or {quoted(text)} for the text")
    if re.fullmatch(r"[-+]?0[oO][0-7]+", text):
        octal = int(text, 8)
        return octal, Trap(f"{text} is text in YAML 1.1", f"write {octal}, or {quoted(text)} for the text")
    if _NUMBER.fullmatch(text):
        number = float(text.replace("_", ""))
        if not math.isfinite(number):
            return 1.0, Trap(f"{text} is not a finite number", f"write a number, or {quoted(text)} for the text")
        advice = f"write {_yaml_number(text)}, or {quoted(text)} for the text"
        meant = int(text) if text.lstrip("+-").isdigit() else number
        return meant, Trap(f"{text} is text in YAML 1.1, not a number", advice)
    return text, None


def _yaml_number(text: str) -> str:
    """Return ``text`` with the point, and the exponent's sign, without which YAML 1.1 sees no number."""
    mantissa, _, exponent = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    whole = sign + (whole.lstrip("0") or "0")
    if not exponent:
        return f"{whole}.{fraction}" if fraction else whole
    return f"{whole}.{fraction or '0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"
