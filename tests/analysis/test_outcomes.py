import math

import numpy as np
import pytest
from synthetic import generator

from analysis.outcomes import Outcome, evaluated_outcomes, window_outcomes
from analysis.trials import Trial


def outcome(losses, last=4, **trial):
    made = Trial("t1", "a", 0, **trial)
    return window_outcomes([made], {"t1": list(losses)}, "loss", last)["t1"]


def test_mean_of_the_window():
    assert outcome([1.0, 2.0, 3.0, 6.0]) == Outcome(3.0)


def test_equal_losses_give_equal_bits_in_any_order():
    losses = list(generator("order").lognormal(0.0, 3.0, 50))
    values = {outcome(list(generator(seed).permutation(losses)), last=50).value for seed in range(20)}
    assert values == {math.fsum(losses) / 50}
    assert len({float(np.mean(generator(seed).permutation(losses))) for seed in range(20)}) > 1  # why fsum


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([1.0, 2.0, 3.0], "3 of the outcome's 4 batches have a loss"),
        ([], "0 of the outcome's 4 batches have a loss"),
        ([1.0, None, 2.0, 3.0], "3 of the outcome's 4 batches have a loss"),
        ([1.0, math.nan, 2.0, 3.0], "loss is not finite in the outcome's batches"),
        ([1.0, math.inf, -math.inf, 3.0], "loss is not finite in the outcome's batches"),
        ([1e200] * 4, "loss is 1e+200, too large to compare"),
        ([1.7e308] * 4, "loss is not finite in the outcome's batches"),
    ],
)
def test_no_outcome_has_a_reason(losses, reason):
    assert outcome(losses) == Outcome(None, reason)


def test_a_trial_that_did_not_run_to_its_end_says_how_it_ended():
    whole = [1.0] * 4
    diverged = outcome(whole, status="diverged", batches=31)
    assert diverged.reason == "diverged: the loss of batch 30 is not finite"
    assert outcome(whole, status="failed", failure="code: ValueError: no").reason == "failed (code: ValueError: no)"
    assert outcome(whole, status="failed").reason == "failed"
    assert outcome(whole, status="missing").reason == "not run"


def test_held_out_outcomes():
    trials = [Trial("t1", "a", 0), Trial("t2", "a", 1), Trial("t3", "a", 2), Trial("t4", "a", 3, status="missing")]
    found = evaluated_outcomes(trials, {"t1": 0.5, "t2": math.nan, "t4": 1.0}, "evaluate.accuracy")
    assert found["t1"] == Outcome(0.5)
    assert found["t2"].reason == "evaluate.accuracy is not finite in the outcome's batches"
    assert found["t3"].reason == "evaluate.accuracy was not recorded"
    assert found["t4"].reason == "not run"
