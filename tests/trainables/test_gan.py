import math

import numpy as np
import pytest
import torch
from torch import nn

from ablate.errors import BadInput
from ablate.trial.draw import Draw
from ablate.trial.permuted import STREAM, check_independent_rows, permuted
from ablate.trial.protocol import Batch, Images
from ablate.trial.step import Stepper
from trainables import mnist
from trainables.gan import COMPARED, GAN, SHOWN

torch.set_num_threads(1)
SMALL = {"width": 2, "features": 8, "latent": 4, "batch_size": 16, "kernels": 3, "kernel_size": 2}
U = 2.0**-53


def take(thing, count=1, block=0):
    batches = thing.batches(Draw("study", block))
    return [next(batches) for _ in range(count)]


def build(thing, seed=0):
    torch.manual_seed(seed)
    return thing.build()


def doubles(batch):
    return Batch(batch.index, {name: tensor.double() for name, tensor in batch.tensors.items()})


def losses(thing, model, batch):
    return {player.name: player.loss(model, batch, None)[0] for player in thing.players(model)}


def test_the_discriminator_is_stepped_first_and_every_parameter_has_one_player():
    thing = GAN(discriminator="minibatch", **SMALL)
    model = build(thing)
    players = thing.players(model)
    assert [player.name for player in players] == ["discriminator", "generator"]
    owned = [id(p) for player in players for p in player.parameters.values()]
    assert sorted(owned) == sorted(id(p) for p in model.parameters())


@pytest.mark.parametrize("discriminator", ["plain", "minibatch"])
@pytest.mark.parametrize("label", [1.0, 0.9])
def test_the_losses_are_the_papers(discriminator, label):
    """Written with probabilities, in float64; a loss is a mean of 16 logarithms, each of a few operations."""
    thing = GAN(discriminator=discriminator, real_label=label, **SMALL)
    model = build(thing).double()
    batch = doubles(take(thing)[0])
    found = losses(thing, model, batch)
    with torch.no_grad():
        real = torch.sigmoid(model.discriminator(batch.tensors["images"])).numpy()
        made = torch.sigmoid(model.discriminator(model.generator(batch.tensors["latents"]))).numpy()
        other = torch.sigmoid(model.discriminator(model.generator(batch.tensors["latents_generator"]))).numpy()
    expected = -(label * np.log(real) + (1 - label) * np.log(1 - real)).mean() - np.log(1 - made).mean()
    assert abs(found["discriminator"].item() - expected) <= 64 * U * expected
    assert abs(found["generator"].item() + np.log(other).mean()) <= 64 * U * expected


def test_feature_matching_is_the_squared_distance_of_mean_features():
    thing = GAN(generator_loss="feature-matching", discriminator="minibatch", **SMALL)
    model = build(thing).double()
    batch = doubles(take(thing)[0])
    found = losses(thing, model, batch)["generator"].item()
    with torch.no_grad():
        real = model.discriminator.embed(batch.tensors["images"]).numpy()
        made = model.discriminator.embed(model.generator(batch.tensors["latents_generator"])).numpy()
    assert real.shape == (16, 8)  # the features, without what minibatch discrimination adds
    expected = sum((math.fsum(real[:, k]) / 16 - math.fsum(made[:, k]) / 16) ** 2 for k in range(8))
    size = np.abs(real).mean(0) + np.abs(made).mean(0)
    assert abs(found - expected) <= 2 * 18 * U * (size**2).sum()


def test_with_and_without_minibatch_discrimination_both_players_start_the_same():
    plain, minibatch = (GAN(discriminator=one, **SMALL) for one in ("plain", "minibatch"))
    without, together = build(plain), build(minibatch)
    weights = dict(together.named_parameters())
    for name, parameter in without.named_parameters():
        if name != "discriminator.head.weight":
            assert torch.equal(parameter, weights.pop(name)), name
    assert set(weights) == {"discriminator.head.weight", "discriminator.minibatch.tensor"}
    head = together.discriminator.head.weight
    assert torch.equal(head[:, :8], without.discriminator.head.weight)
    assert 0 < head[:, 8:].abs().min() <= head[:, 8:].abs().max() <= 0.01 / math.sqrt(8 + 3)


