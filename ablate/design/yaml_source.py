"""A YAML file as plain data, with the line of every key and a problem for everything YAML 1.1 would silently change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ablate.design.yaml_scalar import plain_scalar, quoted
from ablate.design.yaml_text import compose
from ablate.errors import BadInput, Problem

Loc = tuple[str | int, ...]
"""Where something stands in nested data: keys and list positions, outermost first."""

_TEXT_TAG = "tag:yaml.org,2002:str"
_RESOLVER = yaml.resolver.Resolver()


def dotted(loc: Loc) -> str:
    """Return a key path as text: ``("contrasts", 0, "arms")`` is ``contrasts[0].arms``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True)
class YamlSource:
    """A file that was read.

    Attributes:
        path: the file, as the user named it.
        data: its top-level mapping as plain dicts, lists and scalars. Where a scalar was refused, it holds the value
            that was probably meant, so that later checks do not report the same mistake again.
        lines: line (from 1) of each key path.
        problems: duplicate keys, keys that are not text, and scalars that YAML 1.1 would change silently.
        refused: the key paths those problems are about.
    """

    path: str
    data: dict[str, Any]
    lines: Mapping[Loc, int]
    problems: tuple[Problem, ...]
    refused: frozenset[Loc]

    def where(self, loc: Loc) -> str:
        """Return ``grid.yaml:12: arms.fast``; a path that is not in the file gets the line of its nearest parent."""
        for length in range(len(loc), -1, -1):
            if loc[:length] in self.lines:
                return _at(self.path, self.lines[loc[:length]], loc)
        return _at(self.path, 1, loc)


def read_yaml(path: str | Path) -> YamlSource:
    """Read a YAML file whose top level is a mapping.

    Raises:
        BadInput: the file is missing, a folder, unreadable, not UTF-8, empty, malformed or not a mapping. What is
            wrong inside a readable file is in ``problems`` instead, to be reported together with later findings.
    """
    name = str(path)
    root = compose(path)
    if root is None:
        raise BadInput(Problem(name, "the file is empty", advice="`ablate init` writes one to start from"))
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        raise BadInput(
            Problem(f"{name}:{root.start_mark.line + 1}", f"the top level is {kind}", "a mapping of `key: value` lines")
        )
    reader = _Reader(name)
    data = reader.mapping(root, ())
    return YamlSource(name, data, reader.lines, tuple(reader.problems), frozenset(reader.refused))


class _Reader:
    """Turns nodes into data; collects lines and problems on the way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Loc, int] = {}
        self.problems: list[Problem] = []
        self.refused: set[Loc] = set()
        self._open: set[int] = set()

    def mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, loc)
            if key is None:
                continue
            here = (*loc, key)
            if key in data:
                found = f"{quoted(key)} stands here and in line {self.lines[here]}; YAML would silently drop the first"
                self._problem(line, here, found, "rename or remove one of them")
                continue
            self.lines[here] = line
            data[key] = self._value(value_node, here)
        return data

    def _key(self, node: yaml.Node, loc: Loc) -> str | None:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            self._problem(line, loc, "a key here is a list or a mapping", "keys are text")
            return None
        key = str(node.value)
        if node.style is not None:
            return key
        if node.tag == "tag:yaml.org,2002:merge":
            self._problem(line, (*loc, key), "`<<` merges are not understood", "write the keys out")
            return None
        value, trap = plain_scalar(key, node.tag)
        if trap is not None:
            self._problem(line, (*loc, key), f"as a key, {trap.found}", f"write {quoted(key)}")
        elif not isinstance(value, str):
            kind = "null" if value is None else "a boolean" if isinstance(value, bool) else "a number"
            self._problem(line, (*loc, key), f"the key {key or '(empty)'} is {kind}, not text", f"write {quoted(key)}")
        return key

    def _value(self, node: yaml.Node, loc: Loc) -> Any:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, loc)
        if id(node) in self._open:
            self._problem(line, loc, "an alias contains itself", "write the value out")
            return None
        if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            self._problem(line, loc, f"the tag {_short(node.tag)} is not understood", "remove it")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, loc)
            items = []
            for position, item in enumerate(node.value):
                here = (*loc, position)
                self.lines[here] = item.start_mark.line + 1
                items.append(self._value(item, here))
            return items
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        line = node.start_mark.line + 1
        if node.tag != _implicit_tag(node):
            self._problem(line, loc, f"the tag {_short(node.tag)} is not understood", "remove it")
        if any("\ud800" <= character <= "\udfff" for character in node.value):
            self._problem(line, loc, "half of a character (a surrogate), which is no text", "write the whole character")
            return ""
        if node.style is not None:
            return str(node.value)
        value, trap = plain_scalar(str(node.value), _implicit_tag(node))
        if trap is not None:
            self._problem(line, loc, trap.found, trap.advice)
        return value

    def _problem(self, line: int, loc: Loc, found: str, advice: str) -> None:
        self.refused.add(loc)
        self.problems.append(Problem(_at(self.name, line, loc), found, advice=advice))


def _at(name: str, line: int, loc: Loc) -> str:
    return f"{name}:{line}: {dotted(loc)}" if loc else f"{name}:{line}"


def _implicit_tag(node: yaml.ScalarNode) -> str:
    """Return the tag that a scalar has when none is written before it."""
    if node.style is not None:
        return _TEXT_TAG
    return str(_RESOLVER.resolve(yaml.ScalarNode, node.value, (True, False)))  # type: ignore[no-untyped-call]


def _short(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")
