"""The whole of ``ablate gap`` on synthetic runs: planted effects must be found, and named as what they are."""

import ast
import dataclasses
import io
import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from synthetic import Told, arm, block_losses, clean, generator, grid, overwritten, write_run

import analysis
from ablate.design.spec import Arm, Contrast, Margin, Outcome
from ablate.errors import BadInput
from analysis.digits import interval_words, p_value, percent
from analysis.evidence_lines import evidence_lines
from analysis.gap import gap
from analysis.gap_rows import arm_rows
from analysis.gap_table import print_gap
from analysis.legend import legend
from analysis.outcome_points import machine_words

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
        assert all(line == line.rstrip() for line in printed(report).splitlines())
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
    found = by_label(report)["changed against plain"]
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
    twin = by_label(report)["plain-again against plain"]
    assert (twin.control, twin.verdict.headline, twin.effect.gap, twin.effect.n) == ("A/A", "BITWISE EQUAL", 0.0, 2)
    assert twin.verdict.sentence == (
        "A/A control: bitwise equal, as the same arm run twice should be (120 batches in 2 pairs of trials)."
    )
    nudged = by_label(report)["nudged against plain"]
    assert (nudged.control, nudged.divergence.earliest, nudged.verdict.cause) == ("one-ulp", 3, "UNKNOWN")


def test_an_overwritten_tensor_without_a_gap_is_still_a_bug(analyse):
    report = analyse(
        grid(ARMS), teller(changed=lambda t, x: Told(noisy(x, 1e-4, "still", t.block), audits=faulty_audits()))
    )
    found = by_label(report)["changed against plain"]
    assert (found.verdict.headline, found.verdict.size) == ("BUG", "UNDECIDED")
    assert ": no difference is shown (Holm p = " in found.verdict.sentence
    assert found.verdict.sentence.endswith("The fault is there all the same.")


def test_a_bug_on_both_sides_is_said_to_be(analyse):
    told = teller(
        plain=lambda t, x: Told(x, audits=faulty_audits()), changed=lambda t, x: Told(x, audits=faulty_audits())
    )
    found = by_label(analyse(grid(ARMS), told))["changed against plain"]
    assert (
        "it happens on both sides. The outcomes are equal, the fault is there all the same." in found.verdict.sentence
    )


def test_equal_bits_need_no_test(analyse):
    report = analyse(grid(ARMS), teller())
    found = by_label(report)["changed against plain"]
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
    found = by_label(report)["changed against plain"]
    assert (found.verdict.cause, found.verdict.size, found.divergence.bitwise_equal) == ("UNKNOWN", "DIFFERENT", True)
    assert found.effect.gap == pytest.approx(0.1)
    assert report.outcome == "accuracy on held-out data, after batch 59"


def test_a_planted_gap_beyond_one_ulp_is_systematic(analyse):
    report = analyse(grid(ARMS), teller(changed=lambda t, x: noisy(x, 0.01, "sys", t.block) * 1.3))
    found = by_label(report)["changed against plain"]
    assert (found.verdict.headline, found.verdict.cause) == ("SYSTEMATIC", "UNKNOWN")
    assert found.beyond_one_ulp.control == "nudged against plain"
    assert found.beyond_one_ulp.shown
    assert found.beyond_one_ulp.test.p == 2 / 2**6
    larger = "is larger than what one rounding step in the initial weights causes: difference +"
    assert f"The gap {larger}" in found.verdict.sentence
    assert found.verdict.sentence.endswith(", p = 0.031.")
    assert "float64" not in found.verdict.sentence
    assert found.verdict.summary.startswith("gap +")
    assert found.verdict.summary.endswith("(Holm p = 0.031)")
    lines = dict(evidence_lines(found))
    assert lines["one ulp"].startswith(f"the gap {larger}")
    assert lines["why they differ"] == "not determined: neither side was held against a float64 reference"


def test_a_gap_no_larger_than_one_ulp_makes_is_not_systematic(analyse):
    arms = {name: one for name, one in ARMS.items() if name != "plain-again"}
    bias = lambda t, x: x * (1.05 + 0.001 * t.block)  # noqa: E731
    report = analyse(grid(arms), teller(changed=bias, nudged=lambda t, x: x * (1.0515 + 0.0005 * (t.block % 2))))
    found = by_label(report)["changed against plain"]
    assert (found.verdict.size, found.verdict.headline) == ("DIFFERENT", "INCONCLUSIVE")
    assert "The gap is not shown to be larger than what one rounding step" in found.verdict.sentence
    assert found.verdict.summary.endswith(", not shown to be more than one ulp causes")


