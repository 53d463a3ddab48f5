"""What recording every batch costs, in a loop of a millisecond a step and on disk, beside what is used otherwise.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/recording.py [--repeats N] [--json FILE]

Ours is a function trainable in a trial: ``ctx.data`` hashes each batch's index list, the position of a random stream
and, on every 50th, the contents (the plan's default), and ``ctx.batch`` writes a row that any later death of a process
leaves there. Guard and sketches are off: ``guard.py`` and ``sketch.py`` measure them. Each way records loss and
accuracy; the loop and what is counted are in ``recording_loop``. Peers: ``tune.report`` in a trial of Ray Tune (the
driver's processor time is added, its waiting is in the wall time), TensorBoard's ``add_scalar`` and W&B offline.

Bytes: a store of ours after its merge, all of it, over its rows; of Tune the trial's folder, which holds the same
numbers as result.json, progress.csv and an event file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from ablate.design.cross import trials
from ablate.design.grid import load_grid
from ablate.design.trial_spec import GuardPlan
from ablate.record.store import Store
from ablate.trial.draw import Draw
from ablate.trial.fingerprint import OrderChain, content_hash
from ablate.trial.runner import run_trial
from ablate.trial.session import NOTHING, Session
from ablate.trial.task import TrialTask
from benchmarks import recording_loop
from benchmarks.measured import Comparison, arguments, report
from benchmarks.recording_loop import STEP_S, Cost, Reported, Steps, paired, width_of

TUNE = Path(__file__).with_name("recording_tune.py")
PAIRS, REPORTS, REPEATS = 2000, 300, 3
"""Recorded batches of a run; of Tune fewer, since each waits for the driver."""

STORED_TRIALS, STORED_BATCHES = 10, 4000
MOST_US, MOST_SHARE, MOST_BYTES = 5.0, 0.02, 20.0
Way = Callable[[int, int], Cost]
"""Records so many batches beside as many bare ones, at so many hidden units."""


@contextmanager
def unwatched() -> Iterator[None]:
    """Leave the guard and the look for undeclared draws out of what is measured; contents are hashed all the same."""
    kept = Session.watched, Session.drawing
    Session.watched = lambda self: NOTHING  # type: ignore[method-assign]
    Session.drawing = lambda self, where: NOTHING  # type: ignore[method-assign]
    try:
        yield
    finally:
        Session.watched, Session.drawing = kept  # type: ignore[method-assign]


def run_all(root: Path, trainable: str, batches: int, blocks: int = 1, **settings: int) -> int:
    """Run a study in this process and take it into its store; return the store's bytes."""
    grid_file = root / "grid.yaml"
    keys = {
        **{"study": "recording", "question": "What does recording cost?", "trainable": trainable, "blocks": blocks},
        **{"batches": batches, "arms": "{one: {}}", "settings": json.dumps(settings)},
        **{"guard": f"{{first: 0, every: {GuardPlan().every}}}", "audit": "{first: 0}", "sketches": "{every: 0}"},
    }
    grid_file.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    grid, folder = load_grid(grid_file), root / "store"
    with Store.open(folder, grid, grid_file.read_bytes()) as store, unwatched():
        for spec in trials(grid):
            task = TrialTask(spec=spec, root=str(folder), attempt=1, cwd=str(root), search=())
            end = run_trial(task)
            if end.status != "done":
                raise SystemExit(end.error)
            store.absorb(spec.trial_id, 1)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def ours(width: int, pairs: int) -> Cost:
    with TemporaryDirectory() as folder:
        run_all(Path(folder), "benchmarks.recording_loop:steps", pairs, width=width)
    return recording_loop.FOUND.pop()


def tensorboard(width: int, pairs: int) -> Cost:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # Ray brings this one, whose writer is the same
        from tensorboardX import SummaryWriter

    with TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)

        def add(number: int, metrics: dict[str, float]) -> None:
            for name, value in metrics.items():
                writer.add_scalar(name, value, number)

        return paired(width, Reported(add), pairs, writer.close)


def wandb_offline(width: int, pairs: int) -> Cost:
    """W&B without a network; its service's processor time is counted as far as it has come before the end."""
    import psutil
    import wandb

    with TemporaryDirectory() as folder:
        run = wandb.init(mode="offline", dir=folder, project="recording", settings=wandb.Settings(silent=True))
        mine = psutil.Process()

        def service_s() -> float:
            return sum(sum(child.cpu_times()[:2]) for child in mine.children(recursive=True))

        began = service_s()
        cost = paired(width, Reported(lambda number, metrics: run.log(metrics, step=number)), pairs)
        service_us = (service_s() - began) / pairs * 1e6
        run.finish()
        wandb.teardown()
    return Cost(cost.share, cost.cpu_us + service_us, cost.step_s)