def test_minibatch_discrimination_tells_a_collapsed_batch_from_one_that_is_not():
    thing = GAN(discriminator="minibatch", **SMALL)
    model = build(thing).discriminator
    images = take(thing)[0].tensors["images"]
    with torch.no_grad():
        model.head.weight[:, 8:] = -1.0
        assert (model(images[:1].expand(16, -1)) < model(images)[0] - 1).all()


def test_each_loss_is_a_function_of_both_players_parameters():
    """The mixed second derivatives of the game: none is cut off."""
    thing = GAN(discriminator="minibatch", **SMALL)
    model = build(thing).double()
    found = losses(thing, model, doubles(take(thing)[0]))
    for name, other in (("discriminator", model.generator), ("generator", model.discriminator)):
        gradients = torch.autograd.grad(found[name], list(other.parameters()), retain_graph=True, allow_unused=True)
        assert any(gradient is not None and gradient.abs().max() > 0 for gradient in gradients), name


def test_a_batch_is_images_and_latents_of_each_player_from_the_named_streams():
    thing = GAN(**SMALL)
    draw = Draw("study", 0)
    batch = next(thing.batches(draw))
    assert sorted(draw.streams) == ["latents", "order"]
    assert torch.equal(batch.tensors["images"], torch.from_numpy(mnist.load().floats(batch.index)))
    latents = Draw("study", 0)("latents")
    for name in ("latents", "latents_generator"):
        assert torch.equal(batch.tensors[name], latents.normal((16, 4)))
    assert all(tensor.is_contiguous() and tensor.dtype == torch.float32 for tensor in batch.tensors.values())


def test_draws_dont_depend_on_the_arm_or_level_but_on_the_block():
    one, other = take(GAN(**SMALL), 3), take(GAN(discriminator="minibatch", real_label=0.9, **SMALL), 3)
    for mine, its in zip(one, other, strict=True):
        assert np.array_equal(mine.index, its.index)
        assert all(torch.equal(mine.tensors[name], its.tensors[name]) for name in mine.tensors)
    elsewhere = take(GAN(**SMALL), 1, block=1)[0]
    assert not np.array_equal(one[0].index, elsewhere.index)
    assert not torch.equal(one[0].tensors["latents"], elsewhere.tensors["latents"])


def test_an_epoch_is_a_permutation_of_the_training_images():
    epoch = np.concatenate([batch.index for batch in take(GAN(**SMALL), 250)])
    assert sorted(epoch.tolist()) == mnist.load().train.tolist()


@pytest.mark.parametrize("settings", [{}, {"discriminator": "minibatch"}, {"generator_loss": "feature-matching"}])
def test_permuted_rows_give_the_same_losses_but_for_rounding(settings):
    thing = GAN(**SMALL, **settings)
    check_independent_rows(GAN)
    model = build(thing).double()
    (batch,) = take(thing)
    one = losses(thing, model, doubles(batch))
    other = losses(thing, model, doubles(permuted(batch, Draw("study", 0)(STREAM))))
    for name in one:
        assert one[name].item() == pytest.approx(other[name].item(), rel=1e3 * U)


def test_metrics_are_the_norms_of_both_players_gradients():
    thing = GAN(discriminator="minibatch", **SMALL)
    model = build(thing)
    (batch,) = take(thing)
    expected = {}
    for player in thing.players(model):
        player.optimiser.zero_grad()
        player.loss(model, batch, None)[0].backward()
        thing.after_backward(model, player)
        gradient = np.concatenate([p.grad.double().numpy().ravel() for p in player.parameters.values()])
        expected[f"grad_norm_{player.name}"] = math.sqrt(math.fsum(gradient**2))
    assert {name: float(value) for name, value in thing.metrics(None).items()} == pytest.approx(expected, rel=1e-12)
    assert min(expected.values()) > 0


def test_what_is_recorded_changes_no_bit_of_the_training():
    """Steps with and without the norms, evaluation and pictures in between."""

    class Unrecorded(GAN):
        after_backward = None

    ends = []
    for kind in (GAN, Unrecorded):
        thing = kind(discriminator="minibatch", **SMALL)
        model = build(thing)
        stepper = Stepper(thing, model)
        for batch in take(thing, 3):
            stepper.step(batch)
            if kind is GAN:
                thing.metrics(None)
                thing.look(model, lambda x: x)
                thing.evaluate(model, lambda x: x)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


