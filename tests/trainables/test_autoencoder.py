import math

import numpy as np
import pytest
import torch

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from trainables import mnist
from trainables.autoencoder import Autoencoder


def take(thing, count, block=0):
    batches = thing.batches(Draw("study", block))
    return [next(batches) for _ in range(count)]


def build(thing):
    torch.manual_seed(0)
    return thing.build()


def test_the_layers_are_784_128_32_128_784():
    shapes = [tuple(p.shape) for p in Autoencoder().build().parameters() if p.dim() == 2]
    assert shapes == [(128, 784), (32, 128), (128, 32), (784, 128)]


def test_an_epoch_is_a_permutation_of_the_training_images_and_the_next_another():
    digits = mnist.load()
    epochs = take(Autoencoder(batch_size=64), 2 * (4000 // 64))
    first, second = (np.concatenate([batch.index for batch in half]) for half in (epochs[:62], epochs[62:]))
    for epoch in (first, second):
        assert len(set(epoch.tolist())) == 62 * 64
        assert set(epoch.tolist()) <= set(digits.train.tolist())
    assert not np.array_equal(first, second)


def test_the_same_draws_give_the_same_batches():
    thing = Autoencoder(batch_size=8)
    for one, other in zip(take(thing, 5), take(thing, 5), strict=True):
        assert np.array_equal(one.index, other.index)
        assert torch.equal(one.tensors["images"], other.tensors["images"])
    assert not np.array_equal(take(thing, 1)[0].index, take(thing, 1, block=1)[0].index)


def test_a_batch_is_one_image_by_default():
    (batch,) = take(Autoencoder(), 1)
    assert batch.index.shape == (1,)
    assert batch.index.dtype == np.int64
    assert torch.equal(batch.tensors["images"], torch.from_numpy(mnist.load().floats(batch.index)))
    assert batch.tensors["images"].is_contiguous()


def test_the_gradient_is_the_float64_one_but_for_rounding():
    """A layer of fan-in n is off by at most n*u; errors of four layers add up forward and again backward."""
    thing = Autoencoder(batch_size=4)
    model, double = build(thing), build(thing).double()
    (batch,) = take(thing, 1)
    thing.loss(model, batch, None)[0].backward()
    images = batch.tensors["images"].double()
    hidden = images
    for layer in (0, 2, 4, 6):
        hidden = hidden @ double[layer].weight.T + double[layer].bias
        hidden = torch.relu(hidden) if layer < 6 else 1 / (1 + torch.exp(-hidden))
    ((hidden - images) ** 2).mean().backward()
    bound = 2 * (784 + 128 + 32 + 128) * 2.0**-24
    for ours, reference in zip(model.parameters(), double.parameters(), strict=True):
        assert (ours.grad.double() - reference.grad).norm() <= bound * reference.grad.norm()


def test_the_loss_decreases_and_the_held_out_loss_with_it():
    thing = Autoencoder(batch_size=16)
    model = build(thing)
    (player,) = thing.players(model)
    assert set(player.parameters) == {name for name, _ in model.named_parameters()}
    before = thing.evaluate(model, lambda tensor: tensor)["held_out_loss"]
    for batch in take(thing, 150):
        player.optimiser.zero_grad()
        loss, carry = thing.loss(model, batch, None)
        loss.backward()
        player.optimiser.step()
        assert carry is None
    assert thing.evaluate(model, lambda tensor: tensor)["held_out_loss"] < 0.4 * before


def test_held_out_loss_is_the_mean_over_the_held_out_images():
    thing = Autoencoder()
    model = build(thing)
    digits = mnist.load()
    with torch.no_grad():
        each = [
            float(((model(x) - x) ** 2).mean()) for x in torch.from_numpy(digits.floats(digits.held_out)).split(100)
        ]
    found = thing.evaluate(model, lambda tensor: tensor)["held_out_loss"]
    assert abs(found - math.fsum(each) / 10) <= 784 * 2.0**-24 * found


def test_prepare_returns_the_files_hash():
    assert Autoencoder().prepare() == mnist.SHA256


def test_prepare_refuses_a_bad_file(monkeypatch, tmp_path):
    monkeypatch.setattr(mnist.load, "__defaults__", (tmp_path / "none.npz", mnist.SHA256))
    with pytest.raises(BadInput, match=r"none\.npz: cannot be read"):
        Autoencoder().prepare()


def test_a_batch_larger_than_the_training_set_is_refused():
    with pytest.raises(BadInput) as caught:
        Autoencoder(batch_size=4001).prepare()
    assert str(caught.value) == (
        "Autoencoder.batch_size: is 4001, more than the 4000 training images\n    allowed: 1 to 4000"
    )


@pytest.mark.parametrize("settings", [{"batch_size": 0}, {"lr": 0}, {"hidden": -1}, {"code": 1.5}])
def test_a_bad_setting_is_refused(settings):
    (name,) = settings
    with pytest.raises(BadInput, match=f"Autoencoder.{name}: is"):
        Autoencoder(**settings)
