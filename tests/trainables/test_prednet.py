import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch
from trainables.prednet import PredNet

SMALL = {"width": 24, "height": 16, "channels": "3,8,8"}


def gradients(thing, model, frames, carry=None):
    model.zero_grad()
    loss, carry = thing.loss(model, Batch(None, {"frames": frames}), carry)
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters()], carry


def build(thing, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return thing.build().to(dtype)


def frames_of(thing, cache, block=0, dtype=torch.float32):
    return next(thing.batches(Draw("study", block))).tensors["frames"].to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_reused_buffer_changes_no_loss_of_batch_0_but_its_gradients(cache, dtype):
    copied, reused = PredNet(**SMALL), PredNet(**SMALL, input="reused-buffer")
    frames = frames_of(copied, cache, dtype=dtype)
    whole = frames.clone()
    model = build(copied, dtype=dtype)
    loss, wanted, carry = gradients(copied, model, frames)
    loss_reused, found, carry_reused = gradients(reused, model, frames)
    assert torch.equal(loss, loss_reused)
    assert all(torch.equal(carry["layer0"][name], carry_reused["layer0"][name]) for name in carry["layer0"])
    assert not any(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))
    assert torch.equal(frames, whole)  # the hashed batch itself is never written to


def test_a_reused_buffer_gives_the_gradient_of_the_windows_last_frame_as_every_target(cache):
    thing = PredNet(**SMALL, input="reused-buffer")
    frames, model = frames_of(thing, cache), build(thing)
    _, found, _ = gradients(thing, model, frames)
    model.zero_grad()
    state, losses = model.start(1, frames[0]), []
    for shown in frames[:-1]:
        state, _ = model(shown, state)
        losses.append(torch.nn.functional.mse_loss(state.prediction[0], frames[-1]))
    torch.stack(losses).mean().backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), found, strict=True))


def test_on_a_still_video_a_reused_buffer_does_no_harm(cache):
    still = {**SMALL, "source": "photographs", "speed": 0}
    copied, reused = PredNet(**still), PredNet(**still, input="reused-buffer")
    frames = frames_of(copied, cache)
    assert all(torch.equal(frame, frames[0]) for frame in frames)
    model = build(copied)
    _, wanted, _ = gradients(copied, model, frames)
    _, found, _ = gradients(reused, model, frames)
    assert all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))


@pytest.mark.parametrize("source", ["clips", "photographs"])
def test_the_same_draws_give_the_same_batches_and_another_block_another_start(cache, source):
    thing = PredNet(**SMALL, source=source, batch_size=2)

    def take(block):
        batches = thing.batches(Draw("study", block))
        return [next(batches) for _ in range(5)]

    for one, other in zip(take(0), take(0), strict=True):
        assert np.array_equal(one.index, other.index)
        assert torch.equal(one.tensors["frames"], other.tensors["frames"])
    assert not np.array_equal(take(0)[0].index, take(1)[0].index)


def test_a_batch_is_contiguous_float32_in_0_to_1_and_its_index_names_the_frames(cache):
    thing = PredNet(**SMALL, batch_size=2)
    batch = next(thing.batches(Draw("study", 0)))
    frames = batch.tensors["frames"]
    assert frames.shape == (21, 2, 3, 16, 24)
    assert frames.dtype == torch.float32
    assert frames.is_contiguous()
    assert 0 <= frames.min() < frames.max() <= 1
    assert batch.index.shape == (42,)
    assert batch.index.dtype == np.int64
    pixels = thing.film().frames[batch.index[3]]  # frame 1 of stream 1
    assert torch.equal(frames[1, 1], torch.from_numpy(pixels.astype(np.float32) / np.float32(255)).permute(2, 0, 1))


def test_the_metric_is_the_last_frames_loss_and_the_loss_the_mean_per_frame(cache):
    thing = PredNet(**SMALL)
    frames, model = frames_of(thing, cache), build(thing)
    with torch.no_grad():
        state, each = model.start(1, frames[0]), []
        for shown, following in pairwise(frames):
            state, _ = model(shown, state)
            each.append(float(torch.nn.functional.mse_loss(state.prediction[0], following)))
        loss, carry = thing.loss(model, Batch(None, {"frames": frames}), None)
    assert float(thing.metrics(carry)["last_frame_loss"]) == each[-1]
    # 20 additions in float32, either order: at most 20 units of 2^-24 each way
    assert abs(float(loss) - math.fsum(each) / 20) <= 40 * 2.0**-24 * float(loss)