def test_a_difference_without_a_one_ulp_control_says_what_is_missing(analyse):
    report = analyse(
        grid({"plain": arm(), "changed": arm(way=2)}), teller(changed=lambda t, x: x * (1.3 + 0.01 * t.block))
    )
    found = by_label(report)["changed against plain"]
    assert (found.verdict.size, found.verdict.headline) == ("DIFFERENT", "INCONCLUSIVE")
    assert "add a control arm with `repeat` and `perturb: one-ulp`" in found.verdict.sentence
    assert any("so no gap is called SYSTEMATIC" in note for note in report.notes)


def test_a_one_ulp_control_on_too_few_blocks_is_not_enough(analyse):
    arms = {"plain": arm(), "changed": arm(way=2), "nudged": arm(2, "plain", "one-ulp")}
    found = by_label(analyse(grid(arms), teller(changed=lambda t, x: x * (1.3 + 0.01 * t.block))))[
        "changed against plain"
    ]
    assert found.verdict.headline == "INCONCLUSIVE"
    assert "Not compared with the one-ulp control: 2 blocks in common, at least 6 are needed" in found.verdict.sentence


def test_within_the_margin_is_equivalent(analyse):
    spec = grid(ARMS, margin=Margin(value=2.0, unit="percent"))
    report = analyse(spec, teller(changed=lambda t, x: noisy(x, 1e-3, "eq", t.block)))
    found = by_label(report)["changed against plain"]
    assert (found.verdict.headline, found.effect.equivalence.equivalent) == ("EQUIVALENT", True)
    assert report.margin == "2%"
    assert "agree within 2% (TOST p < 0.0001): the gap is " in found.verdict.sentence


def test_different_but_negligible(analyse):
    spec = grid(ARMS, margin=Margin(value=2.0, unit="percent"))
    found = by_label(analyse(spec, teller(changed=lambda t, x: x * (1.001 + 1e-5 * t.block))))["changed against plain"]
    assert (found.verdict.size, found.verdict.headline) == ("DIFFERENT BUT NEGLIGIBLE", "EQUIVALENT")


def test_undecided_says_how_many_blocks_would_decide(analyse):
    spec = grid(ARMS, margin=Margin(value=2.0, unit="percent"))
    found = by_label(analyse(spec, teller(changed=lambda t, x: noisy(x, 0.05, "un", t.block))))["changed against plain"]
    assert (found.verdict.size, found.verdict.headline) == ("UNDECIDED", "INCONCLUSIVE")
    assert found.effect.blocks_for_equivalence > 6
    assert (
        f"No difference is shown (Holm p = {p_value(found.adjusted_p)}). Equivalence within 2% is not shown (TOST p = "
        in found.verdict.sentence
    )
    assert found.verdict.sentence.endswith(
        f"about {found.effect.blocks_for_equivalence} to show equivalence if the true gap is 0."
    ) or found.verdict.sentence.endswith(
        f"About {found.effect.blocks_for_equivalence} blocks would be enough to show equivalence if the true gap is 0."
    )


FACTOR = {"float32": arm(), "bfloat16": arm(way=2)}


def test_too_few_blocks_for_the_family_are_said_to_be_the_reason(analyse):
    def tell(trial):
        falls = 0.1 * (trial.factors["hidden"] == 32) * (1 + generator(trial.block).random())
        size = 0.05 * (trial.arm == "bfloat16")
        return Told(noisy(block_losses(trial.block) * (1 - falls), size, *trial.factors.items(), trial.block))

    contrasts = (Contrast(arms=("float32", "bfloat16")), Contrast(factor="hidden", levels=(16, 32)))
    spec = grid(FACTOR, contrasts, {"hidden": (16, 32)}, Margin(value=5.0, unit="percent"))
    report = analyse(spec, tell)
    found = by_label(report)["hidden: 32 against 16"]
    assert (found.effect.test.p, found.adjusted_p, found.attainable_p) == (0.03125, 0.0625, 0.0625)
    effect = found.effect
    gap_words = f"{percent(effect.relative)} {interval_words(*bounds(effect.relative_interval), as_percent=True)}"
    assert found.verdict.sentence == (
        f"INCONCLUSIVE: the gap of hidden = 32 against hidden = 16 is {gap_words} over 6 blocks. "
        "6 blocks cannot show a difference, however large: the smallest p after Holm's adjustment for 2 contrasts is "
        f"0.062. Equivalence within 5% is not shown (TOST p = {p_value(effect.equivalence.p)}). "
        f"About {effect.blocks_for_difference} blocks would be enough to show a difference of this size; "
        f"about {max(effect.blocks_for_equivalence, 7)} to show equivalence if the true gap is 0."
    )
    assert found.verdict.summary == f"gap {gap_words} over 6 blocks, no difference shown and no equivalence"


