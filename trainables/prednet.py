"""PredNet on video, trained by truncated back-propagation through time as the Chainer scripts do it.

Model: ``prednet_model`` (Lotter et al. 2016, Chainer family). The study this project starts from (Pietrowski et al.
2021, arXiv 2109.01451, retracted by its authors) trained it on a CPU and on GPUs: 160x120 pixels, windows of 20
frames, batch size 1, Adam 1e-3, state carried over windows; these are the defaults. For a window of T frames

    loss = 1/T sum_t mean over pixels of (P_0(t) - x(t+1))^2

The scripts back-propagate the sum over t. Here the mean per frame is both optimised and recorded; Adam's step is
unchanged by a constant factor but for its epsilon, which is therefore divided by T, so the weights move as the sum
would move them. The state is carried across a cut between shots, as the scripts carry it along a list of frames.

Truncation. ``unchain`` is Chainer's ``loss.unchain_backward()``: it cuts everything the loss depends on. P_l of the
window's last frame (l >= 1) is used only by the next window, so the loss doesn't depend on it and it stays attached,
through one relu and one convolution, to the weights of ConvP_l. Its value is that of the old weights. In torch:
P_l = relu(old + z - detached(z)), z = ConvP_l(R_l) with today's weights: the value is old exactly, since z - z is 0,
and the gradient of a convolution by its weights doesn't contain them. ``detach`` cuts P_l too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Place, Player, Shown
from trainables.film import Film
from trainables.film_strip import film_strip, frames_looked_at
from trainables.prednet_model import PredNetModel, State
from trainables.settings import at_least, channel_list, halvable, one_of, positive
from trainables.sources import Source
from trainables.targets import INPUTS, target_maker

TRUNCATIONS = ("unchain", "detach")


class PredNet:
    """Structured trainable; a batch is a window of ``window`` frames to predict, in ``batch_size`` parallel streams.

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
        window: frames between two updates.
        batch_size: streams trained on at once, each from a start of its own.
        lr: learning rate of Adam.
        input: copied, or reused-buffer for the fault described in ``targets``.
        truncation: unchain or detach.

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
        height: int = 120,
        channels: str = "3,48,96,192",
        window: int = 20,
        batch_size: int = 1,
        lr: float = 1e-3,
        input: Literal["copied", "reused-buffer"] = "copied",
        truncation: Literal["unchain", "detach"] = "unchain",
    ) -> None:
        self.source = Source("PredNet", source, path, speed, cuts, frames_per_file)
        self.channels = channel_list("PredNet.channels", channels)
        self.width = halvable("PredNet.width", width, len(self.channels))
        self.height = halvable("PredNet.height", height, len(self.channels))
        self.window = at_least("PredNet.window", window, 1)
        self.batch_size = at_least("PredNet.batch_size", batch_size, 1)
        self.lr = positive("PredNet.lr", lr)
        self.input = one_of("PredNet.input", input, INPUTS)
        self.truncation = one_of("PredNet.truncation", truncation, TRUNCATIONS)

    def film(self) -> Film:
        """Return the frames, from the cache if they were decoded before.

        Raises:
            BadInput: if a package or file is missing, damaged, or too small.
        """
        return self.source.film(self.width, self.height, self.window)

    def prepare(self) -> str:
        """Decode and cache the frames, check that windows fit into shots, and return the film's hash."""
        film = self.film()
        film.usable(self.window, held_out=False)
        film.usable(self.window, held_out=True)
        return film.digest()

    def build(self) -> nn.Module:
        """Make the model."""
        return PredNetModel(self.channels, self.height, self.width)

    def batches(self, draw: Draw) -> Iterator[Batch]:
        """Yield batches of ``frames``, float32 (window + 1, B, 3, H, W); the index names the film's frames in order."""
        film, start = self.film(), draw("start")
        streams = [film.training_windows(self.window, start) for _ in range(self.batch_size)]
        while True:
            index = np.stack([next(stream) for stream in streams], axis=1)
            yield Batch(index.reshape(-1), {"frames": torch.from_numpy(film.pictures(index))})

    def players(self, model: nn.Module) -> list[Player]:
        """Return the one player, stepped by Adam; why epsilon is scaled, the module's header says."""
        parameters = dict(model.named_parameters())
        optimiser = torch.optim.Adam(parameters.values(), lr=self.lr, eps=1e-8 / self.window)
        return [Player("prednet", parameters, optimiser)]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """Return the mean squared error per frame of the window, and the state after its last frame.

        The carry holds, per layer, ``cell``, ``hidden`` and ``pre`` (ConvP's output), and the last frame's loss.
        """
        frames = batch.tensors["frames"].unbind(0)
        make_target = target_maker(self.input)
        state = self._resume(model, carry) if carry else model.start(frames[0].shape[0], frames[0])
        losses, pre = [], []
        for shown, following in pairwise(frames):
            state, pre = model(shown, state)
            losses.append(functional.mse_loss(state.prediction[0], make_target(following)))
        layers = {
            f"layer{number}": {"cell": cell.detach(), "hidden": hidden.detach(), "pre": z.detach()}
            for number, (cell, hidden, z) in enumerate(zip(state.cell, state.hidden, pre, strict=True))
        }
        return torch.stack(losses).mean(), {**layers, "last_frame_loss": losses[-1].detach()}

    def metrics(self, carry: Carry) -> dict[str, float | Tensor]:
        """Return the last frame's loss, which the original scripts logged."""
        return {"last_frame_loss": carry["last_frame_loss"]}

    def evaluate(self, model: nn.Module, place: Place) -> dict[str, float]:
        """Return the mean loss per frame over shots never trained on, each from the zero state."""
        film, losses = self.film(), []
        with torch.no_grad():
            for _, windows in film.held_out_windows(self.window):
                carry = None
                for index in windows:
                    frames = place(torch.from_numpy(film.pictures(index[:, None])))
                    loss, carry = self.loss(model, Batch(index, {"frames": frames}), carry)
                    losses.append(float(loss))
        return {"held_out_loss": float(np.mean(losses))}

    def look(self, model: nn.Module, place: Place) -> dict[str, Shown]:
        """Return the target, prediction and error of a few frames of the first held-out shot, from the zero state."""
        film = self.film()
        _, windows = next(film.held_out_windows(self.window))
        shown = torch.from_numpy(film.pictures(windows[0][:, None]))
        chosen = frames_looked_at(self.window)
        predictions, state = [], model.start(1, place(shown[0]))
        for frame in place(shown).unbind(0)[:-1]:
            state, _ = model(frame, state)
            predictions.append(state.prediction[0])
        prediction = torch.cat(predictions)[chosen].float().cpu()
        return film_strip(shown[1:, 0][chosen], prediction)

    def _resume(self, model: nn.Module, carry: Carry) -> State:
        layers = [carry[f"layer{number}"] for number in range(len(self.channels))]
        prediction = []
        for number, layer in enumerate(layers):
            pre = layer["pre"]
            if number and self.truncation == "unchain" and torch.is_grad_enabled():
                z = model.conv_p[number](layer["hidden"])
                pre = pre + (z - z.detach())
            prediction.append(model.predict(number, pre))
        return State(prediction, [layer["cell"] for layer in layers], [layer["hidden"] for layer in layers])
