import pytest
from auditing import rows
from synthetic import audit, distance

from ablate.audit.roundoff import name_of as recorded_name
from analysis.precision import UNITS, Precision, coarsest, name_of


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16"])
def test_precisions_are_told_apart(name):
    unit = UNITS[name]
    assert name_of(unit) == recorded_name(unit) == name
    assert not Precision(unit, name).coarser_than(unit)
    assert all(Precision(other, "").coarser_than(unit) for other in UNITS.values() if other > unit)


def test_the_coarsest_arithmetic_counts():
    seen = rows(
        [
            *audit(),
            {"batch_index": 0, "check": "precision", "verdict": "clean", "roundoff": 2.0**-11, "dtype": "tf32-like"},
        ]
    )
    assert coarsest(seen, ["float32"]) == Precision(2.0**-11, "tf32-like")
    cast = [distance(0, "loss", "model", roundoff=2.0**-11, dtype="float32", verdict="reduced")]
    assert coarsest(rows(cast), ["float32"]) == Precision(2.0**-11, "tf32")  # a value's type is not the arithmetic's
    low = {"batch_index": 0, "check": "precision", "verdict": "clean", "roundoff": 2.0**-11, "dtype": "float16"}
    assert coarsest(rows([*cast, low]), ["float32"]) == Precision(2.0**-11, "float16")
    assert coarsest([], ["float32", "bfloat16"]) == Precision(2.0**-8, "bfloat16")
    assert coarsest([], []) is None
    assert name_of(2.0**-14) == "roundoff 6.1e-05"