class Given(nn.Module):
    """Stands in for a generator: the given images, whatever the latents."""

    def __init__(self, images):
        super().__init__()
        self.images = images

    def forward(self, latents):
        assert latents.shape == (len(self.images), 4)
        return self.images


def test_a_collapsed_generator_has_no_diversity_and_one_of_real_images_all():
    thing = GAN(**SMALL)
    model = build(thing)
    digits = mnist.load()
    real = torch.from_numpy(digits.floats(digits.held_out[np.linspace(0, 999, COMPARED).astype(int)]))
    model.generator = Given(real)
    assert thing.evaluate(model, lambda x: x) == {"diversity": 1.0, "coverage": 1.0}
    model.generator = Given(real[7:8].expand(COMPARED, -1))
    found = thing.evaluate(model, lambda x: x)
    assert found["diversity"] == 0
    assert found["coverage"] < 0.1


def test_samples_are_shown_beside_held_out_images_with_the_numbers():
    thing = GAN(**SMALL)
    model = build(thing)
    found = thing.look(model, lambda x: x)
    assert list(found) == ["real", "sample", "diversity", "coverage"]
    assert all(isinstance(found[name], Images) for name in ("real", "sample"))
    assert found["real"].values.shape == found["sample"].values.shape == (SHOWN, 1, 28, 28)
    digits = mnist.load()
    held_out = {image.tobytes() for image in digits.floats(digits.held_out)}
    assert all(image.reshape(-1).tobytes() in held_out for image in found["real"].values)
    assert {name: found[name] for name in ("diversity", "coverage")} == thing.evaluate(model, lambda x: x)
    again = GAN(**SMALL).look(build(GAN(**SMALL)), lambda x: x)
    assert np.array_equal(again["sample"].values, found["sample"].values)  # from the same latents


def test_it_learns():
    """Within 60 batches the discriminator is better than its start, 2 log 2, and the generator's images change."""
    thing = GAN(width=4, features=16, latent=8, batch_size=16, lr=2e-3)
    model = build(thing)
    before = thing.look(model, lambda x: x)["sample"].values
    stepper = Stepper(thing, model)
    batches = take(thing, 61)
    for batch in batches[:60]:
        stepper.step(batch)
    with torch.no_grad():
        assert losses(thing, model, batches[60])["discriminator"] < 2 * math.log(2)
    assert np.abs(thing.look(model, lambda x: x)["sample"].values - before).mean() > 0.05


def test_colour_images_of_another_size_pass():
    pytest.importorskip("skimage", reason="the video extra isn't installed")
    thing = GAN(data="photographs", side=16, discriminator="minibatch", **SMALL)
    model = build(thing)
    Stepper(thing, model).step(take(thing)[0])
    found = thing.look(model, lambda x: x)
    assert found["real"].values.shape == found["sample"].values.shape == (SHOWN, 3, 16, 16)


def test_prepare_gives_a_hash_of_the_images():
    assert GAN().prepare() == mnist.load().digest()


def test_a_batch_larger_than_the_training_set_is_refused():
    with pytest.raises(BadInput) as caught:
        GAN(batch_size=4001).prepare()
    assert str(caught.value) == "GAN.batch_size: is 4001, more than the 4000 training images\n    allowed: 2 to 4000"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 1}, "GAN.batch_size: is 1\n    allowed: a whole number, 2 or more"),
        ({"lr": 0}, "GAN.lr: is 0\n    allowed: a positive number"),
        ({"real_label": 1.1}, "GAN.real_label: is 1.1\n    allowed: above 0, up to 1"),
        ({"discriminator": "on"}, "GAN.discriminator: is 'on'\n    allowed: plain, minibatch"),
        (
            {"generator_loss": "feature_matching"},
            "GAN.generator_loss: is 'feature_matching'\n    did you mean 'feature-matching'?\n"
            "    allowed: non-saturating, feature-matching",
        ),
        ({"kernels": 0}, "GAN.kernels: is 0\n    allowed: a whole number, 1 or more"),
    ],
)
def test_a_bad_setting_is_refused(settings, message):
    with pytest.raises(BadInput) as caught:
        GAN(**settings)
    assert str(caught.value).startswith(message)
