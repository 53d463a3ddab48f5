"""Draws from global generators during a batch are detected and named; the trial's own streams are not."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from ablate.audit.draws import drawing_modules, undeclared_draws
from ablate.trial.draw import Draw

DRAWS = {
    "torch": lambda: torch.randn(2),
    "torch, one integer": lambda: torch.randint(3, ()),
    "numpy": lambda: np.random.rand(),
    "numpy, half a normal pair": lambda: np.random.standard_normal(),
    "random": lambda: random.random(),
}


@pytest.mark.parametrize(("generator", "draw"), DRAWS.items(), ids=DRAWS.keys())
def test_a_draw_is_detected(generator, draw):
    with undeclared_draws(5) as findings:
        draw()
    assert [(f.batch_index, f.generator, f.near) for f in findings] == [(5, generator.split(",")[0], ())]
    assert "ctx.draw" in findings[0].detail
    assert "no module of torch's own is known to draw here" in findings[0].detail


def test_reseeding_is_detected_unless_it_changes_nothing():
    torch.manual_seed(1)
    with undeclared_draws(0) as findings:
        torch.manual_seed(2)
    assert [f.generator for f in findings] == ["torch"]


def test_the_trials_own_streams_and_plain_arithmetic_are_silent():
    draw = Draw("study", 0)
    own = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval()
    with undeclared_draws(0, model) as findings:
        draw("noise").normal((2, 2))
        own.random()
        torch.rand(2, generator=torch.Generator())
        model(torch.ones(2, 3)).sum().backward()
    assert findings == []


def test_dropout_is_named():
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), nn.Dropout(0.0))
    with undeclared_draws(0, model) as findings:
        model(torch.ones(2, 3))
    assert [f.near for f in findings] == [("1.1 (Dropout)",)]
    assert "modules that draw: 1.1 (Dropout)" in findings[0].detail


def test_which_modules_draw():
    model = nn.ModuleDict(
        {
            "lstm": nn.LSTM(2, 2, 2, dropout=0.1),
            "one_layer": nn.GRU(2, 2, 1),
            "attention": nn.MultiheadAttention(2, 1, dropout=0.1),
            "sure_attention": nn.MultiheadAttention(2, 1),
            "rrelu": nn.RReLU(),
            "alpha": nn.AlphaDropout(),
            "pool": nn.FractionalMaxPool2d(2, output_size=2),
        }
    )
    names = ("lstm (LSTM)", "attention (MultiheadAttention)", "rrelu (RReLU)", "alpha (AlphaDropout)")
    assert drawing_modules(model) == (*names, "pool (FractionalMaxPool2d)")
    assert drawing_modules(model.eval()) == ("pool (FractionalMaxPool2d)",)
    assert drawing_modules(nn.Dropout()) == ("the model itself (Dropout)",)


def test_nothing_is_drawn_by_looking():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with undeclared_draws(0):
        pass
    assert torch.equal(torch.rand(1), expected)


def test_an_exception_passes_through():
    with pytest.raises(ZeroDivisionError), undeclared_draws(0):
        _ = 1 / 0
