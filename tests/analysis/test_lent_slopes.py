"""A slope check that one arm made counts for all arms that run its code, and for no others."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from synthetic import Told, audit, block_losses, clean, grid, write_run

from ablate.design.spec import Arm, Contrast
from ablate.design.trial_spec import Numerics
from analysis.audit_report import audit_report
from analysis.audit_text import print_audit
from analysis.run_data import read_audits
from analysis.verdict import verdict

WRONG = {"batch_index": 0, "check": "slope", "verdict": "bug", "quantity": "gradient", "name": "conv1.bias", "count": 1}
WRONG |= {"error": 1.0, "scale": 2.0, "bound": 1e-8}
FILE = {"batch_index": 0, "check": "departure", "verdict": "found", "near": "backward", "role": "r/plain.py"}


def arm(threads, **settings):
    return Arm(numerics=Numerics(threads=threads), settings=settings, resources={"CPU": 1.0}, blocks=(0, 1))


ARMS = {"plain": arm(1), "two": arm(2), "four": arm(4), "other": arm(1, way=2)}
CONTRASTS = (Contrast(arms=("plain", "two")), Contrast(arms=("two", "four")), Contrast(arms=("plain", "other")))


@pytest.fixture
def told(tmp_path):
    def run(slope=None, unaudited=(), extra=()):
        def tell(trial):
            own = [row for row in audit() if row["check"] != "slope"] if trial.arm not in unaudited else []
            if (trial.arm, trial.block) == ("plain", 0):
                own = [*own, *(slope or [row for row in audit() if row["check"] == "slope"])]
            if (trial.arm, trial.block) == ("two", 0):
                own = [*own, *extra]
            losses = block_losses(trial.block) * (1 + 1e-6 * list(ARMS).index(trial.arm))
            return Told(losses, audits=[clean(0), *own])

        return write_run(tmp_path / "run", grid(ARMS, contrasts=CONTRASTS), tell)

    return run


def words(run):
    out = io.StringIO()
    print_audit(audit_report(run), Console(file=out, width=200))
    return " ".join(out.getvalue().split())


def evidence(run):
    return {one.label: " / ".join(words for _, words in one.evidence) for one in verdict(run).contrasts}


def test_a_right_slope_is_right_in_every_arm_with_that_code_and_said_to_be_another_arms(told):
    run = told()
    assert {arm.name: arm.slope for arm in audit_report(run).arms} == {
        "plain": "clean",
        "two": "clean",
        "four": "clean",
        "other": "",
    }
    found = evidence(run)
    assert found["two against plain"].count("the gradient is the slope of the loss in 3 checks") == 2
    assert "in 3 checks (of arm plain, which runs the same code); each" in found["two against plain"]
    assert found["four against two"].count("(of arm plain, which runs the same code)") == 2
    assert found["other against plain"].count("slope of the loss") == 1
    appendices = {one.label: one.appendix for one in verdict(run).contrasts}
    for label in ("two against plain", "four against two"):  # the three checks are counted once
        assert "The gradient was the slope of the loss in 3 checks." in appendices[label]


def test_a_wrong_slope_is_a_bug_in_every_arm_with_that_code_and_named_where_it_was_found(told):
    run = told([WRONG, FILE])
    report = audit_report(run)
    assert {arm.name: (arm.cause, arm.slope) for arm in report.arms} == {
        "plain": ("BUG", "bug"),
        "two": ("BUG", "bug"),
        "four": ("BUG", "bug"),
        "other": ("ROUNDING", ""),
    }
    text = words(run)
    wrong = "two: the gradient is not the slope of the loss, in parameter conv1.bias"
    assert f"{wrong} (found in arm plain, which runs the same code) at batch 0" in text
    assert "plain: the gradient is not the slope of the loss, in parameter conv1.bias at batch 0" in text
    assert text.count("to reproduce: python r/plain.py") == 4  # said of each arm, and in the first line
    sentences = {one.label: one.sentence for one in verdict(run).contrasts}
    assert sentences["four against two"].startswith("BUG: the gradient is not the slope of the loss, in parameter")
    assert ": in arm plain, which runs the same code, at batch 0 (block 0)" in sentences["four against two"]


def test_the_file_of_another_fault_is_not_lent(told):
    run = told([WRONG, FILE], extra=[FILE | {"role": "r/two.py"}])
    assert "python r/two.py" in words(run)
    assert words(run).count("python r/plain.py") == 3


def test_nothing_is_lent_to_an_arm_that_was_not_audited(told):
    run = told(unaudited=("two",))
    assert {arm.name: arm.slope for arm in audit_report(run).arms}["two"] == ""


def test_the_rows_themselves_are_as_recorded(told):
    run = told()
    slopes = [row for rows in read_audits(run).values() for row in rows if row.check == "slope"]
    assert [(row.arm, row.block, row.lent) for row in slopes] == [("plain", 0, "")]
