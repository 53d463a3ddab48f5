"""What `ablate guard` saw of a script: the places where tensors were overwritten, in words and as JSON.

A training loop repeats itself, so findings are gathered by place: the memory they take does not grow with the run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

MOST_PLACES = 100
"""Distinct places that are kept; tensors overwritten at further ones are counted."""

MOST_SHOWN = 5
"""Places that are told in words; the JSON has all that are kept."""

MEND = "the line named saved the tensor, the write is elsewhere: look for code that reuses its memory, or save a copy"

DONE = "done"
"""How a script ended that ran to its last line; else ``exit``, ``exception``, ``interrupted``, ``terminated``."""


@dataclass
class Place:
    """Where tensors were overwritten; attributes as in ``Overwritten``, backward passes counted from 1.

    Attributes:
        refused: whether torch's own version check stopped the backward.
        first_pass: first backward pass that asked for such a tensor.
        last_pass: the last one.
        tensors: how many were overwritten here.
    """

    role: str
    near: str
    source: str
    shape: tuple[int, ...]
    dtype: str
    refused: bool
    detail: str
    first_pass: int
    last_pass: int
    tensors: int

    def __str__(self) -> str:
        saved = f"saved at {self.source}" if self.source else ""
        words = [self.role or "a tensor", f"shape {self.shape}", saved, f"({self.near})" if self.near else ""]
        return ", ".join(word for word in words[:3] if word) + (f" {words[3]}" if words[3] else "")


@dataclass
class Seen:
    """Everything the guard saw of a script.

    Attributes:
        script: the script and its arguments.
        torch_imported: whether the script imported torch, without which nothing is watched.
        thread: name of the watched thread if it is not the main one.
        first: watch only so many backward passes; 0: all.
        backward_passes: those that asked for a saved tensor, while watched.
        tensors_saved: how many times a tensor was saved.
        tensors_checked: how many times one was compared.
        tensors_changed: how many of those comparisons found a change.
        tensors_never_used: saved and never asked for by a backward.
        unseen: what could not be watched -> how many.
        ended: how the script ended; empty while it runs, and if it was killed.
        exit_code: the script's own; None for one that was interrupted or terminated.
    """

    script: list[str]
    torch_imported: bool = False
    thread: str = ""
    first: int = 0
    backward_passes: int = 0
    tensors_saved: int = 0
    tensors_checked: int = 0
    tensors_changed: int = 0
    tensors_never_used: int = 0
    unseen: dict[str, int] = field(default_factory=dict)
    ended: str = ""
    exit_code: int | None = None
    places: list[Place] = field(default_factory=list)
    tensors_overwritten: int = 0
    tensors_at_further_places: int = 0
    tensors_in_first_pass: int = 0

    @property
    def verdict(self) -> str:
        """``BUG``, ``nothing overwritten`` or ``nothing checked``."""
        if self.tensors_overwritten:
            return "BUG"
        return "nothing overwritten" if self.tensors_checked else "nothing checked"

    def add(self, place: Place) -> bool:
        """Count an overwritten tensor; whether its place is a new one that is kept."""
        self.tensors_overwritten += 1
        known = next((one for one in self.places if _same(one, place)), None)
        new = known is None and len(self.places) < MOST_PLACES
        if known is not None:
            known.tensors += 1
            known.last_pass = place.last_pass
        elif new:
            self.places.append(place)
        else:
            self.tensors_at_further_places += 1
        self.tensors_in_first_pass += place.first_pass == self.places[0].first_pass
        return new

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        return {"verdict": self.verdict, **asdict(self)}

    def lines(self) -> list[str]:
        """Say what was seen, what was not, and what to do."""
        lines = [f"ablate guard: {self._sentence()}"]
        for place in self.places[1:MOST_SHOWN]:
            lines.append(f"  also {place}: {_tensors(place.tensors)} from backward pass {place.first_pass:,} on")
        rest = sum(place.tensors for place in self.places[MOST_SHOWN:]) + self.tensors_at_further_places
        if rest:
            lines.append(f"  and {_tensors(rest)} at further places; --json FILE lists up to {MOST_PLACES} places")
        if self.unseen:
            lines.append(
                "  not seen: " + "; ".join(f"{what}: {count:,}" for what, count in sorted(self.unseen.items()))
            )
        if self.tensors_overwritten:
            lines.append(f"  to mend: {MEND}")
            if self.exit_code:
                lines.append(f"  the script's own exit code was {self.exit_code}")
        return lines

    def _sentence(self) -> str:
        if self.tensors_overwritten:
            return f"BUG: this tensor was overwritten between forward and backward: {self._first()}"
        if self.tensors_checked:
            return f"nothing was overwritten: {_tensors(self.tensors_checked)} checked in {self._passes()}"
        if not self.torch_imported:
            return "nothing was checked: the script did not import torch"
        if self.tensors_saved:
            return f"nothing was checked: {_tensors(self.tensors_saved)} saved, but no backward pass asked for one"
        where = f"thread {self.thread}" if self.thread else "the main thread"
        return f"nothing was checked: no tensor was saved for a backward pass in {where}; other threads are not watched"

    def _first(self) -> str:
        place = self.places[0]
        when = f"backward pass {place.first_pass:,} of {self.backward_passes:,}{' watched' if self._limited() else ''}"
        stopped = ", and torch refused to go on" if place.refused else ""
        same = self.tensors_checked - self.tensors_changed
        total = (
            f"; {self.tensors_overwritten:,} in all" if self.tensors_overwritten > self.tensors_in_first_pass else ""
        )
        count = f"{_tensors(self.tensors_in_first_pass)} there{total}"
        return f"{place}, {when} ({count}){stopped}; {same:,} others checked and as saved"

    def _passes(self) -> str:
        where = f"thread {self.thread}" if self.thread else "the main thread"
        count = "1 backward pass" if self.backward_passes == 1 else f"{self.backward_passes:,} backward passes"
        return f"the first {count} of {where}" if self._limited() else f"{count} of {where}"

    def _limited(self) -> bool:
        return bool(self.first) and self.backward_passes >= self.first


def _same(a: Place, b: Place) -> bool:
    return (a.source, a.role, a.near, a.shape, a.refused) == (b.source, b.role, b.near, b.shape, b.refused)


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count:,} tensors"
