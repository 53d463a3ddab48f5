"""How parameters part, from sketches alone: against distances that were planted."""

import math

import numpy as np
import pytest
from synthetic import Told, arm, block_losses, generator, grid, write_run

from ablate.design.cross import trials
from ablate.design.spec import Contrast
from ablate.record.sketch import WIDTH
from analysis.evidence_lines import evidence_lines
from analysis.figures.parameter_growth import draw_parameter_growth
from analysis.gap import gap
from analysis.parameter_distance import compare, curve, summarise
from analysis.parameter_growth import parameter_growth
from analysis.sketches import Trail, read_sketches
from analysis.study import Study

AFTER = (-1, 9, 19, 29, 39, 49, 59)
"""Sketched batches of 60."""


def start(block):
    return generator("start", block).standard_normal(WIDTH)


def unit(*key):
    step = generator(*key).standard_normal(WIDTH)
    return step / np.linalg.norm(step)


def walked(block, batch):
    """Where the reference is: the sketch moves by 0.1 a batch, in one direction."""
    return start(block) + 0.1 * (batch + 1) * unit("walk", block)


def sketches(block, apart=lambda batch: 0.0, after=AFTER):
    return {batch: walked(block, batch) + apart(batch) * unit("off", block) for batch in after}


def growing(batch):
    """0 up to batch 9, then the planted relative distance times what the reference has moved."""
    return 0.0 if batch <= 9 else 1e-6 * 10 ** ((batch - 19) / 10) * 0.1 * (batch + 1)


def tell(apart):
    """Tell sketches by arm: ``apart`` maps an arm to its distance from the plain one after a batch."""

    def told(trial):
        return Told(block_losses(trial.block), sketches=sketches(trial.block, apart.get(trial.arm, lambda _: 0.0)))

    return told


def lines(run):
    return {c.label: dict(evidence_lines(c)).get("parameters") for c in gap(run).contrasts}


def trail(values, parameters=1000):
    return Trail(np.array(list(values)), np.stack(list(values.values())), parameters)


def test_a_planted_growth_is_found(tmp_path):
    arms = {"plain": arm(), "other": arm(way=2), "same": arm(way=3)}
    run = write_run(tmp_path / "run", grid(arms), tell({"other": growing}))
    assert lines(run) == {
        "other against plain": "apart 0.0001% of the distance trained after batch 19, 1% at the last (median of 6 "
        "pairs)",
        "same against plain": "no distance in 42 sketches of 6 pairs of trials",
    }
    found = gap(run).contrasts[0].parameters
    assert (found.first, found.last, found.differing, found.from_start) == (19, 59, 6, False)
    assert found.at_first == pytest.approx(1e-6, rel=1e-6)
    assert found.at_last == pytest.approx(1e-2, rel=1e-6)


def test_other_initial_weights_are_said(tmp_path):
    arms = {"plain": arm(), "plain-ulp": arm(3, "plain", "one-ulp")}
    run = write_run(tmp_path / "run", grid(arms), tell({"plain-ulp": lambda batch: 1e-6 if batch < 0 else 1e-4}))
    assert lines(run) == {
        "plain-ulp against plain": "apart from the initial weights on, 0.01% of the distance trained after batch 9, "
        "0.0017% at the last (median of 3 pairs)"
    }


def test_pairs_that_do_not_part_are_counted(tmp_path):
    def told(trial):
        own = growing if trial.arm == "other" and trial.block < 2 else lambda _: 0.0
        return Told(block_losses(trial.block), sketches=sketches(trial.block, own))

    run = write_run(tmp_path / "run", grid({"plain": arm(), "other": arm(way=2)}), told)
    assert lines(run)["other against plain"].endswith("1% at the last (median of the 2 of 6 pairs that part)")


def test_below_the_floor_nothing_is_claimed(tmp_path):
    run = write_run(tmp_path / "run", grid({"plain": arm(), "other": arm(way=2)}), tell({"other": lambda batch: 1e-14}))
    said = lines(run)["other against plain"]
    assert said.startswith("not apart by more than what rounding does to a sketch, ")
    assert said.endswith(" of the distance trained, in 42 sketches of 6 pairs of trials")
    assert gap(run).contrasts[0].parameters.differing == 0


def test_other_shapes_have_no_distance(tmp_path):
    def told(trial):
        return Told(block_losses(trial.block), sketches=sketches(trial.block), parameters=trial.factors["width"])

    spec = grid({"plain": arm()}, (Contrast(factor="width", levels=(8, 16)),), {"width": (8, 16)})
    run = write_run(tmp_path / "run", spec, told)
    assert lines(run) == {"width: 16 against 8": "of other shapes on the two sides, between which there is no distance"}
    (one,) = parameter_growth(run)
    assert draw_parameter_growth([one], "P.").caption == (
        "Of other shapes on the two sides, so without a distance: width: 16 against 8. P."
    )


