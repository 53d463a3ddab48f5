"""PredNet on video, trained as the authors' Keras code does it (coxlab/prednet, ``kitti_train.py``).

Model: ``prednet_keras_model`` (Lotter et al. 2016, arXiv 1605.08104, Keras family). A batch is ``batch_size`` sequences
of nt frames from random places, each from the zero state; nothing is carried. With E_l(t) the error of layer l

    loss = mean over sequences of sum_t w_t sum_l v_l mean(E_l(t)),    w_0 = 0, w_t = 1/(nt - 1)

v = 1, 0, 0, 0 (L_0) or 1, .1, .1, .1 (L_all); E holds both signs, so mean(E_0) is half the mean absolute error. The
defaults are theirs: 160x128 pixels, nt 10, batches of 4, and Adam at 1e-3, then at 1e-4 from epoch 75 of 150 on, where
an epoch is 500 sequences, so 125 batches. Keras adds Adam's epsilon before the second moment's bias is corrected and
torch after; it is scaled before every step so that both mean the same.

Sequences start at every frame of a shot that leaves room, in a fresh random order when all were shown. The original
draws the order too, and leaves out the very last start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from ablate.errors import BadInput, Problem
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Place, Player, Shown
from trainables.film import Film
from trainables.film_strip import film_strip, frames_looked_at
from trainables.prednet_keras_model import PredNetKerasModel
from trainables.settings import at_least, channel_list, halvable, one_of, positive
from trainables.sources import Source

UPPER_WEIGHT = {"L_0": 0.0, "L_all": 0.1}
BETA2 = 0.999
EPSILON = 1e-8


class PredNetKeras:
    """Structured trainable; a batch is ``batch_size`` sequences of ``nt`` frames.

    Args:
        source: clips (real footage), photographs (a crop moving over real texture), folder (videos of your own), kitti
            (as prepared for PredNet).
        path: of the folder; folder and kitti only.
        speed: pixels a frame that the crop moves, also below 1; photographs only.
        cuts: none, or detect to split each video into shots; folder only.
        frames_per_file: how many frames are read of each video, 0 for all; folder only.
        width: of a frame in pixels.
        height: of a frame in pixels.
        channels: channels of each layer, bottom first, separated by commas.
        nt: frames of a sequence.
        batch_size: sequences in a batch.
        loss_weights: L_0, or L_all for a tenth of the upper layers' errors besides.
        lr: learning rate of Adam.
        late_lr: learning rate from batch ``late_from`` on.
        late_from: 75 epochs of 125 batches.

    Raises:
        BadInput: if a setting is out of range.
    """

    def __init__(
        self,
        *,
        source: Literal["clips", "photographs", "folder", "kitti"] = "clips",
        path: str = "",
        speed: float = 1.0,
        cuts: Literal["none", "detect"] = "none",
        frames_per_file: int = 0,
        width: int = 160,
        height: int = 128,
        channels: str = "3,48,96,192",
        nt: int = 10,
        batch_size: int = 4,
        loss_weights: Literal["L_0", "L_all"] = "L_0",
        lr: float = 1e-3,
        late_lr: float = 1e-4,
        late_from: int = 9375,
    ) -> None:
        self.source = Source("PredNetKeras", source, path, speed, cuts, frames_per_file)
        self.channels = channel_list("PredNetKeras.channels", channels)
        self.width = halvable("PredNetKeras.width", width, len(self.channels))
        self.height = halvable("PredNetKeras.height", height, len(self.channels))
        self.nt = at_least("PredNetKeras.nt", nt, 2)
        self.batch_size = at_least("PredNetKeras.batch_size", batch_size, 1)
        self.upper_weight = UPPER_WEIGHT[one_of("PredNetKeras.loss_weights", loss_weights, UPPER_WEIGHT)]
        self.lr = positive("PredNetKeras.lr", lr)
        self.late_lr = positive("PredNetKeras.late_lr", late_lr)
        self.late_from = at_least("PredNetKeras.late_from", late_from, 0)

    def film(self) -> Film:
        """Return the frames, from the cache if they were decoded before.

        Raises:
            BadInput: if a package or file is missing, damaged, too small or too short.
        """
        return self.source.film(self.width, self.height, self.nt - 1)

    def prepare(self) -> str:
        """Decode and cache the frames, check that sequences fit into shots, and return the film's hash."""
        film = self.film()
        film.usable(self.nt - 1, held_out=True)
        if (starts := len(film.starts(self.nt - 1))) < self.batch_size:
            found = f"is {self.batch_size}, more than the {starts} sequences there are"
            raise BadInput(Problem("PredNetKeras.batch_size", found, f"1 to {starts}"))
        return film.digest()

    def build(self) -> nn.Module:
        """Make the model."""
        return PredNetKerasModel(self.channels, self.height, self.width)

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield batches of ``frames``, float32 (nt, B, 3, H, W); the index names the film's frames, time first."""
        film, order = self.film(), draw("order")
        starts = film.starts(self.nt - 1)
        while True:
            shuffled = starts[order.permutation(len(starts))]
            for first in range(0, len(starts) - self.batch_size + 1, self.batch_size):
                index = shuffled[first : first + self.batch_size] + np.arange(self.nt)[:, None]
                yield Batch(index.reshape(-1), {"frames": torch.from_numpy(film.pictures(index))})

    def players(self, model: nn.Module) -> list[Player]:
        """Return the one player, stepped by Adam."""
        parameters = dict(model.named_parameters())
        player = Player("prednet", parameters, torch.optim.Adam(parameters.values(), betas=(0.9, BETA2)))
        self._schedule(player, 0)
        return [player]

    def after_step(self, model: nn.Module, player: Player) -> None:
        """Set the learning rate and epsilon of the next step; Adam's own count of steps says which that is."""
        self._schedule(player, int(next(iter(player.optimiser.state.values()))["step"]))

    def _schedule(self, player: Player, steps: int) -> None:
        for group in player.optimiser.param_groups:
            group["lr"] = self.lr if steps < self.late_from else self.late_lr
            group["eps"] = EPSILON / math.sqrt(1 - BETA2 ** (steps + 1))

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return the weighted mean error of the sequences; the carry holds only the prediction's squared error."""
        frames = batch.tensors["frames"].unbind(0)
        state = model.start(frames[0].shape[0], frames[0])
        losses, squares = [], []
        for t, frame in enumerate(frames):
            state, prediction = model(frame, state)
            if t:
                means = [error.mean() for error in (state.error if self.upper_weight else state.error[:1])]
                losses.append(means[0] + self.upper_weight * sum(means[1:]))
                squares.append((prediction.detach() - frame).square().mean())
        return torch.stack(losses).mean(), {"pixel_mse": torch.stack(squares).mean()}

    def metrics(self, carry: Carry) -> dict[str, float | Tensor]:
        """Return the mean squared error of the predicted frames, which L_0 and L_all can be compared by."""
        return dict(carry)

    def evaluate(self, model: nn.Module, place: Place) -> dict[str, float]:
        """Return mean loss and squared error over sequences never trained on that share no predicted frame."""
        film = self.film()
        losses, squares = [], []
        with torch.no_grad():
            for _, windows in film.held_out_windows(self.nt - 1):
                for index in windows:
                    frames = place(torch.from_numpy(film.pictures(index[:, None])))
                    loss, carry = self.loss(model, Batch(index, {"frames": frames}), None)
                    losses.append(float(loss))
                    squares.append(float(carry["pixel_mse"]))
        return {"held_out_loss": float(np.mean(losses)), "held_out_mse": float(np.mean(squares))}

    def look(self, model: nn.Module, place: Place) -> dict[str, Shown]:
        """Return the target, prediction and error of a few frames of the first held-out shot, from the zero state."""
        film = self.film()
        _, windows = next(film.held_out_windows(self.nt - 1))
        shown = torch.from_numpy(film.pictures(windows[0][:, None]))
        chosen = frames_looked_at(self.nt - 1)
        predictions, state = [], model.start(1, place(shown[0]))
        for frame in place(shown).unbind(0):
            state, prediction = model(frame, state)
            predictions.append(prediction)
        prediction = torch.cat(predictions[1:])[chosen].float().cpu()
        return film_strip(shown[1:, 0][chosen], prediction)
