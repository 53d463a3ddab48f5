import dataclasses

import pytest

from analysis.audit_fault import AuditFault
from analysis.audit_row import AuditRow
from analysis.audited import audited
from analysis.confounding import Mismatch
from analysis.divergence import Divergence
from analysis.guard_findings import coverage
from analysis.headline import WORST_FIRST, Evidence, cause, headline, reduced, unknown
from analysis.precision import Precision
from analysis.reference_agreement import Disagreement
from analysis.size import size

EQUAL = Divergence(2, 120, 0, None, None, True, ())
PARTED = Divergence(2, 120, 2, 1, 1.0, False, ())
CLEAN = AuditRow("t1", "a", 0, 0, "saved_tensors", "clean", 100)
FAULT = AuditRow("t2", "b", 0, 0, "saved_tensors", "overwritten", 19, (1, 3), "target", "m.py:3")
MISMATCH = (Mismatch("data order", (0,), 3),)
WRONG = AuditFault(("b",), 0, AuditRow("t2", "b", 0, 0, "distance", "bug", 1, quantity="gradient"), True, (), 1)
OTHER_FUNCTION = Disagreement(0, "gradient", "conv1.weight", 0.1, 1.0, 0)
SINGLE, HALF, DOUBLE = Precision(2.0**-24, "float32"), Precision(2.0**-8, "bfloat16"), Precision(2.0**-53, "float64")


def sides(precisions=(SINGLE, SINGLE), why_not="", fault=None):
    """Return both sides' audits, by default without fault; ``fault`` is the other side's."""
    blank = audited("arm", [], {})
    first, second = (
        dataclasses.replace(blank, label=f"arm {name}", batches=(0,), why_not=why_not, precision=precision)
        for name, precision in zip("ab", precisions, strict=True)
    )
    return first, dataclasses.replace(second, fault=fault)


NOT_AUDITED = tuple(dataclasses.replace(side, batches=()) for side in sides(why_not="not audited"))
FACTOR = "levels of a factor differ by design"


def evidence(
    mismatches=(), rows=(CLEAN,), divergence=PARTED, outcomes_equal=False, audit=NOT_AUDITED, other=None, declared=""
):
    guard = (coverage("arm a", ["t1"], rows), coverage("arm b", ["t2"], rows))
    return Evidence(mismatches, guard, audit, other, declared, divergence, outcomes_equal)


SAME = {"divergence": EQUAL, "outcomes_equal": True}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (evidence(), "UNKNOWN"),
        (evidence(**SAME), "BITWISE EQUAL"),
        (evidence(divergence=EQUAL, outcomes_equal=False), "UNKNOWN"),
        (evidence(rows=(CLEAN, FAULT)), "BUG"),
        (evidence(rows=(CLEAN, FAULT), **SAME), "BUG"),
        (evidence(mismatches=MISMATCH), "CONFOUNDED"),
        (evidence(mismatches=MISMATCH, rows=(FAULT,)), "CONFOUNDED"),
        (evidence(audit=sides()), "ROUNDING"),
        (evidence(audit=sides(), **SAME), "BITWISE EQUAL"),
        (evidence(audit=sides(fault=WRONG)), "BUG"),
        (evidence(audit=sides(fault=WRONG), **SAME), "BUG"),
        (evidence(audit=sides(fault=WRONG), mismatches=MISMATCH), "CONFOUNDED"),
        (evidence(audit=sides(fault=WRONG), declared=FACTOR), "BUG"),
        (evidence(audit=sides(), rows=(CLEAN, FAULT)), "BUG"),
        (evidence(audit=sides(), other=OTHER_FUNCTION), "BUG"),
        (evidence(audit=sides(why_not="no batch 0")), "UNKNOWN"),
        (evidence(audit=(sides()[0], NOT_AUDITED[1])), "UNKNOWN"),
        (evidence(audit=sides(), declared=FACTOR), "UNKNOWN"),
        (evidence(audit=sides((SINGLE, HALF))), "REDUCED PRECISION"),
        (evidence(audit=sides((HALF, HALF))), "REDUCED PRECISION"),
        (evidence(audit=sides((DOUBLE, SINGLE))), "REDUCED PRECISION"),
        (evidence(audit=sides((DOUBLE, DOUBLE))), "ROUNDING"),
        (evidence(audit=sides((None, None))), "ROUNDING"),
        (evidence(audit=sides((SINGLE, HALF), why_not="no batch 0")), "UNKNOWN"),
        (evidence(audit=sides((SINGLE, HALF), fault=WRONG)), "BUG"),
    ],
)
def test_cause(found, expected):
    assert cause(found) == expected


def test_why_the_cause_is_unknown():
    assert unknown(evidence()) == "neither side was held against a float64 reference"
    assert unknown(evidence(audit=sides(why_not="no batch 0"))) == "no batch 0"
    assert unknown(evidence(audit=(sides()[0], NOT_AUDITED[1]))) == "not audited"
    assert unknown(evidence(audit=sides(), declared=FACTOR)) == FACTOR
    assert unknown(evidence(audit=sides())) == ""


def test_whose_precision_explains_a_difference():
    named = lambda *precisions: [side.label for side in reduced(sides(precisions))]  # noqa: E731
    assert named(SINGLE, HALF) == ["arm b"]
    assert named(HALF, HALF) == ["arm a", "arm b"]
    assert named(DOUBLE, SINGLE) == ["arm b"]
    assert named(SINGLE, SINGLE) == []


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
        ("ROUNDING", "DIFFERENT BUT NEGLIGIBLE", None, "CHAOS"),
        ("ROUNDING", "UNDECIDED", True, "INCONCLUSIVE"),
        ("REDUCED PRECISION", "EQUIVALENT", True, "EQUIVALENT"),
        ("REDUCED PRECISION", "DIFFERENT", True, "SYSTEMATIC"),
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