def tune_reports(width: int, pairs: int, repeats: int) -> list[dict[str, float]]:
    """Return what each trial of a plain Tune found (``recording_tune``)."""
    with TemporaryDirectory() as folder:
        words = [sys.executable, str(TUNE), folder, *map(str, (width, pairs, repeats))]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"plain Tune failed:\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def hashing_us() -> tuple[float, float]:
    """Return processor time of a batch's share of the order hash and of one content hash, called over and over."""
    draw = Draw("recording", 0)
    draw("order").permutation(8)
    index, x, y = Steps(0).batch(0)
    chain, tensors = OrderChain(draw), {"x": x, "y": y}
    return _call_us(lambda: chain.add(index)), _call_us(lambda: content_hash(tensors))


def _call_us(call: Callable[[], object], calls: int = 500) -> float:
    times = []
    for _ in range(21):
        began = time.thread_time()
        for _ in range(calls):
            call()
        times.append((time.thread_time() - began) / calls * 1e6)
    return median(times)


def main() -> None:
    asked = arguments(__doc__, REPEATS).parse_args()
    torch.set_num_threads(1)
    rows = measure(asked.repeats, PAIRS, REPORTS, width_of(), (STORED_TRIALS, STORED_BATCHES))
    report("Recording every batch", rows, asked.json)


def measure(repeats: int, pairs: int, reports: int, width: int, stored: tuple[int, int]) -> list[Comparison]:
    """Return the rows; the ways take turns."""
    ways: dict[str, Way] = {"ours": ours, "TensorBoard": tensorboard}
    has_wandb = importlib.util.find_spec("wandb") is not None
    if has_wandb:
        ways["W&B offline"] = wandb_offline
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    busy: list[Cost] = []
    for repeat in range(repeats + 1):  # the first warms up
        for name, way in ways.items():
            cost = way(width, pairs)
            found[name] += [cost] if repeat else []
        cost = ours(0, pairs)
        busy += [cost] if repeat else []
    reported = tune_reports(width, reports, repeats)
    found["tune.report"] = [Cost(one["share"], one["cpu_us"] + one["driver_us"], one["step_s"]) for one in reported]
    with TemporaryDirectory() as folder:
        size = run_all(Path(folder), "benchmarks.recording_loop:falling", stored[1], blocks=stored[0])
    own = found.pop("ours")
    order_us, content_us = hashing_us()
    hashing = order_us + content_us / GuardPlan().every
    back_to_back = tuple(cost.cpu_us for cost in busy)
    judged = median(cost.share * max(1.0, cost.step_s / STEP_S) for cost in own)  # a longer step hides nothing
    shares, cpu = tuple(cost.share * 100 for cost in own), tuple(cost.cpu_us for cost in own)
    rows = [
        Comparison(
            *("recording over the bare loop, wall", "%", shares),
            target=f"<= {MOST_SHARE:.0%} at a step of {STEP_S * 1e3:g} ms",
            met=judged <= MOST_SHARE,
            note=f"a bare step took {median(cost.step_s for cost in own) * 1e3:.2f} ms; "
            f"judged is {judged:.2%}, of {STEP_S * 1e3:g} ms where it took longer",
        ),
        Comparison(
            *("CPU a row, in that loop", "us", cpu),
            target=f"<= {MOST_US:.0f} us",
            met=median(cpu) <= MOST_US,
            note="caches as the step leaves them",
        ),
        Comparison(
            *("CPU a row, rows back to back", "us", back_to_back),
            note=f"hashing is {hashing:.2f} us of it ({hashing / median(back_to_back):.0%}): "
            f"the order {order_us:.2f} us a row, the contents {content_us:.1f} us every {GuardPlan().every} rows",
        ),
    ]
    for name in sorted(found):
        peer = found[name]
        rows += [
            Comparison("recording over the bare loop, wall", "%", shares, name, tuple(c.share * 100 for c in peer)),
            Comparison("CPU a row, in that loop", "us", cpu, name, tuple(c.cpu_us for c in peer)),
        ]
    if not has_wandb:
        rows.append(Comparison("CPU a row, in that loop", "us", cpu, "W&B offline", note="wandb is not installed"))
    each = size / (stored[0] * stored[1])
    rows.append(
        Comparison(
            *("a row on disk, after compaction", "bytes", (each,), "Tune's files", tuple(c["bytes"] for c in reported)),
            target=f"<= {MOST_BYTES:.0f} bytes",
            met=each <= MOST_BYTES,
            note=f"the whole store over {stored[0]} trials of {stored[1]} rows: loss, accuracy, duration",
        )
    )
    return rows


if __name__ == "__main__":
    os.environ.setdefault("WANDB_SILENT", "true")
    main()
