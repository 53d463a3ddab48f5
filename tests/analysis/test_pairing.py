import pytest
from synthetic import arm, grid

from ablate.design.cross import trials as planned
from ablate.design.spec import Contrast
from analysis.outcomes import Outcome
from analysis.pairing import Sides, pair
from analysis.trials import Trial


def study(**changes):
    return grid(
        {"a": arm(2), "b": arm(2, x=1), "a-again": arm(1, "a")},
        factors={"clip": ("still", "moving"), "rate": (1, 2)},
        **changes,
    )


def paired(spec, contrast, value, lost=()):
    trials = [Trial(t.trial_id, t.arm, t.block, tuple(t.factors.items())) for t in planned(spec)]
    outcomes = {t.trial_id: Outcome(float(value(t))) for t in trials}
    by_key = {key(t): t for t in trials}
    for name in lost:
        outcomes[by_key[name].trial_id] = Outcome(None, "failed")
    return pair(trials, outcomes, Sides.of(contrast, spec))


def key(trial):
    return (trial.arm, trial.block, *dict(trial.factors).values())


def by_hand(trial):
    factors = dict(trial.factors)
    return (
        {"a": 0, "b": 100, "a-again": 1e6}[trial.arm]
        + 10 * trial.block
        + (factors["clip"] == "moving")
        + factors["rate"]
    )


def test_arms_average_matched_cells_within_a_block():
    found = paired(study(), Contrast(arms=("a", "b")), by_hand)
    # block 0 of a: (0 + 1, 0 + 2, 1 + 1, 1 + 2) / 4 = 2
    assert [(p.block, p.reference, p.other, p.cells) for p in found.pairs] == [(0, 2.0, 102.0, 4), (1, 12.0, 112.0, 4)]
    assert list(found.gap) == [100.0, 100.0]
    assert found.dropped == ()


def test_levels_match_within_arms_and_leave_controls_out():
    found = paired(study(), Contrast(factor="rate", levels=(1, 2)), by_hand)
    assert [(p.reference, p.other, p.cells) for p in found.pairs] == [(51.5, 52.5, 4), (61.5, 62.5, 4)]
    assert {m.reference.arm for m in found.matches} == {"a", "b"}


def test_where_restricts_both_sides():
    found = paired(study(), Contrast(arms=("a", "b"), where={"clip": "moving", "rate": 2}), by_hand)
    assert [(p.reference, p.other, p.cells) for p in found.pairs] == [(3.0, 103.0, 1), (13.0, 113.0, 1)]


def test_a_lost_trial_takes_its_partner_along_and_both_are_named():
    found = paired(study(), Contrast(arms=("a", "b")), by_hand, lost=[("a", 0, "moving", 2)])
    # without moving/2: a has (1 + 2 + 2) / 3, b exactly 100 more
    assert found.pairs[0].cells == 3
    assert found.pairs[0].other - found.pairs[0].reference == pytest.approx(100.0)
    assert [(d.trial.arm, d.reason) for d in found.dropped] == [
        ("a", "failed"),
        ("b", "its partner, arm a, clip moving, rate 2, block 0, has no outcome"),
    ]


def test_a_block_lost_as_a_whole_is_no_pair():
    lost = [("b", 1, clip, rate) for clip in ("still", "moving") for rate in (1, 2)]
    found = paired(study(), Contrast(arms=("a", "b")), by_hand, lost=lost)
    assert [p.block for p in found.pairs] == [0]
    assert len(found.dropped) == 8


def test_a_control_on_fewer_blocks_leaves_trials_without_partner():
    found = paired(study(), Contrast(arms=("a", "a-again")), by_hand)
    assert [p.block for p in found.pairs] == [0]
    assert {d.reason for d in found.dropped} == {"no partner: arm a-again is not planned for this block and cell"}


def test_nothing_matches_gives_empty_arrays():
    found = paired(study(), Contrast(arms=("a", "b"), where={"rate": 3}), by_hand)
    assert (found.pairs, found.matches, found.gap.shape) == ((), (), (0,))
