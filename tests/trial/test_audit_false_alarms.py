"""How often the audit cries wolf, and how small a fault it sees.

Clean arms: 0 alarms in at least 200 audits bound the rate of false alarms below 1.5 % with 95 % confidence (rule of
three: if the rate were p, none in n would have probability (1 - p)^n < exp(-p n), which is 5 % at p = 3 / n; Hanley and
Lippman-Hand, JAMA 249 (1983) 1743). The audits are no random sample of the world's models: the bound is over kinds of
arithmetic that these architectures do, with other weights and data.

Planted: the gradient of one layer is scaled by what is 10 times the bound of that layer in a clean audit; every one
must be found, and the size of the smallest is printed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from audited_trainables import ARCHITECTURES
from spec_factory import make_task

from ablate.audit.distance import FACTOR
from ablate.design.trial_spec import AuditPlan, GuardPlan, Numerics
from ablate.trial.runner import run_trial
from ablate.trial.task import ReferenceArm

pytestmark = pytest.mark.slow

ARMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two threads": {"threads": 2},
    "no oneDNN": {"onednn": False},
    "channels last": {"memory_format": "channels_last"},
    "one ulp": {"perturb": "one-ulp"},
    "rows permuted": {"perturb": "permute-rows"},
    "bfloat16": {"precision": "bfloat16"},
}
CARRIED = ("Lstm", "SmallPredNet")
"""Their rows may not be permuted."""
CONVOLVED = ("Conv", "SmallPredNet")
"""They alone have a memory format."""
NOT_BFLOAT16 = ("Window",)
"""It goes through NumPy, which has no such type."""
BLOCKS = 2
ALARMS = ("bug", "confounded", "overwritten")


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    yield
    torch.set_num_threads(threads)
    torch.backends.mkldnn.enabled = onednn


def audit(root: Path, architecture: str, block: int = 0, first: int = 2, **changes: Any) -> list[dict[str, Any]]:
    """Train ``first`` batches and audit each; return the rows."""
    plan = {"batches": first, "audit": AuditPlan(first=first), "guard": GuardPlan(first=first, every=0)}
    task = make_task(root, f"audited_trainables:{architecture}", block=block, **plan, **changes)
    task = task.model_copy(update={"reference": ReferenceArm(arm="clean", settings={}, env={})})
    end = run_trial(task)
    assert end.status == "done", end.error
    files = (root / "journal").glob("*.audits.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def cases(architecture: str) -> list[tuple[str, int]]:
    unfit = {"rows permuted"} if architecture in CARRIED else set()
    unfit |= {"channels last"} if architecture not in CONVOLVED else set()
    unfit |= {"bfloat16"} if architecture in NOT_BFLOAT16 else set()
    return [(name, block) for name in ARMS if name not in unfit for block in range(BLOCKS)]


def test_there_are_enough_audits() -> None:
    """Each trial is two audits, of the first two batches."""
    assert len(ARCHITECTURES) >= 10
    assert 2 * sum(len(cases(architecture)) for architecture in ARCHITECTURES) >= 200


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_clean_arms_raise_no_alarm(tmp_path: Path, architecture: str) -> None:
    for name, block in cases(architecture):
        rows = audit(tmp_path / f"{name} {block}", architecture, block, numerics=Numerics(**ARMS[name]))
        alarms = [row for row in rows if row["verdict"] in ALARMS]
        assert not alarms, (name, block, alarms)
        assert {row["batch_index"] for row in rows if row["check"] == "distance"} == {0, 1}, (name, block, rows)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_gradient_that_is_wrong_by_ten_bounds_is_found(
    tmp_path: Path, architecture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = gradient(audit(tmp_path / "clean", architecture, first=1))
    # the bound is the larger of two: rounding is simulated only where the first is exceeded, so for any fault
    size = 10 * clean["bound"] / clean["scale"]
    tried = gradient(planted(tmp_path / "tried", architecture, size))
    size = 10 * max(tried["bound"], FACTOR * tried.get("noise", 0.0)) / clean["scale"]
    found = gradient(planted(tmp_path / "faulty", architecture, size))
    assert found["verdict"] == "bug", (size, found)
    with capsys.disabled():
        print(f"\n{architecture}: found a gradient wrong by {size:.2g} of itself ({found['name']})")


def planted(root: Path, architecture: str, size: float) -> list[dict[str, Any]]:
    return audit(root, architecture, first=1, settings={"fault": "scaled", "size": size})


def gradient(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of the gradient that faults are planted in."""
    return next(row for row in rows if row.get("quantity") == "gradient" and len(row.get("shape", ())) > 1)
