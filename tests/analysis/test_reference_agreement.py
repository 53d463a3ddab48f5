import pytest
from auditing import GRADIENT, pair
from synthetic import audit, changed, distance

from analysis.reference_agreement import disagreement


def test_references_that_differ_are_another_function():
    found = disagreement(*pair(audit(), changed(audit(), GRADIENT, anchor=1.002)))
    assert (found.quantity, found.name, found.others) == ("gradient", "conv1.weight", 0)
    assert found.relative == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("mine", "theirs", "hashes"),
    [
        (audit(), audit(), {}),
        (audit(), changed(audit(), GRADIENT, anchor=1.0 + 1e-9), {}),
        (audit(), changed(audit(), GRADIENT, anchor=1.002), {"initial_hash": "another"}),
        (audit(), changed(audit(), {**GRADIENT, "batch_index": 1}, anchor=1.002), {}),
        (audit(), changed(audit(), {**GRADIENT, "quantity": "update"}, anchor=1.002), {}),
        (audit(), changed(audit(), GRADIENT, anchor=1.002, verdict="unjudged"), {}),
        (audit(), changed(audit(), GRADIENT, anchor=None), {}),
        (
            [*audit(), distance(0, "loss", "second")],
            [*changed(audit(), GRADIENT, anchor=1.002), distance(0, "loss", "second")],
            {},
        ),
        ([], audit(), {}),
    ],
)
def test_references_that_must_not_be_called_different(mine, theirs, hashes):
    assert disagreement(*pair(mine, theirs, **hashes)) is None


def test_a_gradient_of_zero_differs_by_rounding_alone():
    """Both references hold nothing but rounding of sums of size 1: their relative difference means nothing."""
    zero = [changed(audit(), GRADIENT, scale=size, anchor=size, bound=1e-6, error=1e-8) for size in (1e-17, 3e-17)]
    assert disagreement(*pair(*zero)) is None
