"""The whole of ``ablate gap`` on synthetic runs: planted effects must be found, and named as what they are."""

import ast
import io
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from synthetic import Told, arm, block_losses, clean, generator, grid, overwritten, write_run

import analysis
from ablate.design.spec import Contrast, Margin, Outcome
from ablate.errors import BadInput
from analysis.gap import gap
from analysis.gap_table import print_gap

WATCHED = (0, 1, 2, 50)
ARMS = {"plain": arm(), "changed": arm(way=2), "plain-again": arm(2, "plain"), "nudged": arm(6, "plain", "one-ulp")}


def clean_audits():
    return [clean(batch) for batch in WATCHED]


def faulty_audits():
    return [row for batch in WATCHED for row in overwritten(batch)]


def noisy(losses, size, *key):
    """Differ in every batch from 3 on, by relative noise of one level per trial."""
    losses = losses.copy()
    losses[3:] *= 1 + size * generator(*key).standard_normal()
    return losses


def teller(**arms):
    """Tell trials arm by arm; an arm not named trains exactly as the block does, a one-ulp arm nearly so."""

    def tell(trial):
        base = block_losses(trial.block)
        if trial.arm in arms:
            told = arms[trial.arm](trial, base)
            return told if isinstance(told, Told) else Told(told, audits=clean_audits())
        if trial.numerics.perturb:
            base = noisy(base, 1e-4, "one-ulp", trial.block)
        return Told(base, audits=clean_audits())

    return tell


def printed(report):
    out = io.StringIO()
    print_gap(report, Console(file=out))
    return out.getvalue()


def test_a_narrow_terminal_is_not_overrun(tmp_path):
    told = teller(changed=lambda t, x: Told(x * 1.5, audits=faulty_audits()))
    report = gap(write_run(tmp_path / "run", grid(ARMS, margin=Margin(value=2.0, unit="percent")), told))
    out = io.StringIO()
    print_gap(report, Console(file=out, width=80, force_terminal=True, color_system=None))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "…" not in out.getvalue()  # nothing is cut off


def words(text):
    return " ".join(text.split())


@pytest.fixture
def analyse(tmp_path):
    def run(spec, tell, **options):
        report = gap(write_run(tmp_path / "run", spec, tell), **options)
        text = json.dumps(report.to_json(), allow_nan=False)
        assert "nan" not in printed(report).lower().split(), text
        assert max(map(len, printed(report).splitlines())) <= 100
        assert words(printed(report)).startswith(words(report.headline))
        return report

    return run


def by_label(report):
    return {contrast.label: contrast for contrast in report.contrasts}


def test_an_overwritten_tensor_with_a_gap(analyse):
    report = analyse(
        grid(ARMS),
        teller(
            changed=lambda t, x: Told(
                np.r_[x[0], x[1:] * (1.8 + 0.2 * generator(t.block).random())], audits=faulty_audits()
            )
        ),
    )
    found = by_label(report)["changed - plain"]
    assert (found.verdict.headline, found.verdict.cause, found.verdict.size) == ("BUG", "BUG", "DIFFERENT")
    assert found.verdict.sentence.startswith(
        "BUG: this tensor was overwritten between forward and backward: target of MseLossBackward0, "
        "shape (1, 3, 16, 24), saved at "
        "somewhere/model.py:123 in Model.loss (outside every module, after parameter last.bias), "
        "in arm changed at batch 0 (19 tensors a batch); "
        "arm plain: none in 2,400 tensors checked. The outcome's gap is +"
    )
    assert report.headline == found.verdict.sentence
    assert found.effect.test.p == found.adjusted_p == 0.03125
    assert found.divergence.earliest == 1
    assert found.effect.relative_interval.excludes(0.75)
    assert not found.effect.relative_interval.excludes(found.effect.relative)
    twin = by_label(report)["plain-again - plain"]
    assert (twin.control, twin.verdict.headline, twin.effect.gap, twin.effect.n) == ("A/A", "BITWISE EQUAL", 0.0, 2)
    assert twin.verdict.sentence == (
        "A/A control: bitwise equal, as the same arm run twice should be (120 batches in 2 pairs of trials)."
    )
    nudged = by_label(report)["nudged - plain"]
    assert (nudged.control, nudged.divergence.earliest, nudged.verdict.cause) == ("one-ulp", 3, "UNKNOWN")


