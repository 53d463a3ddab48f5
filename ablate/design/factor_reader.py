"""Reads the shape of ``factors`` in a grid file: sub-grids, zips, unions and the levels of each list by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ablate.design.condition import ARM
from ablate.design.factor_tree import Factor, SubGrid, Union, Zip
from ablate.design.grid_file import ALLOWED, ALLOWED_KEY, FACTOR_KEYWORDS, FACTOR_NAME
from ablate.design.levels import read_levels
from ablate.design.validation import describe
from ablate.design.yaml_scalar import quoted
from ablate.design.yaml_source import Loc, YamlSource
from ablate.errors import Problem, nearest

CONDITIONAL_KEYS = ("levels", "when")


class FactorReader:
    """Turns written factors into a tree without conditions; collects those, and what is wrong.

    Attributes:
        patterns: place of a ``when`` or of a pattern of ``exclude`` -> what is written there.
        spoilt: names of factors whose levels are wrong somewhere.
        problems: what is wrong.
    """

    def __init__(self, source: YamlSource) -> None:
        self.source = source
        self.patterns: dict[Loc, Mapping[str, Any]] = {}
        self.spoilt: set[str] = set()
        self.problems: list[Problem] = []

    def sub_grid(self, written: Mapping[str, Any], loc: Loc) -> SubGrid:
        """Read a mapping of factors."""
        parts: list[Factor | Zip | Union] = []
        seen: dict[str, Loc] = {}
        for key, value in written.items():
            here = (*loc, key)
            read = {"zip": self._zips, "union": self._union, "exclude": self._exclude}.get(key, self._factor)
            for part in read(value, here):
                for name in part.names:
                    if name in seen:
                        line = self.source.lines.get(seen[name], 0)
                        found = f"{name} stands here and in line {line}, and both are crossed"
                        advice = "write it once; the members of one union may share it"
                        self._problem(part.loc, found, advice=advice)
                    seen.setdefault(name, part.loc)
                parts.append(part)
        return SubGrid(tuple(parts))

    def _factor(self, value: Any, loc: Loc) -> list[Factor | Zip | Union]:
        name = str(loc[-1])
        if not self._named(name, loc):
            return []
        levels, place = value, loc
        if isinstance(value, dict):
            for key in value:
                if key not in CONDITIONAL_KEYS:
                    self._problem((*loc, key), f"unknown key {quoted(key)}", ", ".join(CONDITIONAL_KEYS), key)
            for key in CONDITIONAL_KEYS:
                if key not in value:
                    self._problem((*loc, key), "missing", ALLOWED["factors", "*", key])
            levels, place = value.get("levels", [0]), (*loc, "levels")
            if "when" in value:
                self._pattern(value["when"], (*loc, "when"), ALLOWED["factors", "*", "when"])
        words = ALLOWED["factors", "*", "levels"] if isinstance(value, dict) else ALLOWED["factors", "*"]
        return [Factor(name, loc, self._levels(levels, name, place, words))]

    def _zips(self, value: Any, loc: Loc) -> list[Factor | Zip | Union]:
        words = ALLOWED["factors", "zip"]
        if not isinstance(value, list):
            return self._zip(value, loc, words)
        if not value:
            self._problem(loc, "found an empty list", words)
        return [part for n, one in enumerate(value) for part in self._zip(one, (*loc, n), words)]

    def _zip(self, value: Any, loc: Loc, words: str) -> list[Factor | Zip | Union]:
        if not isinstance(value, dict) or not value:
            self._found(loc, value, words)
            return []
        columns = []
        for name, levels in value.items():
            here = (*loc, name)
            if self._named(name, here, ALLOWED_KEY["factors", "zip"]):
                allowed = ALLOWED["factors", "zip", "*"]
                columns.append(Factor(name, here, self._levels(levels, name, here, allowed, repeats=True)))
        if len(value) == 1:
            self._problem(loc, "a zip of one factor", "two factors or more", advice="write it as a factor by itself")
        lengths = {name: len(levels) for name, levels in value.items() if isinstance(levels, list)}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name} has {count}" for name, count in lengths.items())
            self._problem(loc, f"lists of different length: {counts}", ALLOWED["factors", "zip"])
        zipped = Zip(loc, tuple(columns))
        rows = zipped.rows
        if not self.spoilt & set(zipped.names):
            for n, row in enumerate(rows):
                if row in rows[:n]:
                    same = f"entry {n + 1} of each list repeats entry {rows.index(row) + 1}"
                    self._problem(loc, same, advice="remove one of them from every list")
        return [zipped] if columns else []

    def _union(self, value: Any, loc: Loc) -> list[Factor | Zip | Union]:
        words = ALLOWED["factors", "union"]
        if not isinstance(value, list) or not value:
            self._found(loc, value, words)
            return []
        members = []
        for n, member in enumerate(value):
            if isinstance(member, dict):
                members.append(self.sub_grid(member, (*loc, n)))
            else:
                self._found((*loc, n), member, ALLOWED["factors", "union", "*"])
        return [Union(loc, tuple(members))]

    def _exclude(self, value: Any, loc: Loc) -> list[Factor | Zip | Union]:
        words = ALLOWED["factors", "exclude"]
        if not isinstance(value, list) or not value:
            self._found(loc, value, words)
            return []
        for n, pattern in enumerate(value):
            self._pattern(pattern, (*loc, n), ALLOWED["factors", "exclude", "*"])
        return []

    def _pattern(self, value: Any, loc: Loc, words: str) -> None:
        if isinstance(value, dict) and value:
            self.patterns[loc] = value
        else:
            self._found(loc, value, words)

    def _levels(self, value: Any, name: str, loc: Loc, words: str, repeats: bool = False) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            self._found(loc, value, words)
            self.spoilt.add(name)
            return ()
        levels, problems = read_levels(value, loc, self.source, repeats)
        self.problems += problems
        if problems or (len(levels) < len(value) and not repeats):
            self.spoilt.add(name)
        return levels

    def _named(self, name: str, loc: Loc, words: str = ALLOWED_KEY["factors",]) -> bool:
        if loc in self.source.refused and not re.fullmatch(FACTOR_NAME, name):
            return False
        if name == ARM or name in FACTOR_KEYWORDS:
            self._problem(loc, f"the name {quoted(name)} cannot be used", "any other: it has a meaning of its own here")
        elif not re.fullmatch(FACTOR_NAME, name):
            self._problem(loc, f"the name {quoted(name)} cannot be used", words)
        else:
            return True
        return False

    def _found(self, loc: Loc, value: Any, words: str) -> None:
        if loc not in self.source.refused:
            self._problem(loc, f"found {describe(value)}", words)

    def _problem(self, loc: Loc, found: str, allowed: str = "", key: str = "", advice: str = "") -> None:
        near = nearest(key, CONDITIONAL_KEYS) if key else ""
        self.problems.append(Problem(self.source.where(loc), found, allowed, near, advice))
