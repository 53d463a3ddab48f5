"""What the rows of a probe say is what the probe found, bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ablate.curvature import Curvature, Step, probe, rows
from ablate.record.columns import PROBE_COLUMNS
from tests.curvature.networks import autoencoder
from tests.curvature.test_closed_forms import look_at

ADDED_BY_THE_CALLER = ("batches", "device", "mode", "samples", "probe_hash", "plan")
NAMES = {
    *("loss", "dimension", "lambda_max", "lambda_min", "trace", "negative_at_least", "negative_share"),
    *("negative_share_low", "negative_share_high", "floor", "gradient_norm", "gradient_negative_share"),
    *("gradient_captured", "curvature_gradient", "curvature_update", "negativity_ratio", "escape_rate"),
    *("decrement_least", "decrement_most", "kind", "evidence", "density"),
}


@pytest.fixture(scope="module")
def found() -> Curvature:
    model, loss, batches = autoencoder()
    update = torch.ones(sum(p.numel() for p in model.parameters()))
    return probe(model, loss, batches, exact_below=0, top=2, bottom=2, probes=2, update=update, seed=3)


def by_name(made: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in made if row["name"] == name]


def test_every_name_is_there_with_every_column_that_is_not_the_callers(found: Curvature) -> None:
    made = rows(found, player="model", optimiser=Step("SGD", 0.1))
    assert {row["name"] for row in made} == NAMES
    for row in made:
        assert list(row) == [column for column in PROBE_COLUMNS if column not in ADDED_BY_THE_CALLER]
        assert (row["player"], row["dtype"], row["seed"]) == ("model", "float64", 3)
        assert row["products"] == found.products
    kinds = {type(value) for row in made for value in row.values()}
    assert kinds <= {str, int, float, bool, list, type(None)}
    keys = [(row["name"], row["position"]) for row in made]
    assert len(set(keys)) == len(keys)


def test_values_are_the_probes_bit_for_bit(found: Curvature) -> None:
    made = json.loads(json.dumps(rows(found, optimiser=Step("SGD", 0.1))))
    for name, edges in (("lambda_max", found.edges.top), ("lambda_min", found.edges.bottom)):
        read = [(r["position"], r["value"], r["bound"], r["converged"], r["method"]) for r in by_name(made, name)]
        assert read == [(i, e.value, e.bound, e.converged, "lanczos") for i, e in enumerate(edges)]
    assert found.index.share is not None
    assert found.trace is not None
    expected = {
        "loss": (found.loss, None, "exact"),
        "dimension": (found.dimension, None, "exact"),
        "trace": (found.trace.value, found.trace.standard_error, "quadrature"),
        "floor": (found.index.floor, None, "lanczos"),
        "negative_at_least": (found.index.at_least, None, "ritz"),
        "negative_share": (found.index.share.value, found.index.share.standard_error, "quadrature"),
        "negative_share_low": (found.index.share.low, None, "quadrature"),
        "negative_share_high": (found.index.share.high, None, "quadrature"),
        "gradient_norm": (found.gradient.norm, None, "exact"),
        "gradient_negative_share": (found.gradient.negative, None, "lanczos"),
        "gradient_captured": (found.gradient.captured, None, "lanczos"),
        "curvature_gradient": (found.gradient.curvature, None, "exact"),
        "curvature_update": (found.gradient.update, None, "exact"),
        "decrement_least": (found.decrement.least, None, "bracket"),
        "decrement_most": (found.decrement.most, None, "bracket"),
    }
    for name, values in expected.items():
        (row,) = by_name(made, name)
        assert (row["value"], row["bound"], row["method"]) == values
    assert by_name(made, "kind")[0]["text"] == found.kind
    assert by_name(made, "evidence")[0]["text"] == found.evidence


def test_the_mean_of_the_densities_is_the_estimate(found: Curvature) -> None:
    made = by_name(rows(found), "density")
    assert [row["position"] for row in made] == [0, 1]
    assert found.density is not None
    for threshold in (-1e-3, 0.0, 0.1):
        shares = [float(np.array(row["masses"])[np.array(row["points"]) < threshold].sum()) for row in made]
        assert np.mean(shares) == pytest.approx(found.density.share_below(threshold).value, abs=1e-12)
    for row in made:
        assert sum(row["masses"]) == pytest.approx(1, abs=1e-12)
        assert row["points"] == sorted(row["points"])
        # of a share p in one random vector: at most at p = 1/2
        assert 0 < row["bound"] <= np.sqrt(0.5 / (found.dimension - len(found.density.atoms)))


def test_the_ratio_is_within_its_bound_where_the_edges_are_off_by_theirs(found: Curvature) -> None:
    (row,) = by_name(rows(found), "negativity_ratio")
    top, bottom = found.top, found.bottom
    for up in (-1, 1):
        for low in (-1, 1):
            other = -(bottom.value + low * bottom.bound) / (top.value + up * top.bound)
            assert abs(other - row["value"]) <= row["bound"] * (1 + 1e-6)


def test_what_was_not_looked_for_has_no_row_and_what_there_is_not_is_null() -> None:
    model, loss, batches = autoencoder()
    bare = rows(probe(model, loss, batches, exact_below=0, probes=0))
    left_out = {"density", "trace", "negative_share", "negative_share_low", "negative_share_high"}
    assert NAMES - {row["name"] for row in bare} == left_out | {"curvature_update", "escape_rate"}
    flat = rows(look_at(lambda x: (x**2).sum(), [0.0, 0.0]), optimiser=Step("Lion"))
    assert by_name(flat, "curvature_gradient")[0]["value"] is None
    assert (by_name(flat, "escape_rate")[0]["value"], by_name(flat, "escape_rate")[0]["method"]) == (
        None,
        "no rule for Lion",
    )
    assert by_name(rows(look_at(lambda x: -(x**2).sum(), [0.0, 0.0])), "negativity_ratio")[0]["bound"] is None


def test_a_whole_spectrum_says_so() -> None:
    made = rows(look_at(lambda x: x[0] ** 2 - 3 * x[1] ** 2, [1.0, 1.0]))
    methods = {name: by_name(made, name)[0]["method"] for name in ("lambda_min", "trace", "negative_share", "density")}
    assert set(methods.values()) == {"dense"}
    (density,) = by_name(made, "density")
    assert density["points"] == pytest.approx([-6, 2])
    assert (density["masses"], density["bound"]) == ([0.5, 0.5], 0.0)
    assert by_name(made, "negative_at_least")[0]["value"] == 1.0


def test_a_trace_by_itself_says_so() -> None:
    model = nn.Linear(20, 3)
    made = rows(probe(model, lambda m, x: m(x).square().mean(), [torch.randn(9, 20)], exact_below=0, trace_products=8))
    assert by_name(made, "trace")[0]["method"] == "xtrace"
