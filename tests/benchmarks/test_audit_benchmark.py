"""The benchmark of the audit runs what it says: faults are found, clean arms pass, and nothing stays patched."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.trial.rerun import Rerun
from ablate.trial.slope_audit import SlopeAudit
from benchmarks import audit, audit_alarms, audited


def test_a_cost_has_every_repeat_and_the_methods_are_their_own_again() -> None:
    before = Rerun.__init__, SlopeAudit.slope
    found = audit.cost("audited_trainables:Mlp", {}, 2)
    assert all(len(times) == 2 for times in vars(found).values())
    assert min(found.start + found.slope) > 0
    assert (Rerun.__init__, SlopeAudit.slope) == before


def test_an_arms_time_is_its_first_block_and_the_others_over_all() -> None:
    found = audit.Cost(batch=(2.0,), start=(9.0,), block=(4.0,), settings=(5.0,), first=(24.0,), slope=(3.0,))
    assert found.arm(3) == pytest.approx(((24 + 2 * 4) / 3,))
    assert found.in_batches(found.block) == (2.0,)
    rows = {row.what: row for row in audit.model_rows("small", found)}
    assert rows["small: a block, over an arm of 3"].met
    assert rows["small: an arm's first block"].met is None
    late = audit.Cost(**{**vars(found), "block": (25.0,)})
    assert audit.model_rows("small", late)[0].met is False


def test_a_fault_is_an_alarm_and_other_arithmetic_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_alarms, "SMALL", ("Mlp",))
    monkeypatch.setattr(audit_alarms, "CLEAN", {"no oneDNN": audit_alarms.CLEAN["no oneDNN"]})
    monkeypatch.setattr(audit_alarms, "FAULTS", {"all arms": audit_alarms.FAULTS["gradient 1 % off, all arms"]})
    rows = {(row.what, row.peer_name): row for row in audit_alarms.compare()}
    assert {row.ours for row in rows.values()} == {(0,)}
    # both others hold an arm against an arm, which has the same fault
    assert rows["missed faults, of 1", "dynamo's same"].peer == rows["missed faults, of 1", "assert_close"].peer == (1,)


def test_a_failed_trial_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no_such"):
        audited.run("audited_trainables:no_such", tmp_path, 0, batches=1)