def test_an_overwritten_tensor_without_a_gap_is_still_a_bug(analyse):
    report = analyse(
        grid(ARMS), teller(changed=lambda t, x: Told(noisy(x, 1e-4, "still", t.block), audits=faulty_audits()))
    )
    found = by_label(report)["changed - plain"]
    assert (found.verdict.headline, found.verdict.size) == ("BUG", "UNDECIDED")
    assert "The outcome shows no sure gap" in found.verdict.sentence
    assert found.verdict.sentence.endswith("the fault is there all the same.")


def test_a_bug_on_both_sides_is_said_to_be(analyse):
    told = teller(
        plain=lambda t, x: Told(x, audits=faulty_audits()), changed=lambda t, x: Told(x, audits=faulty_audits())
    )
    found = by_label(analyse(grid(ARMS), told))["changed - plain"]
    assert (
        "it happens on both sides. The outcomes are equal, the fault is there all the same." in found.verdict.sentence
    )


def test_equal_bits_need_no_test(analyse):
    report = analyse(grid(ARMS), teller())
    found = by_label(report)["changed - plain"]
    assert found.verdict.sentence == (
        "BITWISE EQUAL: arm changed and arm plain have the same losses, bit by bit (360 batches in 6 pairs of trials)."
    )
    assert (found.verdict.size, found.divergence.earliest, found.effect.gap) == ("EQUAL", None, 0.0)


def test_equal_losses_with_unequal_held_out_outcomes_are_not_equal(analyse):
    def tell(trial):
        return Told(
            block_losses(trial.block),
            audits=clean_audits(),
            evaluate={"accuracy": 0.5 + 0.1 * (trial.arm == "changed")},
        )

    report = analyse(grid(ARMS, outcome=Outcome(evaluate="accuracy")), tell)
    found = by_label(report)["changed - plain"]
    assert (found.verdict.cause, found.verdict.size, found.divergence.bitwise_equal) == ("UNKNOWN", "DIFFERENT", True)
    assert found.effect.gap == pytest.approx(0.1)
    assert report.outcome == "accuracy on held-out data, after batch 59"


def test_a_planted_gap_beyond_one_ulp_is_systematic(analyse):
    report = analyse(grid(ARMS), teller(changed=lambda t, x: noisy(x, 0.01, "sys", t.block) * 1.3))
    found = by_label(report)["changed - plain"]
    assert (found.verdict.headline, found.verdict.cause) == ("SYSTEMATIC", "UNKNOWN")
    assert found.beyond_one_ulp.control == "nudged - plain"
    assert found.beyond_one_ulp.excludes_zero
    assert "which excludes 0" in found.verdict.sentence
    assert found.verdict.sentence.endswith("Cause UNKNOWN: gradients were not compared with a float64 reference.")


def test_a_gap_no_larger_than_one_ulp_makes_is_not_systematic(analyse):
    arms = {name: one for name, one in ARMS.items() if name != "plain-again"}
    bias = lambda t, x: x * (1.05 + 0.001 * t.block)  # noqa: E731
    report = analyse(grid(arms), teller(changed=bias, nudged=lambda t, x: x * (1.0515 + 0.0005 * (t.block % 2))))
    found = by_label(report)["changed - plain"]
    assert (found.verdict.size, found.verdict.headline) == ("DIFFERENT", "INCONCLUSIVE")
    assert "no more than one ulp does" in found.verdict.sentence


def test_a_difference_without_a_one_ulp_control_says_what_is_missing(analyse):
    report = analyse(
        grid({"plain": arm(), "changed": arm(way=2)}), teller(changed=lambda t, x: x * (1.3 + 0.01 * t.block))
    )
    found = by_label(report)["changed - plain"]
    assert (found.verdict.size, found.verdict.headline) == ("DIFFERENT", "INCONCLUSIVE")
    assert "add a control arm with `repeat` and `perturb: one-ulp`" in found.verdict.sentence
    assert any("so no gap is called SYSTEMATIC" in note for note in report.notes)


