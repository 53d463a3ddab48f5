"""What the audit costs, in ordinary batches; and what it finds, beside two other ways of comparing.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/audit.py [--repeats N] [--json FILE]

Cost: trials with and without the audit of their first 3 batches take turns in this process, and processor time is
counted, so that a busy machine disturbs less; what is printed is medians. The arm is held against another one, as in a
launch.

- start: making the second model. It takes as long however many batches are audited and however long a batch is, and is
  in no other column. Everything else is: also what is done at the first audited batch alone.
- block: the audit of one trial of an arm whose settings are the reference arm's, so that they differ in how they
  compute; "settings" is that of an arm with other settings, whose own code runs in float64 beside the reference arm's.
- first: the audit of an arm's first block, which also makes the run of float64 from batch 0 and keeps every value.
- slope: what the slope check adds to that in one arm, the first of those that run the same code.
- an arm with so many blocks: (first + the others) / blocks. The audit is made in every block.

What it finds: ``audit_alarms``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ablate.trial.rerun import Rerun
from ablate.trial.slope_audit import SlopeAudit
from benchmarks.audit_alarms import compare
from benchmarks.audited import run
from benchmarks.measured import Comparison, arguments, report

AIM = 12
AUDITED, BATCHES = 3, 10
BLOCKS = (3, 10)

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "PredNet 24x16": ("trainables.prednet:PredNet", {"width": 24, "height": 16, "channels": "3,16,32"}),
    "PredNet 80x56": ("trainables.prednet:PredNet", {"width": 80, "height": 56, "channels": "3,16,32"}),
    "autoencoder": ("trainables.autoencoder:Autoencoder", {"batch_size": 16}),
}

NAMED = {"lr": 1e-3}
"""A setting at its default: named on one side alone, it counts as another one, of the same model."""


@dataclass(frozen=True)
class Cost:
    """What the audit of one trial takes, as the header's columns have it: processor seconds of each repeat."""

    batch: tuple[float, ...]
    start: tuple[float, ...]
    block: tuple[float, ...]
    settings: tuple[float, ...]
    first: tuple[float, ...]
    slope: tuple[float, ...]

    def in_batches(self, times: tuple[float, ...]) -> tuple[float, ...]:
        """Return times in ordinary batches."""
        return tuple(time / median(self.batch) for time in times)

    def arm(self, blocks: int) -> tuple[float, ...]:
        """Return the audit's time a block, of an arm with so many."""
        return tuple(
            (first + (blocks - 1) * block) / blocks for first, block in zip(self.first, self.block, strict=True)
        )


@contextmanager
def counted(owner: type, method: str, spent: list[float]) -> Iterator[None]:
    """Add up the processor time of a method's calls in ``spent[-1]``."""
    plain = getattr(owner, method)

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        try:
            return plain(*args, **kwargs)
        finally:
            spent[-1] += time.process_time() - began

    setattr(owner, method, timed)
    try:
        yield
    finally:
        setattr(owner, method, plain)


def cost(trainable: str, settings: dict[str, Any], repeats: int) -> Cost:
    """Measure it, every plan in turn so many times after a first that is not counted."""
    plain = {"reference": settings, "batches": AUDITED, "first": AUDITED, "slope": False}
    plans: dict[str, dict[str, Any]] = {
        "short": {**plain, "first": 0},
        "long": {**plain, "first": 0, "batches": BATCHES},
        "block": {**plain, "whole": False},
        "settings": {**plain, "whole": False, "reference": {**settings, **NAMED}},
        "first": plain,
        "checks": {**plain, "slope": True},
    }
    times: dict[str, list[float]] = {name: [] for name in plans}
    start: dict[str, list[float]] = {name: [] for name in plans}
    slope: dict[str, list[float]] = {name: [] for name in plans}
    for repeat in range(repeats + 1):
        for name, plan in plans.items():
            made, looked = [0.0], [0.0]
            with (
                tempfile.TemporaryDirectory() as folder,
                counted(Rerun, "__init__", made),
                counted(SlopeAudit, "slope", looked),
            ):
                spent = run(trainable, Path(folder), settings=settings, **plan)
            if repeat:
                times[name].append(spent - made[0])
                start[name] += made
                slope[name] += looked

    def beyond(name: str) -> tuple[float, ...]:
        return tuple(one - short for one, short in zip(times[name], times["short"], strict=True))

    return Cost(
        batch=tuple(spent / (BATCHES - AUDITED) for spent in beyond("long")),
        start=tuple(start["settings"]),
        block=beyond("block"),
        settings=beyond("settings"),
        first=beyond("first"),
        slope=tuple(slope["checks"]),
    )


def costs(repeats: int) -> list[Comparison]:
    """Print what the audit costs each model, and return it as rows."""
    rows = []
    print(f"in ordinary batches, for the first {AUDITED} of a trial (aim {AIM} beside the start):")
    blocks = "".join(f"{f'{count} blocks':>10}" for count in BLOCKS)
    heads = ("block", "settings", "first", "slope")
    print(f"{'':<16}{'batch ms':>9}{'start ms':>9}{''.join(f'{head:>9}' for head in heads)}{blocks}")
    for name, (trainable, settings) in MODELS.items():
        found = cost(trainable, settings, repeats)
        parts = [median(found.in_batches(getattr(found, head))) for head in heads]
        arms = [median(found.in_batches(found.arm(count))) for count in BLOCKS]
        batch, begin = median(found.batch) * 1e3, median(found.start) * 1e3
        numbers = [f"{batch:>9.1f}", f"{begin:>9.1f}", *(f"{part:>9.1f}" for part in parts)]
        print(f"{name:<16}{''.join(numbers)}{''.join(f'{arm:>10.1f}' for arm in arms)}", flush=True)
        rows += model_rows(name, found)
    return rows


def model_rows(name: str, found: Cost) -> list[Comparison]:
    """Return a model's rows: what is aimed at holds beside the start, for blocks after the first and for whole arms."""
    note = f"a batch takes {median(found.batch) * 1e3:.1f} ms, the start {median(found.start) * 1e3:.1f} ms more"
    aimed = {
        "a block": found.block,
        "a block of other settings": found.settings,
        **{f"a block, over an arm of {count}": found.arm(count) for count in BLOCKS},
    }
    other = {"an arm's first block": found.first, "the slope check, in one arm": found.slope}
    rows = []
    for what, times in {**aimed, **other}.items():
        ours = found.in_batches(times)
        target, met = (f"<= {AIM}", median(ours) <= AIM) if what in aimed else ("", None)
        rows.append(Comparison(f"{name}: {what}", "batches", ours, target=target, met=met, note=note))
    return rows


def main() -> None:
    asked = arguments(__doc__, 3).parse_args()
    report("The audit of arithmetic", [*costs(asked.repeats), *compare()], asked.json)


if __name__ == "__main__":
    main()
