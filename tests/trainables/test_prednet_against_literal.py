"""The fused PredNet against a literal one, in float64, forward and gradient, over three windows.

Tolerance. Both compute the same real-number function in float64 and differ by rounding only. A sum of n products is
off by at most n*u relative to the sum of magnitudes, u = 2^-53. The longest chain through S steps and L layers passes
4 sums a layer and step (ConvA, gates, ConvP, elementwise), forward and again backward; with amplification of order 1
per operation (sigmoid, tanh, relu and max are 1-Lipschitz) first-order bounds add up to 8*S*L*n*u, n the largest
fan-in. Compared are norms, per original parameter, since single entries near 0 may lose all their digits.
"""

import pytest
import torch
from literal_prednet import Literal, pieces

from ablate.trial.protocol import Batch
from trainables.prednet import PredNet

WINDOWS, LENGTH = 3, 4


def tolerance(channels):
    fan_in = max(9 * (2 * c + above + c) for c, above in zip(channels, (*channels[1:], 0), strict=True))
    return 8 * WINDOWS * LENGTH * len(channels) * fan_in * 2.0**-53


def trainable(channels="3,4,5", truncation="unchain", **settings):
    return PredNet(width=8, height=12, channels=channels, window=LENGTH, truncation=truncation, **settings)


def model_of(thing):
    torch.manual_seed(0)
    model = thing.build().double()
    with torch.no_grad():  # biases start at 0, where an error in them couldn't be seen
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_(0, 0.1)
    return model


def windows(batch=1):
    return torch.rand(
        WINDOWS, LENGTH + 1, batch, 3, 12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )


def fused_windows(thing, model, frames):
    """Losses and gradients of every window, with a plain gradient step between them, so that old weights differ."""
    carry, rows = None, []
    for window in frames:
        model.zero_grad()
        loss, carry = thing.loss(model, Batch(None, {"frames": window}), carry)
        loss.backward()
        gradients = {name: g.clone() for name, g in pieces(model, of=lambda p: p.grad).items()}
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.3 * parameter.grad
        rows.append((loss.item(), thing.metrics(carry)["last_frame_loss"].item(), gradients, before))
    return rows


def literal_windows(model, frames, truncation, rows, fault=None):
    literal, out = Literal(model, fault), []
    literal.start(frames.shape[2])
    for window, (*_, before) in zip(frames, rows, strict=True):
        model.load_state_dict(before)  # both walk along the same weights, so errors don't pile up through them
        literal.load(model)
        out.append(literal.window(window, truncation))
    return out


def worst(rows, literal):
    """Largest relative difference of a loss or a gradient, over windows and original parameters."""
    found = []
    for (loss, last, gradients, _), (loss_ref, frame_losses, gradients_ref) in zip(rows, literal, strict=True):
        found += [abs(loss - loss_ref) / loss_ref, abs(last - frame_losses[-1]) / frame_losses[-1]]
        assert gradients.keys() == gradients_ref.keys()
        for name, reference in gradients_ref.items():
            norm = reference.norm()
            assert torch.isfinite(norm)
            difference = (gradients[name] - reference).norm()
            found.append(float(difference / norm) if norm > 0 else float(difference))
    return max(found)


@pytest.mark.parametrize("truncation", ["unchain", "detach"])
@pytest.mark.parametrize(("channels", "batch"), [("3,4,5", 1), ("3,4,5", 2), ("3", 1), ("3,2", 1)])
def test_losses_and_gradients_agree(truncation, channels, batch):
    thing = trainable(channels, truncation)
    model, frames = model_of(thing), windows(batch)
    rows = fused_windows(thing, model, frames)
    assert worst(rows, literal_windows(model, frames, truncation, rows)) < tolerance(thing.channels)


def test_fusing_keeps_every_parameter_of_the_original():
    names = pieces(PredNet(width=8, height=8, channels="3,4,5,6").build())
    lstm_e, lstm_up, lstm_h, lstm_h_bias, peepholes, conv_p, conv_a = 16, 12, 16, 16, 12, 8, 6
    assert len(names) == lstm_e + lstm_up + lstm_h + lstm_h_bias + peepholes + conv_p + conv_a


@pytest.mark.parametrize("wrong", ["truncation", "output gate sees the new c"])
def test_a_planted_deviation_is_seen(wrong):
    thing = trainable()
    model, frames = model_of(thing), windows()
    rows = fused_windows(thing, model, frames)
    fault = None if wrong == "truncation" else wrong
    literal = literal_windows(model, frames, "detach" if wrong == "truncation" else "unchain", rows, fault)
    assert worst(rows, literal) > 1e4 * tolerance(thing.channels)


def test_truncation_changes_gradients_of_later_windows_only_and_no_loss_of_the_second():
    frames, rows = windows(), {}
    for truncation in ("unchain", "detach"):
        thing = trainable(truncation=truncation)
        rows[truncation] = fused_windows(thing, model_of(thing), frames)
    kept, cut = rows["unchain"], rows["detach"]
    assert all(torch.equal(kept[0][2][name], cut[0][2][name]) for name in kept[0][2])
    assert kept[1][0] == cut[1][0]  # the attached chain has the old weights' value, bit for bit
    differing = {name for name in kept[1][2] if not torch.equal(kept[1][2][name], cut[1][2][name])}
    assert differing == {"ConvP1.W", "ConvP1.b", "ConvP2.W", "ConvP2.b"}


def test_the_carry_holds_no_graph():
    thing = trainable()
    model = model_of(thing)
    _, carry = thing.loss(model, Batch(None, {"frames": windows()[0]}), None)
    tensors = [tensor for layer in range(3) for tensor in carry[f"layer{layer}"].values()] + [carry["last_frame_loss"]]
    assert len(tensors) == 10
    assert not any(tensor.requires_grad for tensor in tensors)
