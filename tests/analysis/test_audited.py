"""What audit rows amount to: coverage and faults in order; and what must not fire."""

import dataclasses
import json
import math

import pytest
from auditing import GRADIENT, rows, trial
from synthetic import FLOAT32, audit, changed, distance

from ablate.audit.distance import FACTOR
from analysis.audit_fault import first_fault
from analysis.audit_row import SIMULATIONS, AuditRow
from analysis.audit_words import audited_line, covered, fault_words, nearest_words, what_is_wrong
from analysis.audited import audited
from analysis.digits import share, times
from analysis.precision import Precision

WRONG = {"verdict": "bug", "error": 0.02, "own_error": 0.02, "own_bound": 1e-14}


def side(columns, **options):
    return audited("arm a", [trial(**options)], {"t1": rows(columns)}, ["float32"])


def test_a_clean_audit_is_counted():
    found = side(audit())
    assert found.passed
    assert (found.trials, found.audited, found.batches) == (1, 1, (0, 1, 2))
    assert (found.losses, found.gradients, found.updates, found.slopes, found.steps) == (1, 3, 3, {"t1": 3}, 1)
    assert found.precision == Precision(FLOAT32, "float32")
    assert covered(found) == "the loss, 3 gradients and 3 updates in 3 batches of 1 trial"
    assert nearest_words(found) == "at most 1% of what rounding explains (loss: 5e-08 of its norm)"
    assert audited_line(found) == (
        "arm a: the loss, 3 gradients and 3 updates in 3 batches of 1 trial are off by at most 1% of what rounding "
        "explains (loss: 5e-08 of its norm); the gradient is the slope of the loss in 3 checks; each state enters the "
        "next batch as it was left (1 check)"
    )


def test_a_row_may_stand_for_many_values():
    lean = [
        distance(0, "loss", "d", count=2),
        distance(0, "gradient", "x", count=34),
        distance(0, "update", "x", count=34),
    ]
    assert covered(side(lean)) == "2 losses, 34 gradients and 34 updates in 1 batch of 1 trial"


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ([], "arm a was not held against a float64 reference"),
        (
            [{"batch_index": 0, "check": "scope", "verdict": "unseen", "detail": "a function owns its loop"}],
            "arm a was not held against a float64 reference: a function owns its loop",
        ),
        (audit((1, 2)), "the audit of arm a does not include batch 0"),
        (
            changed(audit(), GRADIENT, verdict="unjudged"),
            "the audit of arm a could not judge the gradient of conv1.weight at batch 0",
        ),
        (
            changed(audit(), {"quantity": "loss", "batch_index": 0}, verdict="unjudged"),
            "the audit of arm a could not judge the loss at batch 0",
        ),
        ([distance(0, "loss", "m")], "1 of 1 trial of arm a was not held against float64 at batch 0"),
    ],
)
def test_an_audit_that_settles_nothing_says_why(columns, why):
    found = side(columns)
    assert (found.passed, found.why_not) == (False, why)


def test_a_trial_that_was_not_audited_counts_against_its_side():
    both = [trial(), trial("t2", block=1), trial("t3", block=2, status="failed")]
    found = audited("arm a", both, {"t1": rows(audit())})
    assert found.why_not == "1 of 2 trials of arm a was not held against float64 at batch 0"
    assert covered(found).endswith("3 batches of 1 of 2 trials")
    assert audited("arm a", [trial(status="failed")], {}).why_not == "no trial of arm a ran to its end"
    later = audited(
        "arm a", [trial()], {"t1": rows(changed(audit(), {**GRADIENT, "batch_index": 2}, verdict="unjudged"))}
    )
    assert later.passed
    assert later.unjudged == ("the gradient of conv1.weight (no reason recorded)",)


def test_what_was_not_seen_is_told_with_its_reason():
    unseen = [
        {"batch_index": 0, "check": "slope", "verdict": "kink", "name": "model"},
        {"batch_index": 0, "check": "slope", "verdict": "unjudged", "name": "model", "detail": "rounding hides it"},
        {"batch_index": 1, "check": "free", "verdict": "unjudged", "quantity": "loss", "detail": "not finite"},
        {"batch_index": 0, "check": "scope", "verdict": "unseen", "detail": "inside the compiled region"},
    ]
    found = side([*audit(), *unseen])
    assert found.passed
    assert found.unjudged == (
        "the slope of the loss (a kink along this direction)",
        "the slope of the loss (rounding hides it)",
        "the loss of batch 1 of a free run (not finite)",
    )
    assert found.unseen == ("inside the compiled region",)


