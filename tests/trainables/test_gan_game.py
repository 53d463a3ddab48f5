"""What a probe of the curvature sees of the GAN, against a Jacobian that is made whole, in float64."""

import numpy as np
import pytest
import torch

from ablate.curvature.game import Side, game
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch
from trainables.gan import GAN

torch.set_num_threads(1)
TINY = {"width": 1, "features": 2, "latent": 2, "batch_size": 6, "kernels": 2, "kernel_size": 1}


@pytest.mark.parametrize("settings", [{"discriminator": "minibatch"}, {"generator_loss": "feature-matching"}])
def test_the_games_eigenvalues_are_those_of_the_whole_jacobian(settings):
    thing = GAN(**TINY, **settings)
    torch.manual_seed(0)
    model = thing.build().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2  # so that neither player's influence on the other is negligible
    drawn = next(thing.batches(Draw("study", 0)))
    batch = Batch(drawn.index, {name: tensor.double() for name, tensor in drawn.tensors.items()})
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    players = thing.players(model)
    everyone = [p for player in players for p in player.parameters.values()]

    rows = []
    for player in players:
        loss = player.loss(model, batch, None)[0]
        own = torch.autograd.grad(loss, list(player.parameters.values()), create_graph=True)
        for slope in torch.cat([gradient.flatten() for gradient in own]):
            row = torch.autograd.grad(slope, everyone, retain_graph=True, allow_unused=True, materialize_grads=True)
            rows.append(torch.cat([part.flatten() for part in row]).numpy())
    jacobian = np.stack(rows)
    split = sum(p.numel() for p in players[0].parameters.values())
    for across in (jacobian[:split, split:], jacobian[split:, :split]):
        assert np.linalg.norm(across) > 1e-3 * np.linalg.norm(jacobian)
    expected = np.linalg.eigvals(jacobian)

    sides = [
        Side(
            player.name,
            [names[id(p)] for p in player.parameters.values()],
            lambda twin, tensors, player=player: player.loss(twin, Batch(batch.index, tensors), None)[0],
        )
        for player in players
    ]
    found = game(model, sides, [dict(batch.tensors)], sizes=[6], tolerance=1e-8)
    assert found.dimension == len(jacobian)
    size = np.abs(expected).max()
    for root in found.roots:
        assert np.abs(expected - complex(root.real, root.imaginary)).min() <= 1e-6 * size
    assert max(root.real for root in found.roots) == pytest.approx(expected.real.max(), abs=1e-6 * size)
