"""The gate-by-gate PredNet is the fused one: the same weights under other names, and the same gradients."""

from __future__ import annotations

import pytest
import torch

from benchmarks import prednet_step
from benchmarks.prednet_gates import GateByGate, pieces
from benchmarks.prednet_step import Size, largest_difference, row, tolerance

TINY = Size(8, 12, (3, 4, 5), window=2, repeats=1, target=1.4)


def test_every_weight_has_a_name_and_a_place_in_both_networks() -> None:
    model = TINY.model()
    peer = GateByGate(model)
    cut = dict(pieces(model, dict(model.named_parameters())))
    own = dict(peer.named_parameters())
    assert cut.keys() == own.keys()
    assert all(torch.equal(cut[name].reshape(-1), own[name].reshape(-1)) for name in own)
    assert sum(p.numel() for p in own.values()) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("channels", [(3, 4, 5), (3, 4), (3,)])
def test_the_gradients_are_the_same(channels: tuple[int, ...]) -> None:
    size = Size(8, 12, channels, window=2, repeats=1, target=1.4)
    assert 0 <= largest_difference(size) <= tolerance(channels, prednet_step.COMPARED_FRAMES)


def test_another_function_is_seen_and_no_row_says_met(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = GateByGate.forward

    def half(self: GateByGate, x: torch.Tensor, state: object) -> object:
        found, pre = whole(self, x, state)
        return type(found)([0.5 * p for p in found.prediction], found.cell, found.hidden), pre

    monkeypatch.setattr(GateByGate, "forward", half)
    assert largest_difference(TINY) > 1e4 * tolerance(TINY.channels, prednet_step.COMPARED_FRAMES)
    found = row(TINY, 1)
    assert found.met is False
    assert "NOT the same function" in found.note
