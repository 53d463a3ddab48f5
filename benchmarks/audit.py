"""What the audit costs, in ordinary batches; and what two other ways of comparing say about the same cases.

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

Comparison: arms of the test suite's small trainables, clean ones in other arithmetic and faulty ones. Each way is given
what the first batch gave in the arm, in a plain float32 arm and in float64: loss, gradients and updates.

- ablate: the verdict of the audit.
- same: ``torch._dynamo.utils.same`` with its defaults (root mean square error to float64, against the plain arm's).
- assert_close: ``torch.testing.assert_close`` with its defaults for the type, arm against plain arm.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ablate.design.trial_spec import AuditPlan, GuardPlan, Numerics, SketchPlan, TrialSpec
from ablate.record.paths import StorePaths
from ablate.trial.rerun import Rerun
from ablate.trial.runner import run_trial
from ablate.trial.slope_audit import SlopeAudit
from ablate.trial.task import ReferenceArm, TrialTask
from benchmarks.measured import Comparison, arguments, report

TESTS = Path(__file__).parent.parent / "tests" / "trial"
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

SMALL = ("Mlp", "Conv", "BatchNorm", "Lstm", "Attention", "Tied", "Accumulated", "Divided", "Chain", "Sparse", "Duel")
CLEAN: dict[str, dict[str, Any]] = {
    "one ulp": {"numerics": Numerics(perturb="one-ulp")},
    "no oneDNN": {"numerics": Numerics(onednn=False)},
    "two threads": {"numerics": Numerics(threads=2)},
    "bfloat16": {"numerics": Numerics(precision="bfloat16")},
}
FAULTS: dict[str, dict[str, Any]] = {
    "gradient 1 % off": {"settings": {"fault": "scaled", "size": 1e-2}},
    "gradient 0.1 % off": {"settings": {"fault": "scaled", "size": 1e-3}},
    "gradient 0.01 % off": {"settings": {"fault": "scaled", "size": 1e-4}},
    "rate 1 % off": {"settings": {"fault": "rate", "size": 1e-2}},
    "gradient 1 % off, all arms": {"settings": {"fault": "scaled", "size": 1e-2}, "all": True},
}


def run(
    trainable: str,
    root: Path,
    first: int,
    whole: bool = True,
    slope: bool = True,
    kept: Path | None = None,
    **changes: Any,
) -> float:
    """Run a trial; return its processor time in seconds."""
    fields: dict[str, Any] = {"settings": {}, "numerics": Numerics(), "batches": BATCHES, **changes}
    all_arms = fields.pop("all", False)
    reference = fields.pop("reference", None) or (fields["settings"] if all_arms else {})
    spec = TrialSpec(
        study="benchmark",
        trainable=trainable,
        arm="other",
        factors={},
        block=0,
        guard=GuardPlan(first=0, every=0),
        audit=AuditPlan(first=first),
        sketches=SketchPlan(every=0),
        resources={"CPU": 1.0},
        **fields,
    )
    for folder in StorePaths(root).folders:
        folder.mkdir(parents=True, exist_ok=True)
    task = TrialTask(
        spec=spec,
        root=str(root),
        attempt=1,
        cwd=str(root),
        search=(str(TESTS),),
        reference=ReferenceArm(arm="plain", settings=reference, env={}),
        audit_whole=whole,
        audit_slope=slope,
        kept=str(kept) if kept else None,
    )
    began = time.process_time()
    end = run_trial(task)
    if end.status != "done":
        raise SystemExit(end.error)
    return time.process_time() - began


@dataclass(frozen=True)
class Cost:
    """What the audit of one trial takes, in seconds of processor time, each time; see the columns above."""

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


def values(trainable: str, root: Path, **changes: Any) -> tuple[dict[str, Tensor], dict[str, Tensor], bool]:
    """Return what a trial's first batch gave, the same in float64, and whether the audit raised an alarm."""
    root.mkdir()
    kept = root / "kept.safetensors"
    run(f"audited_trainables:{trainable}", root, 1, kept=kept, batches=1, **changes)
    found = load_file(kept)
    arm = {name.removesuffix(".arm"): tensor for name, tensor in found.items() if name.endswith(".arm")}
    float64 = {name.removesuffix(".float64"): tensor for name, tensor in found.items() if name.endswith(".float64")}
    files = (root / "journal").glob("*.audits.jsonl")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return arm, float64, any(row["verdict"] == "bug" for row in rows)


def dynamo_alarm(plain: Mapping[str, Tensor], arm: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> bool:
    from torch._dynamo.utils import same

    return not all(same(plain[n].float(), arm[n].float(), exact[n], log_error=lambda *_, **__: None) for n in plain)


def close_alarm(plain: Mapping[str, Tensor], arm: Mapping[str, Tensor], dtype: torch.dtype) -> bool:
    try:
        for name in plain:
            torch.testing.assert_close(arm[name].to(dtype), plain[name].to(dtype))
    except AssertionError:
        return True
    return False


def compare() -> list[Comparison]:
    """Print how many alarms each way raises, and return the totals as rows."""
    rows = []
    print(f"\n{'alarms raised, of ' + str(len(SMALL)):<30} {'ablate':>7} {'same':>7} {'assert_close':>13}")
    totals = {"false alarms": [0, 0, 0], "missed faults": [0, 0, 0]}
    with tempfile.TemporaryDirectory() as folder:
        for case, changes in {**CLEAN, **FAULTS}.items():
            counts = [0, 0, 0]
            for number, trainable in enumerate(SMALL):
                root = Path(folder) / f"{case} {number}"
                root.mkdir()
                common = {"settings": changes["settings"], "all": True} if changes.get("all") else {}
                plain, _, _ = values(trainable, root / "plain", **common)
                arm, exact, alarm = values(trainable, root / "arm", **changes)
                low = changes.get("numerics", Numerics()).precision == "bfloat16"
                counts[0] += alarm
                counts[1] += dynamo_alarm(plain, arm, exact)
                counts[2] += close_alarm(plain, arm, torch.bfloat16 if low else torch.float32)
            print(f"{case:<30} {counts[0]:>7} {counts[1]:>7} {counts[2]:>13}", flush=True)
            for way, count in enumerate(counts):
                totals["false alarms" if case in CLEAN else "missed faults"][way] += (
                    count if case in CLEAN else len(SMALL) - count
                )
    for what, of in (("false alarms", len(CLEAN)), ("missed faults", len(FAULTS))):
        ours, dynamo, close = totals[what]
        print(f"{what + ', of ' + str(of * len(SMALL)):<30} {ours:>7} {dynamo:>7} {close:>13}")
        for peer_name, peer in (("dynamo's same", dynamo), ("assert_close", close)):
            rows.append(Comparison(f"{what}, of {of * len(SMALL)}", "cases", (ours,), peer_name, (peer,)))
    return rows


def main() -> None:
    asked = arguments(__doc__, 3).parse_args()
    report("The audit of arithmetic", [*costs(asked.repeats), *compare()], asked.json)


if __name__ == "__main__":
    main()