def bounds(interval):
    return interval.low, interval.high


def test_inside_the_margin_no_difference_is_planned_for(analyse):
    spec = grid({"plain": arm(3), "changed": arm(3, way=2)}, margin=Margin(value=50.0, unit="percent"))
    told = teller(changed=lambda t, x: x * (0.8, 1.7, 1.2)[t.block])
    found = by_label(analyse(spec, told))["changed against plain"]
    assert found.verdict.size == "UNDECIDED"
    assert found.verdict.sentence.endswith(
        f" About {found.effect.blocks_for_equivalence} blocks would be enough to show equivalence if the true gap is 0."
    )


def test_every_contrast_is_answered_first_the_worst_first(analyse):
    arms = {"plain": arm(), "b": arm(way=2), "c": arm(way=3), "d": arm(way=4), "again": arm(2, "plain")}
    told = teller(
        b=lambda t, x: x,
        c=lambda t, x: Told(x * (1.8 + 0.1 * generator(t.block).random()), audits=faulty_audits()),
        d=lambda t, x: Told(x, hashes={"initial_hash": "other"}),
    )
    report = analyse(grid(arms), told)
    start = words(printed(report).partition("\n  study ")[0])
    assert start == words(
        f"{report.headline} "
        "CONFOUNDED: d against plain: the sides do not start equal (initial weights) "
        "BITWISE EQUAL: b against plain: every loss is equal, bit by bit"
    )