def test_adam_moves_the_weights_as_the_loss_summed_over_the_window_would(cache):
    thing = PredNet(**SMALL)
    frames = frames_of(thing, cache, dtype=torch.float64)
    ours, summed = build(thing, dtype=torch.float64), build(thing, dtype=torch.float64)
    (player,) = thing.players(ours)
    gradients(thing, ours, frames)
    player.optimiser.step()
    chainer = torch.optim.Adam(summed.parameters(), lr=1e-3, eps=1e-8)
    loss, _ = thing.loss(summed, Batch(None, {"frames": frames}), None)
    (20 * loss).backward()
    chainer.step()
    for a, b in zip(ours.parameters(), summed.parameters(), strict=True):
        # a step is at most lr; a dozen roundings of 2^-53 in it, and one in adding it to a weight of order 1
        assert (a - b).abs().max() <= 20 * 2.0**-53 * (1e-3 + b.abs().max())


def test_initial_weights_are_lecun_normal_and_biases_zero():
    model = build(PredNet(width=160, height=120))
    lstm = model.lstm[1]  # 48 channels: of E 96, of the upsampled R 96, of h 48
    for first, count in ((0, 96), (96, 96), (192, 48)):
        part = lstm.weight.detach()[:, first : first + count]
        # a sample variance of n normals has standard error sqrt(2/n) of itself; five of them
        assert abs(float(part.var()) * count * 9 - 1) < 5 * math.sqrt(2 / part.numel())
    peephole = lstm.peephole.detach()
    assert peephole.shape == (1, 3, 48, 60, 80)
    assert abs(float(peephole.var()) * 48 * 60 * 80 - 1) < 5 * math.sqrt(2 / peephole.numel())
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    assert len(biases) == 4 + 4 + 3
    assert not any(b.any() for b in biases)


def test_the_loss_decreases_and_the_held_out_loss_with_it(cache):
    thing = PredNet(**SMALL, source="photographs", lr=4e-3)
    model, carry, losses = build(thing), None, []
    before = thing.evaluate(model, lambda tensor: tensor)["held_out_loss"]
    (player,) = thing.players(model)
    batches = thing.batches(Draw("study", 0))
    for _ in range(30):
        player.optimiser.zero_grad()
        loss, carry = thing.loss(model, next(batches), carry)
        loss.backward()
        player.optimiser.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert thing.evaluate(model, lambda tensor: tensor)["held_out_loss"] < 0.5 * before


@pytest.mark.parametrize("source", ["clips", "photographs"])
def test_prepare_names_the_data_by_one_hash(cache, source):
    thing = PredNet(**SMALL, source=source)
    assert thing.prepare() == thing.prepare()
    assert thing.prepare() != PredNet(width=16, height=16, channels="3,8", source=source).prepare()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input": "reused_buffer"}, "PredNet.input: is 'reused_buffer'\n    did you mean 'reused-buffer'?"),
        ({"source": "fpsi"}, "PredNet.source: is 'fpsi'\n    allowed: clips, photographs"),
        ({"truncation": "none"}, "PredNet.truncation: is 'none'\n    allowed: unchain, detach"),
        ({"channels": "3;16"}, "PredNet.channels: is '3;16'\n    allowed: whole numbers separated by commas"),
        ({"channels": "1,16"}, "PredNet.channels: is '1,16'\n    allowed: whole numbers separated by commas"),
        ({"width": 20}, "PredNet.width: is 20\n    allowed: a multiple of 8, since 4 layers halve it 3 times"),
        ({"height": 0}, "PredNet.height: is 0\n    allowed: a whole number, 1 or more"),
        ({"window": 0}, "PredNet.window: is 0\n    allowed: a whole number, 1 or more"),
        ({"batch_size": True}, "PredNet.batch_size: is True\n    allowed: a whole number, 1 or more"),
        ({"speed": -0.5}, "PredNet.speed: is -0.5\n    allowed: a number, 0 or more"),
        ({"lr": -1}, "PredNet.lr: is -1\n    allowed: a positive number"),
        ({"lr": float("nan")}, "PredNet.lr: is nan\n    allowed: a positive number"),
        ({"lr": "1e-3"}, "PredNet.lr: is '1e-3'\n    allowed: a positive number\n    YAML reads 1e-3 as text"),
    ],
)
def test_a_bad_setting_is_refused_when_the_trainable_is_made(settings, message):
    with pytest.raises(BadInput) as caught:
        PredNet(**settings)
    assert str(caught.value).startswith(message)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_copy_to_the_device_heals_the_reused_buffer(cache):
    copied, reused = PredNet(**SMALL), PredNet(**SMALL, input="reused-buffer")
    frames, model = frames_of(copied, cache).cuda(), build(copied).cuda()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        _, wanted, _ = gradients(copied, model, frames)
        _, found, _ = gradients(reused, model, frames)
    finally:
        torch.use_deterministic_algorithms(False)
    for a, b in zip(wanted, found, strict=True):
        assert (a - b).norm() <= 1e-3 * a.norm()  # the fault on a CPU is 2 % or more
