"""Holds what a trainable's methods give against the protocol, so that a slip is named where it was made.

Without this, torch or Python would name its consequence: ``cannot unpack non-iterable NoneType object``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ablate.errors import BadInput, Problem
from ablate.trial.protocol import Carry, Player

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class TrainableError(BadInput):
    """The trainable broke its contract: message names batch, what it gave, what is allowed."""


def checked_hash(found: object) -> str:
    """Return what ``prepare()`` gave.

    Raises:
        TrainableError: if it is no text.
    """
    if isinstance(found, str):
        return found
    raise TrainableError(Problem("prepare()", f"returned {_a(found)}", "text: a hash of the data set"))


def checked_model(model: object, where: str = "build()") -> nn.Module:
    """Return what ``build()`` gave, or ``ctx.initialise`` was given.

    Raises:
        TrainableError: if it is no module.
    """
    if isinstance(model, nn.Module):
        return model
    raise TrainableError(Problem(where, f"found {_a(model)}", "a torch.nn.Module"))


def checked_batches(batches: object) -> Iterator[Any]:
    """Return what ``batches(draw)`` gave as an iterator.

    Raises:
        TrainableError: if it cannot be iterated over.
    """
    try:
        return iter(batches)  # type: ignore[call-overload,no-any-return]
    except TypeError:
        advice = "Write it as a generator: `yield Batch(...)` in a loop."
        raise TrainableError(
            Problem("batches()", f"returned {_a(batches)}", "an iterator of Batch", advice=advice)
        ) from None


def checked_players(players: object) -> list[Player]:
    """Return what ``players(model)`` gave.

    Raises:
        TrainableError: if it is no list of one or more players with names and parameters of their own.
    """
    allowed = "a list with one Player for each optimiser"
    if not isinstance(players, Sequence) or isinstance(players, str):
        raise TrainableError(Problem("players()", f"returned {_a(players)}", allowed))
    if not players:
        advice = "Return [Player(name, dict(model.named_parameters()), optimiser)]: without one nothing is trained."
        raise TrainableError(Problem("players()", "returned an empty list", allowed, advice=advice))
    for at, player in enumerate(players):
        where = f"players(), number {at + 1}"
        if not isinstance(player, Player):
            raise TrainableError(Problem(where, f"is {_a(player)}", "ablate.trial.protocol.Player"))
        if not isinstance(player.name, str) or not _NAME.fullmatch(player.name):
            allowed = "lower-case letters, digits and _, from a letter on: it names a column"
            raise TrainableError(Problem(where, f"is named {player.name!r}", allowed))
        if not isinstance(player.optimiser, torch.optim.Optimizer):
            found = f"player {player.name!r} has {_a(player.optimiser)} as its optimiser"
            raise TrainableError(Problem(where, found, "a torch.optim.Optimizer"))
    names = [player.name for player in players]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        advice = "Name each player after what it is: generator, discriminator."
        raise TrainableError(Problem("players()", f"two are named {twice[0]!r}", "a name each", advice=advice))
    return list(players)


def checked_loss(given: object, player: Player) -> tuple[Tensor, Carry]:
    """Return what a player's ``loss(model, batch, carry)`` gave: the loss and the next carry.

    Raises:
        TrainableError: if it is no pair of a scalar and a carry.
    """
    where = f"loss of player {player.name!r}"
    if not isinstance(given, tuple) or len(given) != 2:
        found = f"returned {len(given)} values" if isinstance(given, tuple) else f"returned {_a(given)}"
        advice = "`return loss, None` if nothing is carried to the next batch."
        raise TrainableError(Problem(where, found, "a pair (loss, carry)", advice=advice))
    return scalar(given[0], where), given[1]


def check_graph(loss: Tensor, player: Player) -> None:
    """Check that a loss can be differentiated.

    Raises:
        TrainableError: if nothing in it depends on a parameter.
    """
    if not loss.requires_grad:
        found, allowed = "has no gradient", "a loss that depends on the model's parameters"
        advice = "Was it made under torch.no_grad, detached, or from data alone?"
        raise TrainableError(Problem(f"loss of player {player.name!r}", found, allowed, advice=advice))


def scalar(loss: object, where: str | int) -> Tensor:
    """Return ``loss`` if it is one real number in a tensor.

    Args:
        loss: what was given.
        where: in words, or which batch; put into words only if they are needed.

    Raises:
        TrainableError: naming what it is.
    """
    if isinstance(loss, Tensor) and loss.numel() == 1 and not loss.is_complex():
        return loss
    advice = "Return the loss itself."
    if isinstance(loss, Tensor) and loss.numel() != 1:
        found, advice = f"shape {tuple(loss.shape)}", "Reduce it to one number: loss.mean() or loss.sum()."
    elif isinstance(loss, Tensor):
        found, advice = f"complex ({loss.dtype})", "Take a real number of it: loss.abs() or loss.real."
    else:
        found = _a(loss)
        if isinstance(loss, int | float):
            advice = "Return the tensor itself, not loss.item()."
    raise TrainableError(
        Problem(_in_words(where), f"the loss is {found}", "a tensor with one element, real", advice=advice)
    )


def numbers(given: object, where: str) -> dict[str, float]:
    """Return named held-out outcomes as floats.

    Raises:
        TrainableError: if it is no mapping of numbers.
    """
    if not isinstance(given, Mapping):
        raise TrainableError(Problem(where, f"returned {_a(given)}", "a dict of numbers"))
    found: dict[str, float] = {}
    for name, value in given.items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):  # RuntimeError: torch, of a tensor with more than one element
            what = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"{_a(value)}, {value!r:.60}"
            raise TrainableError(Problem(where, f"{name!r} is {what}", "one real number")) from None
    return found


def named(metrics: object, batch_index: int) -> Mapping[str, Any]:
    """Return a batch's metrics.

    Raises:
        TrainableError: if they are no mapping, or hold a tensor of more than one element.
    """
    if type(metrics) is not dict and not isinstance(metrics, Mapping):
        raise TrainableError(Problem(_in_words(batch_index), f"metrics are {_a(metrics)}", "a dict of numbers"))
    for name, value in metrics.items():
        if type(value) is not float and isinstance(value, Tensor) and (value.numel() != 1 or value.is_complex()):
            found = f"metric {name!r} is a tensor of shape {tuple(value.shape)}, {value.dtype}"
            raise TrainableError(Problem(_in_words(batch_index), found, "one real number"))
    return metrics


def all_floats(metrics: object) -> bool:
    """Say whether metrics are a plain dict of Python's own floats, which need no look at each by ``named``."""
    if type(metrics) is not dict:
        return False
    for value in metrics.values():  # noqa: SIM110 - a generator for ``all`` takes longer to make
        if type(value) is not float:
            return False
    return True


def _in_words(where: str | int) -> str:
    return where if isinstance(where, str) else f"batch {where}"


def _a(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
