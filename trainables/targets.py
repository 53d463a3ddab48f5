"""How a target frame reaches the loss: as a tensor of its own, or through one buffer that every frame overwrites.

The public Chainer scripts of PredNet allocate one array, write each target frame into it, and wrap it as a variable.
On a GPU the wrapping copies to the device. On a CPU it returns the same memory, so when ``backward`` runs at the end
of a window and reads the targets again, all of them are the window's last frame. PyTorch has the same trap:
``torch.from_numpy`` shares memory, ``.to("cpu")`` copies nothing, and a write on NumPy's side isn't seen by
autograd's version counter.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

INPUTS = ("copied", "reused-buffer")


class Copied:
    """Every target is a tensor of its own."""

    def __call__(self, frame: Tensor) -> Tensor:
        """Return a copy of ``frame``."""
        return frame.clone()


class ReusedBuffer:
    """Every target is written into one NumPy buffer, which is wrapped without a copy and sent to the device.

    One window needs one buffer; a new one for the next window changes nothing, because ``backward`` has run by then.
    """

    def __init__(self) -> None:
        self._buffer: np.ndarray | None = None

    def __call__(self, frame: Tensor) -> Tensor:
        """Write ``frame`` into the buffer and return the tensor that shares its memory (a copy on other devices)."""
        pixels = frame.cpu()
        # NumPy has no bfloat16: its 16 bits travel as an unsigned integer
        raw = pixels.view(torch.uint16) if pixels.dtype == torch.bfloat16 else pixels
        if self._buffer is None:
            self._buffer = np.empty(raw.shape, dtype=raw.numpy().dtype)
        np.copyto(self._buffer, raw.numpy())
        return torch.from_numpy(self._buffer).view(pixels.dtype).to(frame.device)


def target_maker(kind: str) -> Copied | ReusedBuffer:
    """Return a fresh maker of one window's targets, of a kind in ``INPUTS``."""
    return Copied() if kind == "copied" else ReusedBuffer()