def test_a_one_ulp_control_on_too_few_blocks_is_not_enough(analyse):
    arms = {"plain": arm(), "changed": arm(way=2), "nudged": arm(2, "plain", "one-ulp")}
    found = by_label(analyse(grid(arms), teller(changed=lambda t, x: x * (1.3 + 0.01 * t.block))))["changed - plain"]
    assert found.verdict.headline == "INCONCLUSIVE"
    assert "The one-ulp control shares 2 blocks with it; at least 3 are needed" in found.verdict.sentence


def test_within_the_margin_is_equivalent(analyse):
    spec = grid(ARMS, margin=Margin(value=2.0, unit="percent"))
    report = analyse(spec, teller(changed=lambda t, x: noisy(x, 1e-3, "eq", t.block)))
    found = by_label(report)["changed - plain"]
    assert (found.verdict.headline, found.effect.equivalence.equivalent) == ("EQUIVALENT", True)
    assert report.margin == "2%"
    assert "within 2% (TOST p < .0001)" in found.verdict.sentence


def test_different_but_negligible(analyse):
    spec = grid(ARMS, margin=Margin(value=2.0, unit="percent"))
    found = by_label(analyse(spec, teller(changed=lambda t, x: x * (1.001 + 1e-5 * t.block))))["changed - plain"]
    assert (found.verdict.size, found.verdict.headline) == ("DIFFERENT BUT NEGLIGIBLE", "EQUIVALENT")


def test_undecided_says_how_many_blocks_would_decide(analyse):
    spec = grid(ARMS, margin=Margin(value=2.0, unit="percent"))
    found = by_label(analyse(spec, teller(changed=lambda t, x: noisy(x, 0.05, "un", t.block))))["changed - plain"]
    assert (found.verdict.size, found.verdict.headline) == ("UNDECIDED", "INCONCLUSIVE")
    assert found.effect.blocks_for_equivalence > 6
    assert f"About {found.effect.blocks_for_equivalence} blocks would show it" in found.verdict.sentence


def test_a_margin_given_later_is_post_hoc(analyse):
    report = analyse(grid(ARMS), teller(changed=lambda t, x: noisy(x, 1e-3, "ph", t.block)), margin=Margin(value=0.01))
    assert report.margin == "0.01 (post hoc)"
    assert "The margin, 0.01, was given after the launch: equivalence is post hoc." in report.notes


@pytest.mark.parametrize(
    ("hashes", "content", "stream"),
    [
        ({"initial_hash": "other"}, {}, "initial weights (block 0 and 5 more)"),
        ({"data_hash": "other"}, {}, "data set (block 0 and 5 more)"),
        ({"draw_hash": "other"}, {}, "random draws (block 0 and 5 more)"),
        ({}, {50: 7}, "batch contents (block 0 and 5 more, seen at batch 50)"),
    ],
)
def test_streams_that_differ_confound(analyse, hashes, content, stream):
    told = teller(changed=lambda t, x: Told(x * 1.5, audits=faulty_audits(), hashes=hashes, content=content))
    found = by_label(analyse(grid(ARMS), told))["changed - plain"]
    assert found.verdict.headline == found.verdict.cause == "CONFOUNDED"
    assert stream in found.verdict.sentence
    assert "Besides, this tensor was overwritten" in found.verdict.sentence


def test_a_declared_perturbation_is_never_confounding(analyse):
    told = teller(
        nudged=lambda t, x: Told(noisy(x, 1e-4, t.block), audits=clean_audits(), hashes={"perturbation_hash": "p"})
    )
    found = by_label(analyse(grid(ARMS), told))["nudged - plain"]
    assert found.streams.mismatches == ()