def test_the_first_screen_holds_verdicts_and_evidence(analyse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the store's path is shown from here, and so is as long in every test run
    monkeypatch.setenv("COLUMNS", "100")  # the width it is meant for; pytest-xdist sets 80
    told = teller(changed=lambda t, x: Told(x * (1.8 + 0.1 * generator(t.block).random()), audits=faulty_audits()))
    text = printed(analyse(grid({**ARMS, "third": arm(way=3)}), told)).splitlines()[:25]
    assert any(line.startswith("  one ulp ") for line in text)


@pytest.mark.parametrize("columns", [50, 60, 80, 200])
def test_a_pipe_is_as_wide_as_columns_says_and_names_stay_whole(tmp_path, monkeypatch, columns):
    arms = {
        "near-static-copied-buffer": arm(),
        "near-static-reused-buffer": arm(way=2),
        "near-static-copied-again": arm(2, "near-static-copied-buffer"),
    }
    report = gap(write_run(tmp_path / "run", grid(arms, margin=Margin(value=2.0, unit="percent")), teller()))
    monkeypatch.setenv("COLUMNS", str(columns))
    text = printed(report)
    assert max(map(len, text.splitlines())) <= min(columns, 100)
    for name in arms:
        assert text.count(name) >= 3


def test_the_run_is_described_in_a_line(analyse):
    def changed(trial, base):
        if trial.block < 2:
            return Told(base[:5], status=("failed", "interrupted")[trial.block], error="ValueError: broken")
        return Told(base * 1.1, hashes={"wall_s": 90.0, "torch": "2.13.0", "cpu_model": "i5"})

    report = analyse(grid(ARMS), teller(changed=changed))
    assert re.fullmatch(
        r"20 trials over 6 blocks \(seeds\): 18 done, 1 failed, 1 interrupted; 6 min of trials' time; "
        r"here \(i5\) and here, torch 2\.13\.0; store /\S+/run",
        report.run,
    )
    assert {one.reason for one in report.dropped if one.trial == "arm changed, block 1"} == {"interrupted"}
    assert "arm changed: 1 failed, 1 interrupted, of 6 trials" in report.headline


def test_what_saved_no_tensor_was_not_checked(analyse):
    told = teller(
        plain=lambda t, x: Told(x, audits=[clean(0, 0)]), changed=lambda t, x: Told(x, audits=faulty_audits())
    )
    found = by_label(analyse(grid(ARMS), told))["changed against plain"]
    assert "; arm plain: nothing could be checked." in found.verdict.sentence
    lines = [words for kind, words in evidence_lines(found) if kind == "saved tensors"]
    assert lines[0] == "arm plain: nothing could be checked, no tensor was saved in 6 watched batches"


def test_an_arm_on_fewer_blocks_says_so(analyse):
    arms = {**ARMS, "last": Arm(**{**arm(1, "plain").model_dump(), "blocks": (5,)})}
    rows = {row[0]: row[1] for row in arm_rows(analyse(grid(arms), teller()).arms).rows}
    assert rows["plain-again"] == "A/A\nfirst 2 blocks"
    assert rows["last"] == "A/A\nblock 5"
    assert rows["plain"] == ""


def test_tiny_figures_are_not_spelled_out():
    assert (percent(3e-9), percent(-9.9e-6), percent(1e-5), percent(0.0)) == ("<0.001%", "<0.001%", "+0.001%", "0%")
    assert interval_words(-8e-8, 9e-8, as_percent=True) == "[>-0.001, <+0.001]%"
    assert interval_words(2e-8, 0.5, as_percent=True) == "[<+0.001, +50]%"


def test_words_are_explained_if_they_occur(analyse):
    report = analyse(grid(ARMS), teller(changed=lambda t, x: noisy(x, 0.01, "w", t.block)))
    explained = dict(legend(report))
    assert {"block", "gap", "p", "A/A", "one ulp", "watched", "size", "cause", "-"} == set(explained)
    assert explained["cause"] == (
        "UNKNOWN: not determined; declared: what the grid itself changes: a perturbation, noise, a factor's level"
    )
    assert legend(analyse_nothing(report)) == []


def analyse_nothing(report):
    return dataclasses.replace(report, contrasts=())


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
    found = by_label(analyse(grid(ARMS), told))["changed against plain"]
    assert found.verdict.headline == found.verdict.cause == "CONFOUNDED"
    assert stream in found.verdict.sentence
    assert "Besides, this tensor was overwritten" in found.verdict.sentence


def test_a_declared_perturbation_is_never_confounding(analyse):
    told = teller(
        nudged=lambda t, x: Told(noisy(x, 1e-4, t.block), audits=clean_audits(), hashes={"perturbation_hash": "p"})
    )
    found = by_label(analyse(grid(ARMS), told))["nudged against plain"]
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
    found = by_label(report)["clip: moving against still"]
    assert found.verdict.cause == "UNKNOWN"
    assert found.effect.relative == pytest.approx(1.0)
    assert (
        "clip: moving against still: the factor itself changes data set; the gap is its whole effect." in report.notes
    )


def test_failed_diverged_and_missing_trials_are_named(analyse):
    def changed(trial, base):
        if trial.block == 0:
            return Told(base[:5], status="failed", error="trial x\nValueError: broken")
        if trial.block == 1:
            return Told(np.r_[base[:7], math.nan], status="diverged", audits=clean_audits()[:1])
        return Told(base * 1.1, status=None if trial.block == 2 else "done", audits=clean_audits())

    report = analyse(grid(ARMS), teller(changed=changed))
    found = by_label(report)["changed against plain"]
    assert found.effect.n == 3
    reasons = {dropped.trial: dropped.reason for dropped in report.dropped}
    assert reasons == {
        "arm changed, block 0": "failed (code: ValueError: broken)",
        "arm changed, block 1": "diverged: the loss of batch 7 is not finite",
        "arm changed, block 2": "not run",
        **{f"arm plain, block {b}": f"its partner, arm changed, block {b}, has no outcome" for b in (0, 1, 2)},
    }
    assert (
        "Without outcome: arm changed: 1 diverged, 1 failed, 1 not run, of 6 trials. Diverging more often is a "
        in found.verdict.sentence
    )
    assert found.verdict.sentence.endswith("the gap is between those that survived.")


def test_an_arm_that_diverges_in_every_block(analyse):
    told = teller(changed=lambda t, x: Told(np.r_[x[:7], math.inf], status="diverged", audits=clean_audits()[:1]))
    report = analyse(grid(ARMS), told)
    found = by_label(report)["changed against plain"]
    assert (found.effect.n, found.effect.gap, found.effect.test.p, found.adjusted_p) == (0, None, None, None)
    assert found.verdict.sentence.startswith("INCONCLUSIVE: no block has an outcome on both sides")
    assert (
        "arm changed: 6 diverged, of 6 trials. Diverging more often is a difference in itself" in found.verdict.sentence
    )
    assert (found.divergence.earliest, found.divergence.bitwise_equal) == (7, False)


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_few_blocks_and_equal_differences(analyse, blocks, shift):
    arms = {"plain": arm(blocks), "changed": arm(blocks, way=2)}
    told = teller(plain=lambda t, x: np.ones(60), changed=lambda t, x: np.r_[2.0, np.ones(59) + shift])
    report = analyse(grid(arms, margin=Margin(value=0.5)), told)
    found = by_label(report)["changed against plain"]
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
    assert found["b against plain"].adjusted_p == 2 * found["b against plain"].effect.test.p
    assert found["nudged against plain"].adjusted_p == found["nudged against plain"].effect.test.p


def test_undeclared_draws_and_an_idle_guard_are_noted(analyse):
    drawn = {"batch_index": 0, "check": "undeclared_draws", "verdict": "drawn", "count": 1, "near": "drop (Dropout)"}
    told = teller(changed=lambda t, x: Told(x * 1.1, audits=[*clean_audits(), drawn]), plain=lambda t, x: Told(x))
    notes = analyse(grid(ARMS), told).notes
    assert (
        "Random numbers were drawn outside the study's streams in arm changed (drop (Dropout)): arms may have drawn "
        "different ones. Use `draw`, which a class gets in `batches(draw)`, or `ctx.draw` in a function." in notes
    )
    assert "arm plain: no batch was watched by the saved-tensor guard." in notes


def test_an_arm_that_does_not_repeat_itself_is_noted(analyse):
    told = teller(**{"plain-again": lambda t, x: noisy(x, 1e-6, "again", t.block)})
    report = analyse(grid(ARMS), told)
    assert any("This arm does not repeat itself" in note for note in report.notes)
    assert (
        "does not repeat: its losses differ from batch 3 on"
        in by_label(report)["plain-again against plain"].verdict.sentence
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


def test_permuted_rows_are_a_control_of_their_own_and_declared(analyse):
    """No one-ulp control, so no gap is held against it; with nothing in common they are bitwise equal."""
    arms = {"plain": arm(), "changed": arm(way=2), "shuffled": arm(6, "plain", "permute-rows")}
    found = analyse(grid(arms), teller(changed=lambda t, x: noisy(x, 1e-3, t.block)))
    shuffled = by_label(found)["shuffled against plain"]
    assert (shuffled.control, shuffled.verdict.cause) == ("permute-rows", "UNKNOWN")
    assert "permute-rows control: another order of the rows of every batch moves the outcome by" in words(
        shuffled.verdict.sentence
    )
    assert "(permute-rows control)" in printed(found)
    assert "declared" in printed(found)
    assert ("permute-rows", "the same samples of every batch in another order, so sums round differently") in legend(
        found
    )
    assert any(note.startswith("No one-ulp control") for note in found.notes)


def test_permuted_rows_that_change_nothing(analyse):
    arms = {"plain": arm(), "changed": arm(way=2), "shuffled": arm(6, "plain", "permute-rows")}
    found = analyse(grid(arms), teller(shuffled=lambda t, x: x))
    sentence = by_label(found)["shuffled against plain"].verdict.sentence
    assert "bitwise equal, so the order of a batch's rows made no difference" in sentence


def test_a_trial_that_moved_to_another_machine_is_named(analyse):
    moved = {"host": "west", "resumed_at": 40, "moved_from": "east (Xeon) to batch 39"}

    def tell(trial):
        hashes = moved if (trial.arm, trial.block) == ("changed", 1) else {}
        return Told(block_losses(trial.block), audits=clean_audits(), hashes=hashes)

    spec = grid(ARMS)
    report = analyse(spec, tell)
    assert "; 1 trial continued on another machine; store " in report.run
    note = next(note for note in report.notes if "another machine" in note)
    trials_of_arm = len(spec.arms["changed"].blocks)
    assert note == (
        f"1 of arm changed's {trials_of_arm} trials was continued on another machine (block 1: east (Xeon) to batch "
        "39, from batch 40 west): their arithmetic is of several machines, and so may a gap be."
    )
    assert machine_words({"host": "west", "cpu_model": "Epyc", **moved}) == "east (Xeon) to batch 39; then west, Epyc"


def test_nothing_is_said_of_trials_that_stayed(analyse):
    tell = teller()
    report = analyse(grid(ARMS), tell)
    assert not any("another machine" in words for words in (report.run, *report.notes))
