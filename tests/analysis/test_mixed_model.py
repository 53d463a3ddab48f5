"""The mixed model against its closed form, which balanced data have (analysis of variance), and at its edges."""

import math

import numpy as np
import pytest
from scipy import stats
from synthetic import generator
from tolerances import numerical

from analysis.mixed_model import kind_effect


def outcomes(cpus, gpus, blocks, machine_sd=(1.0, 1.0), seed_sd=0.0, trial_sd=1.0, name="mixed"):
    """Return outcomes of machines of two kinds, shapes (cpus, blocks) and (gpus, blocks)."""
    draws, made = generator(name, cpus, gpus, blocks), []
    for count, sd in zip((cpus, gpus), machine_sd, strict=True):
        own, trial = sd * draws.normal(size=(count, 1)), trial_sd * draws.normal(size=(count, blocks))
        made.append(own + trial + seed_sd * draws.normal(size=blocks))
    return made


def fit(first, second, keep=None, scale=1.0, shift=0.0):
    values = scale * np.vstack([first, second]) + shift
    machine, block = np.indices(values.shape)
    kind = (machine >= len(first)).astype(int)
    chosen = np.ones(values.shape, dtype=bool) if keep is None else keep
    return kind_effect(values[chosen], kind[chosen], machine[chosen], block[chosen])


def closed_form(first, second):
    """Return difference, variances of machines, kind x block and rest, by mean squares (Searle et al. 1992, ch. 4)."""
    blocks, rest, freedom, own = first.shape[1], 0.0, 0, []
    for one in (first, second):
        means = one.mean(axis=1)
        left = one - means[:, None] - one.mean(axis=0) + one.mean()
        rest += float((left**2).sum())
        freedom += (len(one) - 1) * (blocks - 1)
        own.append(blocks * float(means.var(ddof=1)))
    rest /= freedom
    gaps = second.mean(axis=0) - first.mean(axis=0)
    both = 1 / len(first) + 1 / len(second)
    shared = (float(gaps.var(ddof=1)) - rest * both) / 2
    return second.mean() - first.mean(), [(one - rest) / blocks for one in own], shared, rest


# statistical packages stop where the likelihood changes by less than 1e-8; variances are then known to its root
CLOSE = 1e-3


@pytest.mark.parametrize(("cpus", "gpus", "blocks"), [(4, 8, 6), (4, 8, 12), (5, 4, 8)])
def test_balanced_data_give_the_mean_squares_and_satterthwaites_freedom(cpus, gpus, blocks):
    first, second = outcomes(cpus, gpus, blocks, (2.0, 3.0), 1.5)
    difference, own, shared, rest = closed_form(first, second)
    assert min(*own, shared, rest) > 0, "otherwise the answer is on the edge"
    found = fit(first, second)
    assert found.difference == pytest.approx(difference, rel=numerical(np.finfo(float).eps, first.size, 1e4))
    assert found.machine_sd == pytest.approx([math.sqrt(one) for one in own], rel=CLOSE)
    assert (found.seed_sd, found.trial_sd) == pytest.approx((math.sqrt(shared), math.sqrt(rest)), rel=CLOSE)
    parts = [own[0] / cpus + rest / blocks / cpus, own[1] / gpus + rest / blocks / gpus]
    variance = sum(parts) + 2 * shared / blocks
    parts.append(2 * shared / blocks + rest / blocks * (1 / cpus + 1 / gpus))
    assert found.standard_error == pytest.approx(math.sqrt(variance), rel=CLOSE)
    freedom = variance**2 / sum(p**2 / f for p, f in zip(parts, (cpus - 1, gpus - 1, blocks - 1), strict=True))
    assert found.freedom == pytest.approx(freedom, rel=CLOSE)
    t = difference / math.sqrt(variance)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=10 * CLOSE)
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    assert (found.low, found.high) == pytest.approx((difference - reach, difference + reach), rel=10 * CLOSE)


@pytest.mark.parametrize(("sizes", "freedom"), [((3, 8, 6), 2), ((2, 2, 6), 1), ((2, 8, 2), 1), ((8, 3, 3), 2)])
def test_few_machines_take_the_smallest_freedom(sizes, freedom):
    assert fit(*outcomes(*sizes, seed_sd=0.5)).freedom == freedom


def test_a_variance_of_zero_is_an_answer_and_not_a_failure():
    """Powell's optimiser reaches the edge where statsmodels' default stops before it, with a larger error."""
    first, second = outcomes(4, 8, 6, (0.0, 1.0), name="edge")
    difference, own, _, _ = closed_form(first, second)
    assert own[0] < 0, "below 0 the edge is the most likely"
    found = fit(first, second)
    assert found.machine_sd[0] < 1e-3 * found.trial_sd
    assert found.difference == pytest.approx(difference)


def test_machines_that_agree_bit_by_bit_leave_the_blocks():
    seeds = generator("agree").normal(size=(2, 6))
    found = fit(np.tile(seeds[0], (4, 1)), np.tile(seeds[1], (8, 1)))
    expected = stats.ttest_1samp(seeds[1] - seeds[0], 0.0)
    assert (found.p, found.freedom) == (pytest.approx(expected.pvalue), 5)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert (found.machine_sd, found.trial_sd) == ((0.0, 0.0), 0.0)
    assert found.seed_sd == pytest.approx((seeds[1] - seeds[0]).std(ddof=1) / math.sqrt(2))


def test_machines_of_one_kind_that_agree_beside_others_that_scatter():
    first, second = outcomes(4, 8, 6, (0.0, 1.0), 1.0, name="half")
    first[:] = first[0]
    found = fit(first, second)
    assert found.machine_sd[0] == pytest.approx(0.0, abs=1e-3)
    assert 0 < found.p <= 1


def test_trials_may_be_missing():
    first, second = outcomes(4, 8, 6, name="missing")
    keep = generator("keep").random((12, 6)) < 0.9
    assert not keep.all()
    found = fit(first, second, keep)
    assert found.low < found.difference < found.high
    assert found.difference == pytest.approx(fit(first, second).difference, abs=fit(first, second).standard_error)


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1.0, 100.0), (1e6, -1e6)])
def test_units_change_nothing(scale, shift):
    first, second = outcomes(4, 8, 6, name="units")
    plain, other = fit(first, second), fit(first, second, scale=scale, shift=shift)
    assert other.p == pytest.approx(plain.p, rel=CLOSE)
    assert other.difference == pytest.approx(scale * plain.difference, rel=1e-6)


def test_what_cannot_be_told_apart_has_no_answer():
    assert fit(np.ones((2, 3)), np.ones((2, 3))) is None  # nothing varies
    assert fit(np.zeros((2, 3)), np.ones((2, 3))) is None  # one gap in every block
    assert fit(*outcomes(2, 2, 1)) is None  # one block
    additive = [np.arange(count)[:, None] * 1.0 + np.arange(4.0) for count in (3, 4)]
    assert fit(*additive) is None  # nothing left between trials