def test_levels_of_a_factor_may_change_the_data_and_a_note_says_so(analyse):
    def tell(trial):
        scale = 2.0 if trial.factors["clip"] == "moving" else 1.0
        hashes = {"data_hash": trial.factors["clip"]}
        return Told(block_losses(trial.block) * scale, audits=clean_audits(), hashes=hashes)

    spec = grid(
        {"plain": arm(), "plain-again": arm(2, "plain")},
        contrasts=(Contrast(factor="clip", levels=("still", "moving")),),
        factors={"clip": ("still", "moving")},
    )
    report = analyse(spec, tell)
    found = by_label(report)["clip: moving - still"]
    assert found.verdict.cause == "UNKNOWN"
    assert found.effect.relative == pytest.approx(1.0)
    assert "clip: moving - still: the factor itself changes data set; the gap is its whole effect." in report.notes


def test_failed_diverged_and_missing_trials_are_named(analyse):
    def changed(trial, base):
        if trial.block == 0:
            return Told(base[:5], status="failed", error="trial x\nValueError: broken")
        if trial.block == 1:
            return Told(np.r_[base[:7], math.nan], status="diverged", audits=clean_audits()[:1])
        return Told(base * 1.1, status=None if trial.block == 2 else "done", audits=clean_audits())

    report = analyse(grid(ARMS), teller(changed=changed))
    found = by_label(report)["changed - plain"]
    assert found.effect.n == 3
    reasons = {dropped.trial: dropped.reason for dropped in report.dropped}
    assert reasons == {
        "arm changed, block 0": "failed (code: ValueError: broken)",
        "arm changed, block 1": "diverged: the loss of batch 7 is not finite",
        "arm changed, block 2": "not run",
        **{f"arm plain, block {b}": f"its partner, arm changed, block {b}, has no outcome" for b in (0, 1, 2)},
    }
    assert (
        "arm changed: 1 of 6 trials diverged; arm changed: 1 of 6 trials failed; arm changed: 1 of 6 trials not run"
        in (found.verdict.sentence)
    )
    assert found.verdict.sentence.endswith("the gap is between those that survived.")


def test_an_arm_that_diverges_in_every_block(analyse):
    told = teller(changed=lambda t, x: Told(np.r_[x[:7], math.inf], status="diverged", audits=clean_audits()[:1]))
    report = analyse(grid(ARMS), told)
    found = by_label(report)["changed - plain"]
    assert (found.effect.n, found.effect.gap, found.effect.test.p, found.adjusted_p) == (0, None, None, None)
    assert found.verdict.sentence.startswith("INCONCLUSIVE: no block has an outcome on both sides")
    assert "arm changed: 6 of 6 trials diverged. That is a difference in itself" in found.verdict.sentence
    assert (found.divergence.earliest, found.divergence.bitwise_equal) == (7, False)


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_few_blocks_and_equal_differences(analyse, blocks, shift):
    arms = {"plain": arm(blocks), "changed": arm(blocks, way=2)}
    told = teller(plain=lambda t, x: np.ones(60), changed=lambda t, x: np.r_[2.0, np.ones(59) + shift])
    report = analyse(grid(arms, margin=Margin(value=0.5)), told)
    found = by_label(report)["changed - plain"]
    assert (found.effect.n, found.effect.gap) == (blocks, shift)
    assert found.verdict.cause == "UNKNOWN"
    assert any("DIFFERENT is out of reach" in note for note in report.notes)
    expected = "UNDECIDED" if blocks == 1 else "EQUIVALENT"
    assert found.verdict.size == expected
    assert (found.effect.gap_interval.low is None) == (blocks < 3)


def test_a_run_without_any_trial_yet(analyse):
    report = analyse(grid(ARMS), lambda trial: Told(np.empty(0), status=None))
    assert {contrast.effect.n for contrast in report.contrasts} == {0}
    assert len(report.dropped) == 20
    assert {summary.mean for summary in report.arms} == {None}


def test_a_long_list_of_lost_trials_is_cut_in_print_and_whole_in_json(analyse):
    report = analyse(grid(ARMS), lambda trial: Told(np.empty(0), status=None))
    assert "- and 8 more trials: --json lists them all" in printed(report)
    assert len(report.to_json()["dropped"]) == 20


