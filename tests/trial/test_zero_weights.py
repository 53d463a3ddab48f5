"""The one-ulp control of a model that begins with zeros: what it differs in is rounding, and no fault is seen in it."""

from __future__ import annotations

from pathlib import Path

from audited_study import arm, judge

SEEN = ("bug", "confounded", "overwritten")


def test_weights_that_begin_at_zero_make_no_alarm_of_one_ulp(tmp_path: Path) -> None:
    judged = judge(tmp_path, "ZeroHead", arm({"perturb": "one-ulp"}, repeat="reference"), batches=8, audit=2)
    assert [row for row in judged.rows if row["verdict"] in SEEN] == []
    assert judged.cause == "ROUNDING"