def test_a_wrong_gradient_is_named_with_its_size():
    both = side(changed(audit(), GRADIENT, **WRONG)), side(audit())
    clean = dataclasses.replace(both[1], label="arm b")
    assert fault_words((clean, both[0])) == (
        "the gradient of conv1.weight is wrong: in arm a at batch 0 (block 0), 1% of its norm from float64, 2,000 "
        "times what rounding explains; arm b: the loss, 3 gradients and 3 updates in 3 batches of 1 trial "
        "within rounding."
    )
    assert audited_line(both[0]).endswith(
        "1% of its norm from float64, 2,000 times what rounding explains; the same code run in float64 is wrong too, "
        "so it is not the precision; 1 trial of 1 with a fault"
    )
    assert fault_words((both[0], both[0])).endswith("; it happens on both sides.")
    assert fault_words((both[0], dataclasses.replace(side([]), label="arm b"))).endswith("; arm b: not audited.")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"own_error": 0.0},
            "the same code run in float64 is right, so the fault is in this precision's code or settings",
        ),
        ({"error": math.nan}, "its distance from float64 is not finite"),
        ({"bound": 0.0}, "where rounding explains nothing"),
        ({"error": 1e-9, "own_error": 2e-7}, "its own code run in float64, where rounding is gone, is 1e-05% off"),
    ],
)
def test_sizes_that_need_other_words(columns, words):
    assert words in audited_line(side(changed(audit(), GRADIENT, **(WRONG | columns))))


BUG = {"verdict": "bug", "error": 1.0}
SLOPE = {"batch_index": 0, "check": "slope", "quantity": "gradient", "scale": 2.0, "bound": 1e-8, **BUG}


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ([SLOPE | {"name": "conv1.bias"}], "the gradient is not the slope of the loss, in parameter conv1.bias"),
        ([SLOPE | {"name": "direction 0"}], "the gradient is not the slope of the loss, along direction 0"),
        ([SLOPE], "the gradient is not the slope of the loss"),
        ([distance(1, "loss", "model", **BUG)], "the loss is wrong"),
        ([distance(1, "update", "last.weight", **BUG)], "the update of last.weight is wrong"),
        (
            [{"batch_index": 2, "check": "continuity", "name": "model.conv1.weight", **BUG}],
            "model.conv1.weight changed between two steps",
        ),
        ([{"batch_index": 2, "check": "continuity", **BUG}], "the state changed between two steps"),
        (
            [distance(1, "loss", "model", **BUG) | {"check": "free"}],
            "the first batches drift from float64 by more than rounding explains",
        ),
        ([{"batch_index": 0, "check": "later", "name": "x", **BUG}], "later found a fault in x"),
        ([{"batch_index": 0, "check": "later", "detail": "broken", **BUG}], "broken"),
    ],
)
def test_every_kind_of_fault_has_words(extra, words):
    found = side([*audit(), *extra])
    assert what_is_wrong(found.fault) == words
    assert not found.passed


def test_the_fault_named_first_is_where_it_is_and_not_what_follows():
    later = distance(1, "loss", "model", **BUG)
    update = distance(0, "update", "last.weight", **BUG)
    small = distance(0, "gradient", "conv1.bias", **(BUG | {"error": 0.1}))
    large = distance(0, "gradient", "last.weight", **BUG)
    found = first_fault(rows([later, SLOPE | {"name": "conv1.bias"}, update, small, large]))
    assert (found.row.quantity, found.row.name, found.others) == ("gradient", "last.weight", ("conv1.bias",))
    assert first_fault(rows(audit())) is None
    many = [distance(0, "gradient", f"p{n}", **BUG) for n in range(6)]
    assert "; also p1, p2, p3 and 2 more; " in fault_words((side(audit()), side([*audit(), *many])))


def test_the_guards_rows_are_not_the_audits():
    assert first_fault(rows([{"batch_index": 0, "check": "saved_tensors", "verdict": "bug"}])) is None


def test_a_simulation_of_rounding_explains_what_the_audit_says_it_does():
    assert SIMULATIONS == FACTOR
    (row,) = rows([distance(0, "gradient", "x", error=4e-5, bound=1e-5, noise=1e-5)])
    assert (row.allowed, row.share) == (8e-5, 0.5)
    assert (AuditRow("t", "a", 0, 0, "distance", "equal", 1, error=0.0, bound=0.0).share) == 0.0
    assert AuditRow("t", "a", 0, 0, "distance", "bug", 1, error=1.0, scale=0.0).relative is None


def test_what_is_not_finite_reaches_no_report():
    odd = dict.fromkeys(("error", "scale", "bound", "noise", "own_error", "own_bound", "anchor"), math.inf)
    found = side(changed(audit(), GRADIENT, verdict="bug", **odd))
    json.dumps(dataclasses.asdict(found), allow_nan=False)
    assert not {"nan", "inf"} & set(audited_line(found).split())


def test_shares_and_multiples_have_two_digits_and_no_sign():
    assert [share(value) for value in (0.0, 3.4e-7, 0.0312, 1.0, 14.0)] == [
        "0%",
        "3.4e-05%",
        "3.1%",
        "100%",
        "14 times",
    ]
    assert [times(value) for value in (1.24, 99.4, 12345.0, 3e8)] == [
        "1.2 times",
        "99 times",
        "12,000 times",
        "3e+08 times",
    ]