def test_a_grid_with_nothing_to_compare(analyse):
    report = analyse(grid({"plain": arm()}), teller())
    assert report.headline == "NOTHING TO COMPARE: the grid has one arm and no contrast."


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Outcome(metric="last_frame", last=20), "the outcome is 'metric.last_frame', which no trial recorded"),
        (Outcome(evaluate="accuracy"), "the outcome is 'evaluate.accuracy', which no trial recorded"),
    ],
)
def test_an_outcome_that_was_not_recorded_is_bad_input(tmp_path, outcome, message):
    def tell(trial):
        return Told(block_losses(trial.block), metrics={"lost_frame": np.ones(60)}, evaluate={"accurate": 1.0})

    run = write_run(tmp_path / "run", grid(ARMS, outcome=outcome), tell)
    with pytest.raises(BadInput) as raised:
        gap(run)
    assert message in str(raised.value)
    assert f"did you mean '{'lost_frame' if outcome.evaluate is None else 'accurate'}'?" in str(raised.value)


def test_a_metric_can_be_the_outcome(analyse):
    report = analyse(
        grid(ARMS, outcome=Outcome(metric="last_frame", last=20)),
        lambda trial: Told(block_losses(trial.block), audits=clean_audits(), metrics={"last_frame": np.arange(60.0)}),
    )
    assert report.arms[0].mean == 49.5


def test_holm_covers_the_study_and_not_its_controls(analyse):
    arms = {"plain": arm(), "b": arm(way=2), "c": arm(way=3), **{n: ARMS[n] for n in ("plain-again", "nudged")}}
    told = teller(b=lambda t, x: x * (1.3 + 0.01 * t.block), c=lambda t, x: noisy(x, 0.01, "c", t.block))
    found = by_label(analyse(grid(arms), told))
    assert found["b - plain"].adjusted_p == 2 * found["b - plain"].effect.test.p
    assert found["nudged - plain"].adjusted_p == found["nudged - plain"].effect.test.p


def test_undeclared_draws_and_an_idle_guard_are_noted(analyse):
    drawn = {"batch_index": 0, "check": "undeclared_draws", "verdict": "drawn", "count": 1, "near": "drop (Dropout)"}
    told = teller(changed=lambda t, x: Told(x * 1.1, audits=[*clean_audits(), drawn]), plain=lambda t, x: Told(x))
    notes = analyse(grid(ARMS), told).notes
    assert any("arm changed drew random numbers outside ctx.draw (drop (Dropout))" in note for note in notes)
    assert "arm plain: no batch was watched by the saved-tensor guard." in notes


def test_an_arm_that_does_not_repeat_itself_is_noted(analyse):
    told = teller(**{"plain-again": lambda t, x: noisy(x, 1e-6, "again", t.block)})
    report = analyse(grid(ARMS), told)
    assert any("This arm does not repeat itself" in note for note in report.notes)
    assert (
        "does not repeat: its losses differ from batch 3 on" in by_label(report)["plain-again - plain"].verdict.sentence
    )


def test_same_seed_same_bytes_other_seed_other_bytes_global_state_untouched(tmp_path):
    told = teller(changed=lambda t, x: noisy(x, 0.05, "seed", t.block))
    run = write_run(tmp_path / "run", grid(ARMS), told)
    before = np.random.get_state()[1].tobytes(), random.getstate()
    first, again, other = (json.dumps(gap(run, seed=seed).to_json()) for seed in (1, 1, 2))
    assert (np.random.get_state()[1].tobytes(), random.getstate()) == before
    assert first == again
    assert first != other


def test_analysis_loads_neither_torch_nor_ray():
    code = (
        "import sys, analysis.gap, analysis.gap_table;"
        "found = {'torch', 'ray', 'trainables', 'ablate.trial', 'ablate.launch'} & set(sys.modules);"
        "sys.exit(', '.join(sorted(found)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_shipped_arm_or_study_is_named_in_the_code():
    root = Path(analysis.__file__).parent
    configs = [*root.parent.glob("configs/*.yaml")]
    names = {path.stem for path in configs} | {"reused-buffer", "copied-again", "retracted_gap", "prednet"}
    for path in root.rglob("*.py"):
        constants = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not names & constants, path
