"""``ablate verdict`` on synthetic runs: every cause and its words, what would change it, appendix."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from auditing import ARMS, BUG, GRADIENT, parted, teller
from rich.console import Console
from synthetic import (
    Told,
    arm,
    audit,
    block_losses,
    changed,
    grid,
    overwritten,
    write_run,
)

from ablate.design.spec import Contrast, Margin
from ablate.design.trial_spec import Numerics
from analysis.gap import gap
from analysis.gap_rows import verdict_rows
from analysis.opening import opening
from analysis.study import Study
from analysis.verdict import verdict
from analysis.verdict_text import print_verdict

MARGIN = Margin(value=2.0, unit="percent")
LABEL = "changed against plain"
LOW = {"roundoff": 2.0**-8, "dtype": "bfloat16", "bound": 0.05, "verdict": "reduced"}


@pytest.fixture
def judged(tmp_path):
    def run(tell, spec=None):
        store = write_run(tmp_path / "run", spec or grid(ARMS, margin=MARGIN), tell)
        report = verdict(store)
        text = printed(report)
        assert max(map(len, text.splitlines())) <= 100
        assert not {"nan", "inf", "None"} & set(text.split())
        json.dumps(report.to_json(), allow_nan=False)
        assert " ".join(text.split()).startswith(" ".join(" ".join(opening(gap(store))).split()))
        return {one.label: one for one in report.contrasts}

    return run


def printed(report):
    out = io.StringIO()
    print_verdict(report, Console(file=out, width=100))
    return out.getvalue()


def found(one, kind):
    return [words for name, words in one.evidence if name == kind]


def test_rounding_within_the_margin_is_chaos(judged):
    report = judged(teller())
    one = report[LABEL]
    assert (one.headline, one.cause, one.size) == ("CHAOS", "ROUNDING", "EQUIVALENT")
    assert one.sentence.startswith("CHAOS: the outcomes of arm changed and arm plain agree within 2% (TOST p ")
    assert one.sentence.endswith(" In the audited batches rounding explains every difference.")
    assert found(one, "float64")[1].startswith(
        "arm changed: the loss, 3 gradients and 3 updates in 3 batches of 6 trials are off by at most 1% of what "
    )
    assert one.would_change == ("a margin narrower than 2%, or seeds and machines that were not measured",)
    assert one.appendix.startswith("We compared arm changed with arm plain over 6 seeds. Initial weights, data set, ")
    for words in (
        "random draws were identical by hash. Gradients agreed with a float64 reference to within rounding (arm ",
        "The gradient was the slope of the loss in 36 checks. The outcome is the mean loss over the last 20 of 60 ",
        "batches; its paired gap was ",
        "% (95% BCa interval [",
        "]%; Holm-adjusted sign-flip p = ",
        "TOST within a margin of 2%: p ",
    ):
        assert words in one.appendix, words
    assert one.appendix.endswith(" The difference is attributed to rounding.")
    assert (report["nudged against plain"].cause, report["nudged against plain"].word) == ("ROUNDING", "ROUNDING")
    assert report["again against plain"].would_change == (
        "nothing on these machines; other machines, versions or more batches may part",
    )
    assert report["again against plain"].appendix.endswith(" All 120 recorded losses were equal in every bit.")


def test_a_wrong_gradient_is_a_bug_whatever_the_outcomes(judged):
    one = judged(teller(changed(audit(), GRADIENT, **BUG)))[LABEL]
    assert (one.headline, one.cause, one.size) == ("BUG", "BUG", "EQUIVALENT")
    assert one.sentence.startswith("BUG: the gradient of conv1.weight is wrong: in arm changed at batch 0 (block 0), ")
    assert "The fault is there all the same." in one.sentence
    assert one.would_change == ("a repair of the fault that is named, and a new launch: no outcome outweighs it",)
    assert "The gradient of conv1.weight is wrong: in arm changed" in one.appendix
    assert one.appendix.endswith(" The comparison is void until this is repaired.")


def test_a_bug_names_the_settings_in_which_its_arms_differ(judged):
    """A learning rate of its own is one by what was asked for; an overwritten tensor is one whatever was asked."""
    own = ARMS | {"changed": ARMS["changed"].model_copy(update={"settings": {"lr": 0.1, "input": "copied"}})}
    spec, rows = grid(own, margin=MARGIN), changed(audit(), GRADIENT, **BUG)
    assert found(judged(teller(rows), spec)[LABEL], "settings") == [
        "the arms differ in the setting input (the default in plain, copied in changed), lr (the default in plain, 0.1 "
        "in changed): an arm is held to the result under its reference arm's settings; what is meant to change it is a "
        "factor's level"
    ]


def test_nothing_is_said_of_settings_beside_an_overwritten_tensor(judged):
    own = ARMS | {"changed": ARMS["changed"].model_copy(update={"settings": {"lr": 0.1}})}
    assert not found(judged(teller([*audit(), *overwritten(0)]), grid(own, margin=MARGIN))[LABEL], "settings")


def test_nothing_is_said_of_settings_where_they_are_equal(judged):
    alike = ARMS | {"changed": ARMS["changed"].model_copy(update={"settings": ARMS["plain"].settings})}
    spec, rows = grid(alike, margin=MARGIN), changed(audit(), GRADIENT, **BUG)
    assert not found(judged(teller(rows), spec)[LABEL], "settings")


def test_equal_losses_do_not_hide_a_wrong_slope(judged):
    slope = {"batch_index": 0, "check": "slope", "verdict": "bug", "quantity": "gradient", "name": "conv1.bias"}
    numbers = {"error": 0.5, "scale": 1.0, "bound": 1e-8}
    one = judged(teller([*audit(), slope | numbers], losses=lambda trial: block_losses(trial.block)))[LABEL]
    assert (one.headline, one.size) == ("BUG", "EQUAL")
    assert one.sentence.startswith("BUG: the gradient is not the slope of the loss, in parameter conv1.bias: in arm ")
    assert "50% of its norm from the loss's slope" in one.sentence


def test_the_guards_sentence_stays_first(judged):
    rows = [*changed(audit(), GRADIENT, **BUG), *overwritten(0)]
    one = judged(teller(rows))[LABEL]
    assert one.sentence.startswith("BUG: this tensor was overwritten between forward and backward: target of Mse")
    assert " Besides, the gradient of conv1.weight is wrong: in arm changed" in one.sentence
    assert "A tensor was overwritten between forward and backward in arm changed. The gradient of" in one.appendix


def test_arms_that_compute_another_function(judged):
    one = judged(teller(changed(audit(), GRADIENT, anchor=1.2)))[LABEL]
    assert (one.headline, one.cause) == ("BUG", "BUG")
    words = (
        "arm changed and arm plain do not compute the same function: in float64, at equal weights and batch, the "
        "gradient of conv1.weight differs by 10% of its norm (batch 0, block 0)."
    )
    assert one.sentence.startswith(f"BUG: {words}")
    assert found(one, "float64")[2] == words


def test_another_precision_starts_from_other_numbers_and_is_no_other_function(judged):
    low = arm(way=2).model_copy(update={"numerics": Numerics(precision="bfloat16")})
    rows = changed(audit(**LOW), GRADIENT, anchor=1.2)
    spec = grid({**ARMS, "changed": low}, margin=MARGIN)
    one = judged(teller(rows, lambda trial: parted(trial, 0.01) * (1.2 if trial.arm == "changed" else 1)), spec)[LABEL]
    assert (one.headline, one.cause, one.size) == ("SYSTEMATIC", "REDUCED PRECISION", "DIFFERENT")
    assert one.sentence.endswith("In the audited batches rounding in bfloat16 (arm changed) explains every difference.")
    assert one.appendix.endswith(" The difference is attributed to rounding in bfloat16 (arm changed).")


def test_rounding_can_be_systematic_and_says_so(judged):
    one = judged(teller(losses=lambda trial: parted(trial, 0.01) * (1.2 if trial.arm == "changed" else 1)))[LABEL]
    assert (one.headline, one.cause) == ("SYSTEMATIC", "ROUNDING")
    assert one.appendix.endswith("yet the gap exceeds that of one ulp in the first weights.")
    assert one.would_change == ("seeds and machines that were not measured",)


def test_draws_outside_the_streams_confound(judged):
    one = judged(teller(changed(audit(), {"check": "draw_state", "batch_index": 1}, verdict="drawn", detail="cd")))[
        LABEL
    ]
    assert (one.headline, one.cause) == ("CONFOUNDED", "CONFOUNDED")
    stream = "draws of torch's global generator outside the streams"
    assert f"in {stream} (block 0 and 5 more, seen at batch 1)." in one.sentence
    assert one.would_change == (
        f"equal {stream} on both sides (take random numbers from `draw` or `ctx.draw`), and a new launch",
    )
    assert f"These differed: {stream}." in one.appendix
    assert one.appendix.endswith("since the two did not start equal.")


def test_draws_that_gave_other_numbers_confound_what_differs_and_nothing_else(judged, tmp_path):
    rows = changed(audit(), GRADIENT, verdict="confounded")
    assert judged(teller(rows))[LABEL].cause == "CONFOUNDED"
    same = write_run(tmp_path / "same", grid(ARMS), teller(rows, lambda trial: block_losses(trial.block)))
    assert {one.label: one.cause for one in verdict(same).contrasts}[LABEL] == "BITWISE EQUAL"


def test_initial_weights_that_differ_come_before_a_bug(judged):
    one = judged(teller(changed(audit(), GRADIENT, **BUG), initial_hash="other"))[LABEL]
    assert (one.headline, one.cause) == ("CONFOUNDED", "CONFOUNDED")
    assert " Besides, the gradient of conv1.weight is wrong" in one.sentence


def test_without_an_audit_the_cause_is_unknown_with_the_reason(judged):
    scope = {"batch_index": 0, "check": "scope", "verdict": "unseen", "detail": "a function owns its loop"}
    arms = {"plain": arm(), "changed": arm(way=2)}
    one = judged(teller([scope]), grid(arms))[LABEL]
    reason = "arm changed was not held against a float64 reference: a function owns its loop"
    assert (one.cause, one.word, one.unknown) == ("UNKNOWN", "UNKNOWN", reason)
    assert found(one, "why they differ") == [f"not determined: {reason}"]
    assert found(one, "not seen") == ["arm changed: a function owns its loop"]
    assert [words.partition(" (")[0].partition(":")[0] for words in one.would_change] == [
        "an audit of every trial's first batch, on both sides",
        "a margin in the grid, fixed before the launch",
        "a one-ulp control",
        "more blocks",
    ]
    assert "Gradients were not held against a float64 reference on both sides." in one.appendix
    assert one.appendix.endswith("What causes the difference was not determined.")


def test_a_declared_perturbation_without_an_audit(judged):
    one = judged(lambda trial: Told(parted(trial)))["nudged against plain"]
    assert (one.cause, one.word) == ("UNKNOWN", "declared")
    assert one.appendix.endswith("The difference is that of the declared perturbation.")


def test_levels_of_a_factor_are_never_rounding_but_may_hold_a_bug(judged, tmp_path):
    def tell(trial):
        scale = 1 + (trial.factors["lr"] == 0.2) * (0.1 + 0.01 * trial.block)
        return Told(block_losses(trial.block) * scale, audits=audit(), hashes={"draw_hash": str(trial.factors["lr"])})

    spec = grid({"plain": arm()}, (Contrast(factor="lr", levels=(0.1, 0.2)),), {"lr": (0.1, 0.2)})
    one = judged(tell, spec)["lr: 0.2 against 0.1"]
    assert (one.cause, one.word, one.headline) == ("UNKNOWN", "declared", "INCONCLUSIVE")
    assert found(one, "why they differ") == [
        "levels of a factor differ by design, and the gap is the factor's own effect"
    ]
    assert "The factor itself changes random draws." in one.appendix
    assert one.appendix.endswith("Levels of a factor differ by design, and the gap is the factor's own effect.")
    faulty = lambda trial: Told(block_losses(trial.block), audits=changed(audit(), GRADIENT, **BUG))  # noqa: E731
    assert verdict(write_run(tmp_path / "b", spec, faulty)).contrasts[0].cause == "BUG"


def test_noise_that_the_grid_adds_is_not_called_rounding(judged):
    noisy = arm().model_copy(update={"numerics": Numerics(gradient_noise=100.0)})
    report = judged(teller(), grid({"plain": arm(), "changed": noisy}, margin=MARGIN))
    assert (report[LABEL].headline, report[LABEL].word) == ("EQUIVALENT", "declared")
    assert report[LABEL].unknown == (
        "the grid adds noise to the gradients, 0 ulps in arm plain and 100 ulps in arm changed, and the gap is that "
        "noise's effect"
    )


def test_where_a_side_departs_is_shown(judged):
    departure = {"batch_index": 0, "check": "departure", "verdict": "found", "near": "aten.convolution",
                 "source": "model.py:33", "detail": "its output is 2% off", "role": "repro/conv.py"}  # fmt: skip
    bare = {"batch_index": 0, "check": "departure", "verdict": "found", "detail": "in no operation"}
    one = judged(teller([*changed(audit(), GRADIENT, **BUG), departure, bare]))[LABEL]
    assert found(one, "where") == [
        "arm changed: first departs at aten.convolution, model.py:33; its output is 2% off; shown alone by "
        "repro/conv.py",
        "arm changed: in no operation",
    ]


def test_a_run_without_any_trial(judged):
    report = judged(lambda trial: Told(np.empty(0), status=None))
    assert report[LABEL].unknown == "neither side was held against a float64 reference"
    assert "over 0 seeds. Whether both started equal was not recorded." in report[LABEL].appendix
    assert "No seed has an outcome on both sides." in report[LABEL].appendix


def test_the_table_shows_the_cause_and_the_page_the_same_opening(tmp_path):
    run = write_run(tmp_path / "run", grid(ARMS, margin=MARGIN), teller())
    assert {row[0]: row[2] for row in verdict_rows(gap(run).contrasts).rows}[LABEL] == "ROUNDING"
    assert verdict(run).opening[0] == gap(run).headline == Study(run.paths.root).report.headline


def test_short_lines_name_the_fault(tmp_path):
    arms = {**ARMS, "third": arm(way=3), "fourth": arm(way=4)}
    faults = {"third": changed(audit(), GRADIENT, **BUG), "changed": changed(audit(), GRADIENT, anchor=1.2)}

    def tell(trial):
        rows = overwritten(0) if trial.arm == "fourth" else []
        return Told(parted(trial), audits=[*faults.get(trial.arm, audit()), *rows])

    said = opening(gap(write_run(tmp_path / "run", grid(arms, margin=MARGIN), tell)))
    assert said[1].startswith("BUG: third against plain: the gradient of conv1.weight is wrong in arm third; gap ")
    assert said[2].startswith("BUG: fourth against plain: a tensor is overwritten in arm fourth; gap ")


def test_verdict_loads_neither_torch_nor_ray():
    code = (
        "import sys, analysis.verdict, analysis.verdict_text, analysis.fail_on;"
        "found = {'torch', 'ray', 'trainables', 'ablate.trial', 'ablate.audit'} & set(sys.modules);"
        "sys.exit(', '.join(sorted(found)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_audit_is_drawn_empty_and_many_contrasts_are_named(tmp_path):
    arms = {f"arm-{n}": arm(2, way=n) for n in range(9)}
    here = Study(write_run(tmp_path / "run", grid(arms), lambda trial: Told(block_losses(trial.block))).paths.root)
    assert here.distances().caption == "No step was held against a float64 reference."
    assert here.distances().png()
    caption = here.beside_controls().caption
    assert "Not drawn: arm-7 against arm-0; arm-8 against arm-0." in caption
    assert "arm-7 against arm-0" in here.all_evidence().text
    assert here.appendix().text.count("<p>We compared") == 8
