import math

import numpy as np
import pytest
import torch

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch
from trainables.hard_conv_lstm import hard_sigmoid
from trainables.prednet_keras import PredNetKeras

SMALL = {"width": 16, "height": 8, "channels": "3,4", "nt": 4}


def build(thing, seed=0):
    torch.manual_seed(seed)
    return thing.build()


def test_the_defaults_are_the_papers():
    thing = PredNetKeras()
    assert (thing.width, thing.height, thing.nt, thing.batch_size) == (160, 128, 10, 4)
    assert thing.channels == (3, 48, 96, 192)
    assert (thing.lr, thing.late_lr, thing.late_from) == (1e-3, 1e-4, 75 * 500 // 4)
    assert thing.upper_weight == 0


def test_the_parameters_are_as_many_as_the_papers_model_has():
    counts = 0
    for c, above in zip((3, 48, 96, 192), (48, 96, 192, 0), strict=True):
        counts += 4 * (9 * (3 * c + above) * c + c) + 9 * c * c + c
        counts += 9 * 2 * c * above + above if above else 0
    assert sum(p.numel() for p in PredNetKeras().build().parameters()) == counts


@pytest.mark.parametrize(("z", "expected"), [(-2.5, 0), (2.5, 1), (0, 0.5), (1, 0.7), (-9, 0), (9, 1)])
def test_the_hard_sigmoid_is_keras_s(z, expected):
    assert float(hard_sigmoid(torch.tensor(z, dtype=torch.float64))) == pytest.approx(expected, abs=2.0**-53)


def test_initial_weights_are_glorot_uniform_per_gate_and_biases_zero():
    model = build(PredNetKeras())
    lstm = model.lstm[1].weight.detach()  # 48 channels: of R 48, of E 96, of the upsampled R 96
    assert lstm.shape == (4 * 48, 240, 3, 3)
    limit = math.sqrt(6 / (9 * (240 + 48)))
    for gate in lstm.chunk(4):
        assert 0.999 * limit < gate.abs().max() <= limit * (1 + 2**-23)
        # of n uniforms the mean square has standard error limit^2 sqrt(4/45 / n); five of them
        assert abs(float(gate.square().mean()) - limit**2 / 3) < 5 * limit**2 * math.sqrt(4 / 45 / gate.numel())
    assert not any(p.any() for name, p in model.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize("source", ["clips", "photographs"])
def test_batches_are_sequences_inside_shots_in_a_fresh_order_each_epoch(cache, source):
    thing = PredNetKeras(**SMALL, source=source)
    film, batches = thing.film(), thing.batches(Draw("study", 0))
    starts = film.starts(3)
    epochs = [[next(batches) for _ in range(len(starts) // 4)] for _ in range(2)]
    firsts = [np.concatenate([batch.index.reshape(4, 4)[0] for batch in epoch]) for epoch in epochs]
    for first in firsts:
        assert len(set(first.tolist())) == len(first)
        assert set(first.tolist()) <= set(starts.tolist())
    assert not np.array_equal(*firsts)
    batch = epochs[0][0]
    assert np.array_equal(np.diff(batch.index.reshape(4, 4), axis=0), np.ones((3, 4)))
    assert batch.tensors["frames"].shape == (4, 4, 3, 8, 16)
    assert batch.tensors["frames"].is_contiguous()
    pixels = film.frames[batch.index[4 * 2 + 1]]  # frame 2 of sequence 1
    assert torch.equal(
        batch.tensors["frames"][2, 1], torch.from_numpy(pixels.astype(np.float32) / np.float32(255)).permute(2, 0, 1)
    )
    training = [shot for shot in film.shots if not shot.held_out]
    for first in starts:
        assert any(shot.start <= first and first + 4 <= shot.stop for shot in training)


def test_the_same_draws_give_the_same_batches_and_another_block_others(cache):
    thing = PredNetKeras(**SMALL)
    one, other, third = (next(thing.batches(Draw("study", block))) for block in (0, 0, 1))
    assert np.array_equal(one.index, other.index)
    assert torch.equal(one.tensors["frames"], other.tensors["frames"])
    assert not np.array_equal(one.index, third.index)


def test_training_lowers_the_loss_and_both_held_out_values(cache):
    thing = PredNetKeras(**SMALL, source="photographs", lr=0.01)
    model = build(thing)
    before = thing.evaluate(model, lambda tensor: tensor)
    (player,) = thing.players(model)
    batches = thing.batches(Draw("study", 0))
    for _ in range(60):
        player.optimiser.zero_grad()
        loss, carry = thing.loss(model, next(batches), None)
        loss.backward()
        player.optimiser.step()
        thing.after_step(model, player)
    after = thing.evaluate(model, lambda tensor: tensor)
    assert set(after) == {"held_out_loss", "held_out_mse"}
    assert after["held_out_loss"] < 0.6 * before["held_out_loss"]
    assert after["held_out_mse"] < 0.6 * before["held_out_mse"]
    assert thing.metrics(carry).keys() == {"pixel_mse"}


def test_the_schedule_reads_adams_own_count_so_a_resumed_trial_goes_on_with_it(cache):
    thing = PredNetKeras(**SMALL, late_from=3)
    model, frames = build(thing), torch.rand(4, 1, 3, 8, 16)
    (player,) = thing.players(model)
    for _ in range(3):
        thing.loss(model, Batch(None, {"frames": frames}), None)[0].backward()
        player.optimiser.step()
        thing.after_step(model, player)
    saved = player.optimiser.state_dict()
    other = PredNetKeras(**SMALL, late_from=3)
    (resumed,) = other.players(model)
    assert resumed.optimiser.param_groups[0]["lr"] == 1e-3
    resumed.optimiser.load_state_dict(saved)
    assert resumed.optimiser.param_groups[0]["lr"] == 1e-4
    resumed.optimiser.step()
    other.after_step(model, resumed)
    assert resumed.optimiser.param_groups[0]["eps"] == 1e-8 / math.sqrt(1 - 0.999**5)


def test_prepare_names_the_data_and_refuses_a_batch_larger_than_all_sequences(cache):
    assert PredNetKeras(**SMALL).prepare() == PredNetKeras(**SMALL, loss_weights="L_all").prepare()
    with pytest.raises(BadInput) as caught:
        PredNetKeras(**SMALL, batch_size=1000).prepare()
    assert str(caught.value) == (
        "PredNetKeras.batch_size: is 1000, more than the 297 sequences there are\n    allowed: 1 to 297"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_weights": "L0"}, "PredNetKeras.loss_weights: is 'L0'\n    did you mean 'L_0'?"),
        ({"nt": 1}, "PredNetKeras.nt: is 1\n    allowed: a whole number, 2 or more"),
        ({"width": 20}, "PredNetKeras.width: is 20\n    allowed: a multiple of 8, since 4 layers halve it 3 times"),
        ({"channels": "4,8"}, "PredNetKeras.channels: is '4,8'\n    allowed: whole numbers separated by commas"),
        ({"late_lr": 0}, "PredNetKeras.late_lr: is 0\n    allowed: a positive number"),
        ({"late_from": -1}, "PredNetKeras.late_from: is -1\n    allowed: a whole number, 0 or more"),
        ({"source": "kiti"}, "PredNetKeras.source: is 'kiti'\n    did you mean 'kitti'?"),
    ],
)
def test_a_bad_setting_is_refused_when_the_trainable_is_made(settings, message):
    with pytest.raises(BadInput) as caught:
        PredNetKeras(**settings)
    assert str(caught.value).startswith(message)
