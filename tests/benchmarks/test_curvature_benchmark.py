"""The curvature benchmark: its methods agree where they must, and what failed, is missing or falls short is said."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import curvature, curvature_methods
from benchmarks.curvature_kept import PREDNET, kept
from benchmarks.curvature_methods import ALONE, EIGSH, METHODS, OURS, THEN
from benchmarks.curvature_networks import CLOSE, HARD, LATE, NAMES, network
from benchmarks.curvature_page import curvature_page
from benchmarks.curvature_rows import best_eigsh, comparisons
from benchmarks.measured import Comparison
from benchmarks.surroundings import Surroundings

BE, APART = "eigsh, both ends at once, tol 0.001", "eigsh, one end, then the other, tol 0.001"


@pytest.mark.parametrize("name", NAMES)
def test_ours_and_scipy_agree_on_the_small_networks(name: str) -> None:
    net = network(name, small=True)
    assert 1900 < sum(p.numel() for p in net.model.parameters()) < 2200
    net.train(3)
    before = {key: value.clone() for key, value in net.model.state_dict().items()}
    ours, *others = (METHODS[method][1](net, 0, 9) for method in (OURS, ALONE, BE, APART, BE + THEN))
    for theirs in others:
        assert ours.top == pytest.approx(theirs.top, rel=1e-3)
        assert ours.bottom == pytest.approx(theirs.bottom, rel=1e-3)
    assert np.sum(ours.weights) == pytest.approx(1)
    assert ours.products == ours.steps + 1 > 8
    alone, be, _, then = others
    assert len(alone.nodes) == len(be.nodes) == 0
    assert (len(then.nodes), np.sum(then.weights)) == (9, pytest.approx(1))
    assert then.products == be.products + 9
    assert ours.gradients in (2, 4)  # of the check by differences
    assert all((value == before[key]).all() for key, value in net.model.state_dict().items())


REFERENCE = {"top": 1.0, "bottom": -0.5, "parameters": 7}


def ends(products: int, seconds: float, **more: Any) -> dict[str, Any]:
    row = {
        "runs": 2,
        "products": products,
        "gradients": 2,
        "steps": products - 1,
        "seconds": seconds,
        "top_error": 1e-4,
        "bottom_error": 1e-5,
        "wrong": 0,
    }
    row |= {"every": {"products": [products] * 2, "seconds": [seconds] * 2}}
    return row | {"density": True, "peak_mb": 80.0, "kept_mb": None} | more


def shown(found: dict[str, Any], tasks: list[str]) -> Console:
    console = Console(width=140, record=True, file=io.StringIO(), force_terminal=True)
    curvature.show(found, tasks, console)
    return console


def test_what_failed_or_is_missing_is_said_and_an_error_over_the_tolerance_stands_out() -> None:
    ours = ends(22, 0.5, bottom_error=2e-3, wrong=1)
    methods = {"ours": ours, "other": ends(44, 0.5, bottom_error=float("nan")), "peer": {"failed": "not there"}}
    net = {"reference": REFERENCE, "ends": methods, "warm": {"failed": "boom"}}
    warm = {"cold": 90, "warm": 45, "ratio": 2.0, "worst_error": 1e-4}
    console = shown({"net": net, "good": {"reference": REFERENCE, "warm": warm}}, ["ends", "warm"])
    text = console.export_text(clear=False)
    for words in ("not there", "44 (2x)", "not given", "1 of 2", "0 of 2", "warm, net: boom", "good"):
        assert words in text
    assert "\x1b[1;31m2.0e-03" in console.export_text(styles=True)


def test_where_ours_or_the_reference_fails_the_others_are_shown() -> None:
    methods = {"ours": {"failed": "boom"}, "other": ends(44, 0.5)}
    text = shown({"net": {"reference": REFERENCE, "ends": methods}}, ["ends"]).export_text()
    assert "boom" in text
    assert "44" in text
    text = shown({"net": {"reference": {"failed": "no digits"}}}, ["ends", "warm"]).export_text()
    assert "net: no reference, so nothing was measured: no digits" in text
    assert comparisons({"net": {"reference": REFERENCE, "ends": methods}}) == []


def test_without_a_reference_nothing_else_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def one(task: str, name: str, *_: Any) -> dict[str, Any]:
        asked.append((task, name))
        return {"failed": "no digits"}

    monkeypatch.setattr(curvature, "one", one)
    found: dict[str, Any] = {}
    curvature.measure(found, ["ends", "warm"], 1, every=False, console=Console(file=io.StringIO()))
    assert asked == [("reference", name) for name in (*NAMES, *HARD)]
    assert all(here["warm"] == {"failed": "no digits"} for here in found.values())


def test_the_dearest_package_runs_on_one_network_unless_asked() -> None:
    on = {name: curvature_methods.DEAREST in curvature.methods_of(name, every=False) for name in (*NAMES, *HARD)}
    assert on == {NAMES[0]: True, NAMES[1]: False, NAMES[2]: False, CLOSE: False, LATE: False}
    assert all(curvature_methods.DEAREST in curvature.methods_of(name, every=True) for name in NAMES)


def test_a_quadrature_follows_the_cheapest_eigsh_that_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap, told = dict.fromkeys(EIGSH, 60) | {APART: 30, BE: 40}, []
    counts: dict[tuple[str, str], int] = {}

    def one(task: str, name: str, folder: str, count: int, *rest: str) -> dict[str, Any]:
        if task == "reference":
            return REFERENCE
        told.append(rest)
        counts[name, rest[0]] = count
        return ends(cheap.get(rest[0], 25), 1.0, bottom_error=1e-2 if rest[0] == APART else 1e-4)

    monkeypatch.setattr(curvature, "one", one)
    monkeypatch.setattr(curvature, "NAMES", NAMES[:1])
    monkeypatch.setattr(curvature, "HARD", (LATE,))
    found: dict[str, Any] = {}
    curvature.measure(found, ["ends"], 2, every=False, console=Console(file=io.StringIO()))
    assert (BE + THEN, "24") in told
    assert [rest for rest in told if rest[0].endswith(THEN)] == [(BE + THEN, "24")] * 2
    assert [counts[NAMES[0], method] for method in (OURS, ALONE, BE, BE + THEN, APART)] == [6, 6, 6, 6, 1]
    assert {count for (name, _), count in counts.items() if name == LATE} == {2}


def test_of_settings_that_are_all_wrong_or_failed_the_cheapest_or_none_is_the_peer() -> None:
    wrong = {APART: ends(30, 1.0, top_error=1.0), BE: ends(40, 1.0, top_error=1.0)}
    assert best_eigsh(wrong) == APART
    assert best_eigsh({BE: {"failed": "boom"}}) == best_eigsh({}) == ""


def test_a_process_that_fails_without_a_word_or_does_not_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curvature.sys, "executable", "false")
    assert curvature.one("ends", "n", "f", 1) == {"failed": "ended with 1 and said nothing"}
    monkeypatch.setattr(curvature, "LONGEST_S", 1e-9)
    assert curvature.one("ends", "n", "f", 1) == {"failed": "not done after 0 s"}


def test_what_was_broken_off_is_shown_as_far_as_it_came() -> None:
    text = shown(
        {"net": {"reference": REFERENCE, "ends": {"other": ends(44, 0.5)}}, "late": {}}, ["ends"]
    ).export_text()
    assert "44" in text
    assert comparisons({"net": {"reference": REFERENCE, "ends": {"other": ends(44, 0.5)}}, "late": {}}) == []


def test_keeping_weights_is_part_of_a_trial_and_held_against_two_percent() -> None:
    found = kept(windows=3, at=(0, 2, 3))
    for clock in ("cpu", "wall"):
        assert 0 < found["keeping"][clock] < found["trial"][clock]
    found |= {"keeping": {"cpu": 1.0, "wall": 3.0}, "trial": {"cpu": 100.0, "wall": 100.0}}
    rows = comparisons({PREDNET: {"kept": found}})
    assert [(row.ours, row.target, row.met) for row in rows] == [((1.0,), "<= 2 %", True), ((3.0,), "<= 2 %", False)]


def test_the_page_says_where_what_and_how_each_method_did() -> None:
    here = {"reference": REFERENCE, "ends": {OURS: ends(22, 0.5, bottom_error=2e-3), "peer": {"failed": "not there"}}}
    rows = [Comparison("a", "s", (1.0,), "b", (3.0,), ">= 2", True), Comparison("c", "s", (1.0,), met=False)]
    text = curvature_page(Surroundings.now(), "Title", rows, [curvature.ends_table("net", here)], 90.0, broken=True)
    for words in ("# Title", "- machine: ", "- compared: PyHessian", "in 2 min", "**Broken off", "1 of 2 targets met"):
        assert words in text
    assert "| ours | 22 (1x) | 0.50 (1x) | 1.0e-04 | **2.0e-03** | 0 of 2 | yes | yes | 80 |  |" in text
    assert "| peer | not there |" in text
    assert "Broken off" not in curvature_page(Surroundings.now(), "Title", rows, [], 90.0, broken=False)


def test_each_target_is_met_or_not() -> None:
    named = {"curvlinops, defaults": ends(151, 10.0), APART: ends(30, 1.0, bottom_error=1e-2), BE: ends(38, 1.0)}
    named |= {BE + THEN: ends(60, 1.6), "PyHessian, told the steps": ends(20, 0.4, peak_mb=39.0)}
    methods = {OURS: ends(20, 0.5, kept_mb=3.0), ALONE: ends(18, 0.5), **named}
    density = {"w1": {"ours": 0.1, "plain quadrature": 0.19}, "w1_errors": {"ours": 0.01, "plain quadrature": 0.02}}
    density |= {"trace": {"ours": 0.03, "a": 0.02, "b": 0.05}, "trace_errors": {"ours": 3e-3, "a": 1e-3, "b": 1e-3}}
    ways = {"kept graph (ours)": 2.0, "anew": 3.0, "torch.func.linearize, its building": 50.0}
    product = {"ways": ways | {"torch.func.linearize, reused": 1.5}}
    warm = {"cold": 90, "warm": 60, "ratio": 1.5, "worst_error": 1e-4}
    here = {"reference": REFERENCE, "ends": methods, "density": density, "product": product, "warm": warm}
    rows = {(row.what.removeprefix("ConvLSTM"), row.peer_name): row for row in comparisons({"ConvLSTM": here})}
    met = {key: row.met for key, row in rows.items()}
    both, alone = ", both ends and density: ", ", both ends, no density on either side: "
    assert met == {
        (f"{both}products", "curvlinops, defaults"): True,
        (f"{both}time", "curvlinops, defaults"): True,
        (f"{both}products", BE + THEN): True,
        (f"{both}time", BE + THEN): True,
        (f"{alone}products", BE): True,
        (f"{alone}time", BE): False,
        (", both ends: worst relative error", ""): True,
        (": memory kept after a probe", ""): False,
        (f"{both}time", "PyHessian, told the steps"): False,
        (": peak memory beside a gradient's", "PyHessian, told the steps"): False,
        (": one product, in gradients", "torch.func.linearize, reused"): True,
        (", density: Wasserstein-1 error at equal products", "plain quadrature"): False,
        (", trace at 99 products: relative error", "a"): False,
        (": products for five snapshots", "five cold starts"): True,
    }
    hard = {(row.what.removeprefix(CLOSE), row.peer_name): row.met for row in comparisons({CLOSE: {"ends": methods}})}
    assert {what for (what, _), was in hard.items() if was is not None} == {
        ", both ends: worst relative error",
        ": memory kept after a probe",
        ": peak memory beside a gradient's",
    }
    assert rows[f"{both}products", BE + THEN].note == "a quadrature of as many steps as ours, 19"
    assert rows[f"{alone}products", BE].note == (
        f"of its settings the cheapest that is right; {APART} 30 products, wrong by 1.0e-02"
    )
    assert rows[": one product, in gradients", "torch.func.linearize, reused"].note == (
        "its building costs 50 gradients more"
    )
    assert rows[f"{both}products", "curvlinops, defaults"].peer == (151.0, 151.0)
