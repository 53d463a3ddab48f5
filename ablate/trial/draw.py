"""Random numbers for trainables: named NumPy Philox streams that depend on study, block and stream, never on the arm.

torch's own normal draws and initialisers are not bit-equal across instruction sets and thread counts, so an arm that
drew from them would differ from another before its arithmetic could. Every value drawn here is hashed as it is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor

from ablate.design.seeds import stream_key

Shape = tuple[int, ...]


class Stream:
    """One named stream; ``digest`` is a hash of every value drawn from it so far, ``count`` their number."""

    def __init__(self, key: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=key))
        self.digest = 0
        self.count = 0

    def permutation(self, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return 0..n-1 in random order, int64, shape (n,)."""
        return self._drawn(self._generator.permutation(n).astype(np.int64))

    def integers(self, low: int, high: int, shape: Shape = ()) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return int64 values in [low, high)."""
        return self._drawn(np.asarray(self._generator.integers(low, high, size=shape), dtype=np.int64))

    def normal(self, shape: Shape) -> Tensor:
        """Return standard normals, drawn in float64 and cast to a contiguous CPU float32 tensor."""
        return _float32(self._drawn(self._generator.standard_normal(shape)))

    def uniform(self, shape: Shape) -> Tensor:
        """Return values in [0, 1), drawn in float64 and cast to a contiguous CPU float32 tensor."""
        return _float32(self._drawn(self._generator.random(shape)))

    def mask(self, keep: float, shape: Shape) -> Tensor:
        """Return a float32 mask: 1 with probability ``keep``, else 0 (a dropout mask, not rescaled)."""
        return _float32(self._drawn(self._generator.random(shape)) < keep)

    def state(self) -> dict[str, Any]:
        """Return where the stream stands, as plain numbers."""
        philox = self._generator.bit_generator.state
        inner = {name: [int(word) for word in words] for name, words in philox["state"].items()}
        rest = {name: int(philox[name]) for name in ("buffer_pos", "has_uint32", "uinteger")}
        return {
            "state": inner,
            "buffer": [int(word) for word in philox["buffer"]],
            **rest,
            "digest": self.digest,
            "count": self.count,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to where a stream of the same key stood."""
        self._generator.bit_generator.state = {
            "bit_generator": "Philox",
            "state": {name: np.array(words, dtype=np.uint64) for name, words in state["state"].items()},
            "buffer": np.array(state["buffer"], dtype=np.uint64),
            **{name: state[name] for name in ("buffer_pos", "has_uint32", "uinteger")},
        }
        self.digest, self.count = state["digest"], state["count"]

    def _drawn(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # a chain rather than one running hash, since it must go on after a resume
        digest = xxhash.xxh3_64(self.digest.to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(values).data)
        self.digest = digest.intdigest()
        self.count += values.size
        return values


def _float32(values: Any) -> Tensor:
    """Return values as a tensor; NumPy draws one of shape () as a scalar, which is no array."""
    return torch.from_numpy(np.asarray(values, dtype=np.float32))


class Draw:
    """The streams of one trial: ``draw("order")`` is the same stream every time it is asked for."""

    def __init__(self, study: str, block: int) -> None:
        self._study = study
        self._block = block
        self.streams: dict[str, Stream] = {}

    def __call__(self, stream: str) -> Stream:
        """Return the stream of that name."""
        if stream not in self.streams:
            self.streams[stream] = Stream(stream_key(self._study, self._block, stream))
        return self.streams[stream]
