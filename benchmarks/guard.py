"""What the saved-tensor guard costs: a batch with it over a batch without, next to the plainest checksum hook.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/guard.py [--repeats N] [--json FILE]

One PredNet (channels 3, 16, 32; 20 frames a batch; forward, backward and Adam's step) at several frame sizes. The
variants take turns, and processor time of the one thread is counted, so that a busy machine disturbs little; ratios
are of medians.
"""

from __future__ import annotations

import time
import zlib
from contextlib import AbstractContextManager, nullcontext
from statistics import median

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

from ablate.audit.guard import SavedTensorGuard
from benchmarks.measured import Comparison, arguments, report
from trainables.prednet_model import PredNetModel

SIZES = ((16, 24, 2.5), (56, 80, 1.5), (120, 160, 1.5))
"""Height, width, and the ratio aimed at."""

WINDOW = 20


def crc32(t: Tensor) -> int:
    return zlib.crc32(t.contiguous().numpy())


def plain_pack(t: Tensor) -> tuple[Tensor, int]:
    kept = t.detach()
    return kept, crc32(kept)


def plain_unpack(packed: tuple[Tensor, int]) -> Tensor:
    kept, checksum = packed
    if crc32(kept) != checksum:
        raise RuntimeError("a saved tensor was overwritten")
    return kept


def batch(model: PredNetModel, frames: Tensor) -> Tensor:
    state = model.start(1, frames)
    loss = frames.new_zeros(())
    for t in range(WINDOW):
        state, _ = model(frames[t], state)
        loss = loss + functional.mse_loss(state.prediction[0], frames[t + 1])
    loss.backward()
    return loss


def measure(height: int, width: int, repeats: int) -> tuple[dict[str, list[float]], SavedTensorGuard]:
    """Return processor seconds of the batches of each variant, and the guard."""
    torch.manual_seed(0)
    model = PredNetModel((3, 16, 32), height, width)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    frames = torch.rand(WINDOW + 1, 1, 3, height, width)
    guard = SavedTensorGuard(model)
    times: dict[str, list[float]] = {"none": [], "plain": [], "guard": []}
    for repeat in range(repeats + 1):
        for name, seconds in times.items():
            watch: AbstractContextManager[object] = nullcontext()
            if name == "plain":
                watch = saved_tensors_hooks(plain_pack, plain_unpack)
            elif name == "guard":
                watch = guard.batch(repeat)
            optimiser.zero_grad()
            start = time.process_time()
            with watch:
                batch(model, frames)
            optimiser.step()
            seconds.append(time.process_time() - start)
    return {name: seconds[1:] for name, seconds in times.items()}, guard


def row(height: int, width: int, aim: float, repeats: int) -> Comparison:
    times, guard = measure(height, width, repeats)
    none = median(times["none"])
    saved = guard.tensors_saved // (repeats + 1)
    each = (median(times["guard"]) - none) / saved * 1e6
    ratios = tuple(seconds / none for seconds in times["guard"])
    return Comparison(
        *(f"a watched batch, {width}x{height}", "unwatched batches", ratios),
        *("crc32 of what is saved", tuple(seconds / none for seconds in times["plain"])),
        target=f"<= {aim:g}",
        met=median(ratios) <= aim,
        note=f"an unwatched one takes {none * 1e3:.1f} ms and saves {saved} tensors; {each:.1f} us each",
    )


def main() -> None:
    asked = arguments(__doc__, 5).parse_args()
    torch.set_num_threads(1)
    rows = [row(height, width, aim, asked.repeats) for height, width, aim in SIZES]
    report("The guard of saved tensors", rows, asked.json)


if __name__ == "__main__":
    main()
