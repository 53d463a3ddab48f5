"""Whether a value from YAML fits an annotation that is simple enough to be read off the source."""

from __future__ import annotations

import ast
from typing import Any

_PLAIN: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "None": (type(None),),
}
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "None": "null",
}


def allowed_words(annotation: str, value: Any) -> tuple[str, tuple[str, ...]] | None:
    """Judge ``value`` by ``annotation``.

    Args:
        annotation: source text, such as ``int | None`` or ``Literal["copied", "reused-buffer"]``.
        value: plain data.

    Returns:
        None if the value fits or the annotation is not simple; else what is allowed, in YAML's words, and those texts
        among it that may be meant.
    """
    try:
        members = _members(ast.parse(annotation, mode="eval").body)
    except SyntaxError:
        return None
    if members is None or any(_fits(member, value) for member in members):
        return None
    words = [member[1] if isinstance(member, tuple) else _WORDS[member] for member in members]
    texts = tuple(str(member[0]) for member in members if isinstance(member, tuple) and isinstance(member[0], str))
    return ", ".join(words[:-1]) + (" or " if len(words) > 1 else "") + words[-1], texts


def _fits(member: str | tuple[Any, str], value: Any) -> bool:
    if isinstance(member, tuple):
        return type(value) is type(member[0]) and value == member[0]
    if isinstance(value, bool) and member != "bool":
        return False
    return isinstance(value, _PLAIN[member])


def _members(node: ast.expr) -> list[str | tuple[Any, str]] | None:
    """Return the members of a union: names of plain types, and literals with their words. None: not simple."""
    match node:
        case ast.Name(id=name) if name in _PLAIN:
            return [name]
        case ast.Constant(value=None):
            return ["None"]
        case ast.Constant(value=str() as quoted):
            return _members(ast.parse(quoted, mode="eval").body)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right])
        case ast.Subscript(value=value, slice=inside):
            name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
            items = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            if name == "Literal":
                return _literals(items)
            if name == "Union":
                return _union(items)
            if name == "Optional":
                return _union([*items, ast.Constant(value=None)])
    return None


def _union(nodes: list[ast.expr]) -> list[str | tuple[Any, str]] | None:
    members: list[str | tuple[Any, str]] = []
    for node in nodes:
        found = _members(node)
        if found is None:
            return None
        members += found
    return members


def _literals(nodes: list[ast.expr]) -> list[str | tuple[Any, str]] | None:
    literals: list[str | tuple[Any, str]] = []
    for node in nodes:
        try:
            value = ast.literal_eval(node)
        except ValueError:
            return None
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        literals.append((value, text))
    return literals
