"""From pydantic's complaints about a grid file to problems a reader can act on, and to what can still be checked."""

from __future__ import annotations

import copy
from typing import Any

from pydantic import ValidationError

from ablate.design.grid_file import ALLOWED, ALLOWED_KEY, KEYS, MOST_BLOCKS, GridFile, look_up
from ablate.design.yaml_scalar import quoted
from ablate.design.yaml_source import Loc, YamlSource
from ablate.errors import Problem, nearest

_KEY = "[key]"
"""pydantic's mark, at the end of a key path, for a complaint about the key itself."""

_PLACEHOLDERS: dict[str, Any] = {
    "study": "x",
    "question": "x",
    "trainable": "x:x",
    "blocks": MOST_BLOCKS,
    "batches": 2**30,
}
"""Stand in for required keys that are missing or wrong; no check on another key fails because of them."""


def validate(source: YamlSource) -> tuple[GridFile | None, list[Problem]]:
    """Check the shape of a grid file.

    Returns:
        The file with every wrong part taken out, so that references between the right parts can still be checked
        (None if nothing is left), and the problems of the wrong parts.
    """
    problems: dict[Loc, Problem] = {}
    data = copy.deepcopy(source.data)
    for position, contrast in enumerate(_list(data.get("contrasts"))):
        if contrast is None:
            loc: Loc = ("contrasts", position)
            problems[loc] = Problem(source.where(loc), f"found {describe(None)}", ALLOWED["contrasts", "*"])
    for _attempt in range(10):
        try:
            return GridFile.model_validate(data), list(problems.values())
        except ValidationError as error:
            found = dict(_translate(detail, source) for detail in error.errors(include_url=False))
            for loc, problem in found.items():
                # `blocks` is a count or a list: pydantic says that a list is no count, beside what is wrong in it.
                echo = loc == ("blocks",) and any(other[0] == "blocks" and other != loc for other in found)
                place = tuple(part for part in loc if part != _KEY)
                if not echo and place not in source.refused:
                    problems.setdefault(loc, problem)
                _take_out(data, place)
    return None, list(problems.values())


def describe(value: Any) -> str:
    """Say what a value from YAML is, in YAML's words."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return f"{str(value).lower()} (a boolean)"
        case int():
            return f"{value} (a whole number)"
        case float():
            return f"{value} (a number)"
        case str():
            return f"{quoted(value)} (text)"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
        case _:
            return "a mapping" if value else "an empty mapping"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _translate(detail: Any, source: YamlSource) -> tuple[Loc, Problem]:
    loc: Loc = tuple(detail["loc"])
    here = _in_file(source.data, loc)
    if detail["type"] == "missing":
        return loc, Problem(source.where(loc), "missing", ALLOWED.get(loc, ""))
    if detail["type"] == "extra_forbidden":
        _, keys = look_up(KEYS, loc[:-1]) or ((), ())
        key = str(loc[-1])
        close = nearest(key, keys)
        return loc, Problem(source.where(loc), f"unknown key {quoted(key)}", ", ".join(keys), close)
    if loc[-1] == _KEY:
        _, words = look_up(ALLOWED_KEY, here[:-1]) or ((), "")
        return (*here, _KEY), Problem(source.where(here), f"the name {quoted(str(here[-1]))} cannot be used", words)
    _, words = look_up(ALLOWED, here) or (here, "")
    value = _value_at(source.data, here)
    return here, Problem(source.where(here), f"found {describe(value)}", words, advice=_advice(here, value, words))


def _advice(loc: Loc, value: Any, words: str) -> str:
    if "env" in loc[2:3] and isinstance(value, int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f"quote it: {quoted(text)}"
    if isinstance(value, str) and "number" in words and value.strip().isdigit():
        return f"remove the quotes: {value.strip()}"
    if isinstance(value, str) and words == "true or false" and value.lower() in ("true", "false"):
        return f"remove the quotes: {value.lower()}"
    return ""


def _in_file(data: Any, loc: Loc) -> Loc:
    """Return ``loc`` without the parts that are pydantic's own: names of union members and ``[key]``."""
    here: list[str | int] = []
    for part in loc:
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and isinstance(part, int)
        if inside:
            here.append(part)
            data = data[part]
    return tuple(here)


def _value_at(data: Any, loc: Loc) -> Any:
    for part in loc:
        data = data[part]
    return data


def _take_out(data: dict[str, Any], loc: Loc) -> None:
    """Remove the smallest part of ``data`` that contains ``loc`` and is complete by itself, if it is still there."""
    top = str(loc[0])
    if top in _PLACEHOLDERS:
        data[top] = _PLACEHOLDERS[top]
        return
    if top == "contrasts" and len(loc) > 1:
        data[top][loc[1]] = None
        return
    inner = (top == "arms" and len(loc) > 1) or (top in ("settings", "factors") and len(loc) == 2)
    parent: Any = data
    for part in loc[:-1] if inner else ():
        parent = parent.get(part) if isinstance(parent, dict) else None
    if isinstance(parent, dict):
        parent.pop(loc[-1] if inner else top, None)
    if data.get("arms") == {}:
        del data["arms"]
