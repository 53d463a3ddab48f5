"""A film: frames in order, cut into shots, some of them held out; and the windows a recurrent model is trained on.

A window of T frames to predict is T + 1 frames, of which the first T are shown and the last T are targets. Windows
never straddle a cut, because a target across a cut can't be predicted. Held-out shots are never trained on: windows
of one shot overlap or adjoin, so a split by window would test on what was nearly trained on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.errors import BadInput, Problem
from ablate.trial.draw import Stream

Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Shot:
    """Frames ``start`` to ``stop`` (exclusive) of a film, without a cut between them."""

    name: str
    start: int
    stop: int
    held_out: bool = False


@dataclass(frozen=True)
class Film:
    """Frames, uint8 (N, H, W, 3), and the shots they consist of."""

    frames: np.ndarray[Any, np.dtype[np.uint8]]
    shots: tuple[Shot, ...]

    def digest(self) -> str:
        """Return a hash of the frames and the shots, 64 hex digits."""
        digest = hashlib.sha256(repr((self.frames.shape, self.shots)).encode())
        digest.update(np.ascontiguousarray(self.frames))
        return digest.hexdigest()

    def pictures(self, index: Index) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the frames named by ``index`` (shape S) as float32 (S, 3, H, W) in [0, 1], contiguous."""
        chosen = self.frames[index].astype(np.float32) / np.float32(255)
        return np.ascontiguousarray(np.moveaxis(chosen, -1, -3))

    def usable(self, length: int, held_out: bool) -> list[Shot]:
        """Return the shots, trained on or held out, that hold a window of ``length`` frames to predict.

        Raises:
            BadInput: if there is none.
        """
        shots = [shot for shot in self.shots if shot.held_out == held_out]
        fitting = [shot for shot in shots if shot.stop - shot.start > length]
        if not fitting:
            longest = max((shot.stop - shot.start for shot in shots), default=0)
            kind = "held-out" if held_out else "training"
            needs = f"of {length} predicted frames needs {length + 1} without a cut"
            found = f"{needs}; the longest {kind} shot has {longest}"
            raise BadInput(Problem("window", found, f"up to {longest - 1} predicted frames" if longest > 1 else ""))
        return fitting

    def held_out_windows(self, length: int) -> Iterator[tuple[Shot, list[Index]]]:
        """Yield each held-out shot with its consecutive windows, each int64 (length + 1,)."""
        for shot in self.usable(length, held_out=True):
            yield shot, list(_windows(shot.start, shot.stop, length))

    def starts(self, length: int) -> Index:
        """Return the first frame of every window of ``length`` frames to predict that may be trained on, in order."""
        return np.concatenate([np.arange(s.start, s.stop - length) for s in self.usable(length, held_out=False)])

    def training_windows(self, length: int, start: Stream) -> Iterator[Index]:
        """Yield windows without end, each int64 (length + 1,): consecutive in a shot, then the next shot, looped.

        A frame drawn from ``start`` is the first one shown. On entering each later shot, the few frames that don't
        fill a window are left out at its beginning, as many as ``start`` draws, so that loops differ.
        """
        shots = self.usable(length, held_out=False)
        firsts = self.starts(length)
        frame = int(firsts[start.integers(0, len(firsts))])
        now = next(number for number, shot in enumerate(shots) if shot.start <= frame < shot.stop)
        while True:
            yield from _windows(frame, shots[now].stop, length)
            now = (now + 1) % len(shots)
            spare = (shots[now].stop - shots[now].start - 1) % length
            frame = shots[now].start + int(start.integers(0, spare + 1))


def _windows(start: int, stop: int, length: int) -> Iterator[Index]:
    for first in range(start, stop - length, length):
        yield np.arange(first, first + length + 1, dtype=np.int64)
