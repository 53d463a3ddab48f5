"""The benchmark's own parts: its methods agree where they must, and a package that is not there is named."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

FOLDER = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("curvature")


@pytest.mark.parametrize("name", ["autoencoder", "convnet", "ConvLSTM"])
def test_ours_and_scipy_agree_on_the_small_networks(benchmark: ModuleType, name: str) -> None:
    methods, networks = importlib.import_module("curvature_methods"), importlib.import_module("curvature_networks")
    net = networks.network(name, small=True)
    assert 3500 < sum(p.numel() for p in net.model.parameters()) < 4500
    net.train(3)
    before = {key: value.clone() for key, value in net.model.state_dict().items()}
    ours, theirs = methods.ours(net, 0, 0), methods.by_eigsh(net, 0, 0)
    assert ours.top == pytest.approx(theirs.top, rel=1e-3)
    assert ours.bottom == pytest.approx(theirs.bottom, rel=1e-3)
    assert np.sum(ours.weights) == pytest.approx(1)
    assert ours.products > 8
    assert ours.gradients in (2, 4)  # of the check by differences
    assert all((value == before[key]).all() for key, value in net.model.state_dict().items())


def test_what_failed_or_is_missing_is_said_and_an_error_over_the_tolerance_stands_out(benchmark: ModuleType) -> None:
    row = {"runs": 3, "products": 22, "gradients": 2, "seconds": 0.5, "top_error": 1e-4, "bottom_error": 2e-3}
    row |= {"density": True, "peak_mb": 80.0, "kept_mb": None}
    ends = {"ours": row, "other": row | {"products": 44, "bottom_error": float("nan")}, "peer": {"failed": "not there"}}
    reference = {"top": 1.0, "bottom": -0.5, "parameters": 7}
    console = Console(width=140, record=True, file=io.StringIO(), force_terminal=True)
    benchmark.show(
        {"net": {"reference": reference, "ends": ends, "warm": {"failed": "boom"}}}, ["ends", "warm"], console
    )
    text = console.export_text(clear=False)
    for words in ("not there", "44 (2x)", "not given", "warm, net: boom"):
        assert words in text
    assert "\x1b[1;31m2.0e-03" in console.export_text(styles=True)
