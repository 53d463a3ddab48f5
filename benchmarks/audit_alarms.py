"""What the audit's verdict and two other ways of comparing say about the same cases: false alarms and missed faults.

Arms of the test suite's small trainables, clean ones in other arithmetic and faulty ones. Each way is given
what the first batch gave in the arm, in a plain float32 arm and in float64: loss, gradients and updates.

- ablate: the verdict of the audit.
- same: ``torch._dynamo.utils.same`` with its defaults (root mean square error to float64, against the plain arm's).
- assert_close: ``torch.testing.assert_close`` with its defaults for the type, arm against plain arm.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ablate.design.trial_spec import Numerics
from benchmarks.audited import run
from benchmarks.measured import Comparison

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