def test_a_run_without_sketches_has_no_line_and_an_empty_figure(tmp_path):
    run = write_run(tmp_path / "run", grid({"a": arm(), "b": arm(way=2)}), lambda t: Told(block_losses(t.block)))
    assert lines(run) == {"b against a": None}
    assert parameter_growth(run) == ()
    words = "No two matched trials with sketches of their parameters have been recorded yet."
    assert Study(run.paths.root).parameter_growth().text == f"<p>{words}</p>"
    assert draw_parameter_growth((), "P.").caption == words


def test_a_reference_that_does_not_move_has_no_relative_distance(tmp_path):
    still = lambda block, off: {k: start(block) + (off if k >= 0 else 0) * unit("off", block) for k in AFTER}  # noqa: E731
    run = write_run(
        tmp_path / "run",
        grid({"plain": arm(), "other": arm(way=2)}),
        lambda t: Told(block_losses(t.block), sketches=still(t.block, 0.5 * (t.arm == "other"))),
    )
    said = lines(run)["other against plain"]
    assert said == "apart after batch 9, while the reference has not moved (median of 6 pairs)"


def test_initial_weights_alone(tmp_path):
    run = write_run(
        tmp_path / "run",
        grid({"plain": arm(), "other": arm(way=2)}),
        tell({"other": lambda batch: 1.0 if batch < 0 else 0.0}),
    )
    assert lines(run)["other against plain"] == "apart in their initial weights alone (median of 6 pairs)"


def test_only_batches_that_both_have_are_compared():
    reference = trail(sketches(0))
    other = trail(sketches(0, growing, (-1, 4, 9, 19)))
    pair = compare(reference, other)
    assert pair.batch_index.tolist() == [-1, 9, 19]
    assert pair.parted == 19
    assert pair.apart[:2].tolist() == [0.0, 0.0]
    assert math.isnan(pair.relative(pair.apart)[0])
    assert pair.moved == pytest.approx([0, 1, 2])


def test_sketches_that_are_not_finite_and_trials_without_initial_weights_are_left_out(tmp_path):
    def told(trial):
        own = sketches(trial.block)
        if trial.arm == "other":
            own = own | {49: None, 59: None}
        if trial.block == 1 and trial.arm == "plain":
            del own[-1]
        return Told(block_losses(trial.block), sketches=own)

    run = write_run(tmp_path / "run", grid({"plain": arm(2), "other": arm(2, way=2)}), told)
    blocks = [[trial.trial_id for trial in trials(run.grid) if trial.block == block] for block in (0, 1)]
    found = list(read_sketches(run, blocks))
    assert [sorted(len(one.batch_index) for one in own.values()) for own in found] == [[5, 7], [5, 6]]
    found = gap(run).contrasts[0].parameters
    assert (found.pairs, found.sketches, found.last) == (1, 5, 39)


def test_the_curve_is_median_and_range_over_pairs():
    pairs = [
        compare(trail(sketches(block)), trail(sketches(block, lambda batch, f=factor: f * growing(batch))))
        for block, factor in enumerate((1.0, 2.0, 5.0))
    ]
    found = curve(pairs)
    assert found.batches.tolist() == [10, 20, 30, 40, 50, 60]  # at the initial weights nothing has moved yet
    planted = np.array([0.0, *(1e-6 * 10.0 ** np.arange(5))])
    assert found.middle == pytest.approx(2 * planted, rel=1e-6)
    assert found.low == pytest.approx(planted, rel=1e-6)
    assert found.high == pytest.approx(5 * planted, rel=1e-6)
    assert (found.floor < 1e-11).all()
    assert summarise(pairs, 0).at_last == pytest.approx(2e-2, rel=1e-6)


def test_the_figure_says_how_to_read_it(tmp_path):
    arms = {"plain": arm(), "other": arm(way=2), "same": arm(way=3)}
    run = write_run(tmp_path / "run", grid(arms), tell({"other": growing}))
    shown = Study(run.paths.root).parameter_growth()
    assert shown.png()[:4] == b"\x89PNG"
    assert shown.caption == (
        "Line: median over pairs of trials of the Euclidean distance between all their parameters, over the distance "
        "that the reference has come from its initial weights by then. Band: smallest to largest pair. Each distance "
        "is estimated from two sketches of 256 numbers, to 4.4% (one standard deviation); below the lower dotted line "
        "it says nothing. Never apart by more than a sketch's rounding: same against plain. It speaks of new seeds on "
        "this one machine and this data, not of other machines."
    )
    (axis,) = shown.figure.axes
    assert axis.get_yscale() == "log"
    assert [text.get_text() for text in shown.figure.legends[0].texts] == ["other against plain (n = 6 pairs)"]
