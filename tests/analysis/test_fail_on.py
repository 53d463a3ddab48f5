"""Verdicts that a script waits for, and the exit codes of ``ablate verdict``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from auditing import ARMS, BUG, GRADIENT, parted, teller
from synthetic import Told, audit, changed, grid, overwritten, write_run
from typer.testing import CliRunner

from ablate.cli import app
from ablate.design.spec import Margin
from ablate.errors import BadInput, VerdictReached
from analysis.fail_on import KNOWN, fail_on, wanted
from analysis.verdict import verdict

MARGIN = Margin(value=2.0, unit="percent")


def test_words_that_a_script_may_wait_for():
    assert wanted("bug,Confounded") == {"BUG", "CONFOUNDED"}
    assert wanted("bitwise-equal, reduced_precision") == {"BITWISE EQUAL", "REDUCED PRECISION"}
    assert all(wanted(word.lower().replace(" ", "-")) == {word} for word in KNOWN)
    with pytest.raises(
        BadInput, match=r"--fail-on: 'bugg' is no verdict\n    did you mean 'bug'\?\n    allowed: bug, "
    ):
        wanted("bugg")
    with pytest.raises(BadInput, match="'' is no verdict"):
        wanted("")


def test_what_a_script_waits_for_is_an_error_and_a_control_only_if_it_is_a_fault(tmp_path):
    report = verdict(write_run(tmp_path / "run", grid(ARMS, margin=MARGIN), teller()))
    fail_on(report, wanted("bug,confounded,inconclusive,bitwise-equal"))
    with pytest.raises(VerdictReached, match=r"^changed against plain: CHAOS, ROUNDING$") as raised:
        fail_on(report, wanted("chaos,rounding"))
    assert raised.value.exit_code == 5
    tell = lambda t: Told(parted(t), audits=overwritten(0) if t.arm == "again" else [])  # noqa: E731
    with pytest.raises(VerdictReached, match=r"^again against plain: BUG$"):
        fail_on(verdict(write_run(tmp_path / "b", grid(ARMS), tell)), wanted("bug"))


def test_the_command_and_its_exit_codes(tmp_path):
    run = write_run(tmp_path / "run", grid(ARMS), teller(changed(audit(), GRADIENT, **BUG)))

    command = [str(Path(sys.executable).with_name("ablate")), "verdict", str(run.paths.root)]
    failed = subprocess.run(
        [*command, "--json", "--fail-on", "bug,confounded"], capture_output=True, text=True, check=False
    )
    assert (failed.returncode, failed.stderr) == (5, "error: changed against plain: BUG\n")
    assert json.loads(failed.stdout)["contrasts"][0]["headline"] == "BUG"
    plain = CliRunner().invoke(app, ["verdict", str(run.paths.root)])
    assert plain.exit_code == 0
    assert plain.stdout.startswith("BUG: the gradient of conv1.weight is wrong")
