"""The fused Keras-family PredNet against a literal one, in float64, forward and gradient.

Tolerance: as in ``test_prednet_against_literal``; both compute one real-number function in float64, at most 4 sums of
at most n products a layer and step, forward and again backward, through nt steps and L layers: 8 * nt * L * n * u. The
kinks of the hard sigmoid and relu do no harm: no random argument comes within rounding of one.
"""

import pytest
import torch
from literal_prednet_keras import Literal, keras_adam, pieces

from ablate.trial.protocol import Batch
from trainables.hard_conv_lstm import hard_sigmoid
from trainables.prednet_keras import PredNetKeras

NT = 5
WEIGHTS = {"L_0": (1.0, 0.0, 0.0), "L_all": (1.0, 0.1, 0.1)}


def tolerance(channels):
    fan_in = max(9 * (3 * c + above) for c, above in zip(channels, (*channels[1:], 0), strict=True))
    return 8 * NT * len(channels) * fan_in * 2.0**-53


def trainable(channels="3,4,5", **settings):
    return PredNetKeras(width=8, height=12, channels=channels, nt=NT, **settings)


def model_of(thing, spread=0.3):
    torch.manual_seed(0)
    model = thing.build().double()
    with torch.no_grad():  # biases start at 0, where an error in them couldn't be seen, nor R in the first step
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_(0, spread)
    return model


def frames_of(batch=2):
    return torch.rand(NT, batch, 3, 12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def fused(thing, model, frames):
    model.zero_grad()
    loss, carry = thing.loss(model, Batch(None, {"frames": frames}), None)
    loss.backward()
    none = torch.zeros(())
    gradients = pieces(model, of=lambda p: torch.zeros_like(p) if p.grad is None else p.grad)
    return loss.item(), carry["pixel_mse"].item(), {k: none if not g.any() else g for k, g in gradients.items()}


def worst(found, reference):
    """Largest relative difference of the losses and of every original parameter's gradient."""
    differences = [abs(a - b) / b for a, b in zip(found[:2], reference[:2], strict=True)]
    assert found[2].keys() == reference[2].keys()
    for name, expected in reference[2].items():
        difference, norm = (found[2][name] - expected).norm(), expected.norm()
        differences.append(float(difference / norm) if norm > 0 else float(difference))
    return max(differences)


@pytest.mark.parametrize("loss_weights", ["L_0", "L_all"])
@pytest.mark.parametrize(("channels", "batch"), [("3,4,5", 2), ("3,4,5", 1), ("3", 2), ("3,2", 1)])
def test_loss_and_gradients_agree(loss_weights, channels, batch):
    thing = trainable(channels, loss_weights=loss_weights)
    model, frames = model_of(thing), frames_of(batch)
    reference = Literal(model).run(frames, WEIGHTS[loss_weights][: len(thing.channels)])
    assert worst(fused(thing, model, frames), reference) < tolerance(thing.channels)


def test_gates_reach_both_ends_of_the_hard_sigmoid_and_still_agree():
    thing = trainable(loss_weights="L_all")
    model, frames = model_of(thing, spread=4.0), frames_of()
    gates = []
    handle = model.lstm[0].register_forward_hook(
        lambda layer, inputs, _: gates.append(
            hard_sigmoid(torch.nn.functional.conv2d(inputs[0], layer.weight, layer.bias, padding=1)[:, :9])
        )
    )
    found = fused(thing, model, frames)
    handle.remove()
    seen = torch.stack(gates)
    assert (seen == 0).any()
    assert (seen == 1).any()
    assert ((seen > 0) & (seen < 1)).any()
    assert worst(found, Literal(model).run(frames, WEIGHTS["L_all"])) < tolerance(thing.channels)


@pytest.mark.parametrize(
    "deviation",
    [{"gate": torch.sigmoid}, {"gate": torch.nn.functional.hardsigmoid}, {"bottom_up_first": True}],
    ids=["sigmoid", "torch's hard sigmoid", "the Chainer family's order"],
)
def test_a_planted_deviation_is_seen(deviation):
    thing = trainable()
    model, frames = model_of(thing), frames_of()
    reference = Literal(model, **deviation).run(frames, WEIGHTS["L_0"])
    assert worst(fused(thing, model, frames), reference) > 1e6 * tolerance(thing.channels)


def test_l_0_and_l_all_differ_and_only_l_all_weighs_upper_errors():
    model, frames = model_of(trainable()), frames_of()
    l_0, l_all = (fused(trainable(loss_weights=kind), model, frames) for kind in ("L_0", "L_all"))
    assert l_all[0] > l_0[0]
    assert l_all[1] == l_0[1]
    assert worst(l_0, Literal(model).run(frames, WEIGHTS["L_all"])) > 1e6 * tolerance((3, 4, 5))


def test_the_first_frame_counts_for_nothing_but_what_it_teaches():
    thing = trainable("3")
    model, frames = model_of(thing), frames_of()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # Ahat is 0, so E is the frame itself: a known loss
        loss, _ = thing.loss(model, Batch(None, {"frames": frames}), None)
    assert loss.item() == pytest.approx(float(frames[1:].mean()) / 2, rel=1e-14)  # E has both signs: half are 0


def test_fusing_keeps_every_parameter_of_the_original():
    names = pieces(PredNetKeras(width=8, height=8, channels="3,4,5,6").build())
    gate_r, gate_e, gate_up, gate_bias, ahat, a = 16, 16, 12, 16, 8, 6
    assert len(names) == gate_r + gate_e + gate_up + gate_bias + ahat + a


def test_steps_are_those_of_keras_adam_with_the_learning_rate_that_drops():
    """Both step from the same gradients in float64; a step is a dozen roundings of at most lr, added to a weight."""
    thing = trainable(late_from=2, lr=1e-2, late_lr=1e-3)
    model, frames = model_of(thing), frames_of()
    (player,) = thing.players(model)
    literal = [p.detach().clone() for p in model.parameters()]
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in literal]
    rates = []
    for t in range(1, 5):
        model.zero_grad()
        loss, _ = thing.loss(model, Batch(None, {"frames": frames}), None)
        (1e-6 * loss).backward()  # so small that epsilon matters
        gradients = [p.grad.clone() for p in model.parameters()]
        rates.append(player.optimiser.param_groups[0]["lr"])
        player.optimiser.step()
        thing.after_step(model, player)
        keras_adam(literal, gradients, moments, t, rates[-1])
        for ours, reference in zip(model.parameters(), literal, strict=True):
            assert (ours - reference).abs().max() <= t * 20 * 2.0**-53 * (1 + reference.abs().max())
    assert rates == [1e-2, 1e-2, 1e-3, 1e-3]


def test_torchs_reading_of_epsilon_would_be_seen():
    gradient = torch.full((1,), 1e-8, dtype=torch.float64)
    keras, torchs = torch.zeros(1, dtype=torch.float64), torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    keras_adam([keras], [gradient], [(torch.zeros_like(keras), torch.zeros_like(keras))], 1, 1e-2)
    torchs.grad = gradient
    torch.optim.Adam([torchs], lr=1e-2, eps=1e-8).step()
    assert abs(float(torchs.detach() - keras)) > 4e-3
