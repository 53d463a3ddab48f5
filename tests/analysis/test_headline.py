import pytest

from analysis.confounding import Mismatch
from analysis.divergence import Divergence
from analysis.guard_findings import AuditRow, coverage
from analysis.headline import WORST_FIRST, Evidence, cause, headline
from analysis.size import size

EQUAL = Divergence(2, 120, 0, None, None, True, ())
PARTED = Divergence(2, 120, 2, 1, 1.0, False, ())
CLEAN = AuditRow("t1", "a", 0, 0, "saved_tensors", "clean", 100)
FAULT = AuditRow("t2", "b", 0, 0, "saved_tensors", "overwritten", 19, (1, 3), "target", "m.py:3")
MISMATCH = (Mismatch("data order", (0,), 3),)


def evidence(mismatches=(), rows=(CLEAN,), divergence=PARTED, outcomes_equal=False):
    guard = (coverage("arm a", ["t1"], rows), coverage("arm b", ["t2"], rows))
    return Evidence(mismatches, guard, divergence, outcomes_equal)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (evidence(), "UNKNOWN"),
        (evidence(divergence=EQUAL, outcomes_equal=True), "BITWISE EQUAL"),
        (evidence(divergence=EQUAL, outcomes_equal=False), "UNKNOWN"),
        (evidence(rows=(CLEAN, FAULT)), "BUG"),
        (evidence(rows=(CLEAN, FAULT), divergence=EQUAL, outcomes_equal=True), "BUG"),
        (evidence(mismatches=MISMATCH), "CONFOUNDED"),
        (evidence(mismatches=MISMATCH, rows=(FAULT,)), "CONFOUNDED"),
    ],
)
def test_cause(found, expected):
    assert cause(found) == expected


@pytest.mark.parametrize(
    ("equal", "p", "equivalent", "expected"),
    [
        (True, 1.0, None, "EQUAL"),
        (False, 0.049, None, "DIFFERENT"),
        (False, 0.05, None, "UNDECIDED"),
        (False, 0.01, False, "DIFFERENT"),
        (False, 0.01, True, "DIFFERENT BUT NEGLIGIBLE"),
        (False, 0.9, True, "EQUIVALENT"),
        (False, None, None, "UNDECIDED"),
    ],
)
def test_size(equal, p, equivalent, expected):
    assert size(equal, p, equivalent) == expected


SIZES = ("DIFFERENT", "EQUIVALENT", "DIFFERENT BUT NEGLIGIBLE", "UNDECIDED", "EQUAL")


@pytest.mark.parametrize("how_large", SIZES)
@pytest.mark.parametrize("beyond", [None, False, True])
def test_a_fault_wins_over_every_size(how_large, beyond):
    for why in ("CONFOUNDED", "BUG", "BITWISE EQUAL"):
        assert headline(why, how_large, beyond) == why


@pytest.mark.parametrize(
    ("why", "how_large", "beyond", "expected"),
    [
        ("UNKNOWN", "DIFFERENT", True, "SYSTEMATIC"),
        ("UNKNOWN", "DIFFERENT", False, "INCONCLUSIVE"),
        ("UNKNOWN", "DIFFERENT", None, "INCONCLUSIVE"),
        ("ROUNDING", "DIFFERENT", True, "SYSTEMATIC"),
        ("UNKNOWN", "DIFFERENT BUT NEGLIGIBLE", True, "EQUIVALENT"),
        ("UNKNOWN", "EQUIVALENT", None, "EQUIVALENT"),
        ("ROUNDING", "EQUIVALENT", None, "CHAOS"),
        ("UNKNOWN", "UNDECIDED", True, "INCONCLUSIVE"),
    ],
)
def test_headline(why, how_large, beyond, expected):
    assert headline(why, how_large, beyond) == expected
    assert expected in WORST_FIRST


def test_coverage_counts_what_was_checked_and_finds_the_first_fault():
    later = AuditRow("t2", "b", 0, 50, "saved_tensors", "overwritten", 7, (2,), "mask", "")
    found = coverage("arm b", ["t2"], (CLEAN, later, FAULT))
    assert (found.batches, found.fault.batch, found.fault.per_batch, found.fault.near) == (2, 0, 19, "target")
    assert coverage("arm a", ["t1"], (CLEAN, FAULT)).fault is None
    assert coverage("arm c", ["t3"], (CLEAN, FAULT)).batches == 0


def test_a_write_that_torch_refused_is_a_fault_too():
    refused = AuditRow("t2", "b", 0, 0, "saved_tensors", "refused", 1)
    assert coverage("arm b", ["t2"], (refused,)).fault.refused
    assert not coverage("arm b", ["t2"], (refused, FAULT)).fault.refused


def test_undeclared_draws_are_named():
    drawn = AuditRow("t2", "b", 0, 0, "undeclared_draws", "drawn", 1, near="drop (Dropout)")
    assert coverage("arm b", ["t2"], (drawn,)).draws == ("drop (Dropout)",)
