"""Trainables of a few milliseconds for the tests of the loop: right ones, and ones that break the contract."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from ablate.errors import BadInput, Problem
from ablate.trial.draw import Draw
from ablate.trial.protocol import Batch, Carry, Images, Maps, Player


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Line:
    """A linear model on drawn data; its carry counts batches."""

    def __init__(self, *, lr: float = 0.1, bad_at: int = -1, how: str = "") -> None:
        self.lr, self.bad_at, self.how = lr, bad_at, how

    def prepare(self) -> str:
        return "drawn"

    def build(self) -> nn.Module:
        return nn.Linear(3, 1)

    def batches(self, draw: Draw) -> Iterator[Batch]:
        for k in range(10**6):
            if self.how == "ends" and k == self.bad_at:
                return
            yield Batch(np.array([k]), {"x": draw("x").normal((5, 3)), "y": draw("y").uniform((5, 1))})

    def players(self, model: nn.Module) -> list[Player]:
        return [Player("line", dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=self.lr))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Any, Carry]:
        count = 0 if carry is None else int(carry["count"]) + 1
        loss = (model(batch.tensors["x"]) - batch.tensors["y"]).square().mean()
        if count == self.bad_at:
            if self.how == "raise":
                raise ValueError("the user's own mistake")
            if self.how == "exit":
                sys.exit(0)
            if self.how == "unprintable":
                raise Unprintable
            if self.how == "close":
                sys.stdout.close()
            if self.how == "nan":
                loss = loss * float("nan")
            if self.how == "vector":
                loss = torch.ones(2, requires_grad=True) * loss
            if self.how == "float":
                return 1.0, carry
            if self.how == "hang":
                time.sleep(1000)
            if self.how == "die":
                os.kill(os.getpid(), 9)
            if self.how == "draw":
                loss = loss + 0 * torch.rand(())
        return loss, {"count": torch.tensor(count)}

    def metrics(self, carry: Carry) -> dict[str, Any]:
        return {"count": carry["count"]}

    def evaluate(self, model: nn.Module, place: Any) -> dict[str, float]:
        return {"weight": float(next(model.parameters()).sum())}


class Slip(Line):
    """Slips of every kind; ``how`` says which method gives what it must not."""

    def __init__(self, *, how: str = "") -> None:
        super().__init__()
        self.slip = how

    def _or(self, method: str, right: Any, value: Any) -> Any:
        return value if self.slip.startswith(method) else right

    def prepare(self) -> Any:
        return self._or("prepare", super().prepare(), None)

    def build(self) -> Any:
        return self._or("build", super().build(), [1.0])

    def batches(self, draw: Draw) -> Any:
        return self._or("batches", super().batches(draw), None)

    def players(self, model: nn.Module) -> Any:
        right = super().players(model)
        wrong = {
            "players none": None,
            "players empty": [],
            "players model": [model],
            "players named": [Player("The Line", right[0].parameters, right[0].optimiser)],
            "players optimiser": [Player("line", right[0].parameters, None)],  # type: ignore[arg-type]
            "players twice": [*right, *right],
        }
        return wrong.get(self.slip, right)

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> Any:
        loss, carry = super().loss(model, batch, carry)
        wrong = {
            "loss nothing": None,
            "loss alone": loss,
            "loss three": (loss, carry, 1),
            "loss none": (None, carry),
            "loss text": ("0.5", carry),
            "loss number": (loss.item(), carry),
            "loss vector": (torch.stack([loss, loss]), carry),
            "loss complex": (torch.complex(loss, loss), carry),
            "loss detached": (loss.detach(), carry),
        }
        return wrong.get(self.slip, (loss, carry))

    def metrics(self, carry: Carry) -> Any:
        wrong = {"metrics none": None, "metrics vector": {"size": torch.ones(2)}}
        return wrong.get(self.slip, super().metrics(carry))

    def evaluate(self, model: nn.Module, place: Any) -> Any:
        wrong = {"evaluate none": None, "evaluate text": {"accuracy": "high"}, "evaluate pair": {"x": torch.ones(2)}}
        return wrong.get(self.slip, super().evaluate(model, place))


class Duel(Line):
    """Two players with a model each, stepped in order, and both hooks."""

    def build(self) -> nn.Module:
        return nn.ModuleDict({"first": nn.Linear(3, 1), "second": nn.Linear(3, 1)})

    def players(self, model: Any) -> list[Player]:
        return [
            Player(
                name,
                dict(model[name].named_parameters()),
                torch.optim.SGD(model[name].parameters(), lr=self.lr),
                loss=lambda model, batch, carry, name=name: super(Duel, self).loss(model[name], batch, carry),
            )
            for name in ("first", "second")
        ]

    def after_backward(self, model: Any, player: Player) -> None:
        for parameter in player.parameters.values():
            assert parameter.grad is not None
            parameter.grad.zero_()

    def after_step(self, model: Any, player: Player) -> None:
        with torch.no_grad():
            for parameter in player.parameters.values():
                parameter.add_(1.0)


def function_line(config: dict[str, Any], ctx: Any) -> dict[str, float]:
    """The same model as ``Line``, with a loop of its own."""
    model = ctx.initialise(nn.Linear(3, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=config.get("lr", 0.1))
    for k in range(ctx.batches):
        data = ctx.data([k], x=ctx.draw("x").normal((5, 3)), y=ctx.draw("y").uniform((5, 1)))
        optimiser.zero_grad(set_to_none=True)
        loss = (model(data["x"]) - data["y"]).square().mean()
        loss.backward()
        optimiser.step()
        ctx.batch(loss, {"count": k})
    return {"weight": next(model.parameters()).sum().item()}


def function_compiled_line(config: dict[str, Any], ctx: Any) -> None:
    """``function_line`` with its loss function handed to the arm to compile."""
    model = ctx.initialise(nn.Linear(3, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    compute = ctx.compile(lambda x, y: (model(x) - y).square().mean())
    for k in range(ctx.batches):
        data = ctx.data([k], x=ctx.draw("x").normal((5, 3)), y=ctx.draw("y").uniform((5, 1)))
        optimiser.zero_grad(set_to_none=True)
        loss = compute(data["x"], data["y"])
        loss.backward()
        optimiser.step()
        ctx.batch(loss)


def function_nan_then_raise(config: dict[str, Any], ctx: Any) -> None:
    """Its second loss is no number; where that is read late, its third batch raises first."""
    ctx.batch(torch.ones(()))
    ctx.batch(torch.full((), float("nan")))
    raise ValueError("comes after the loss that was no number")


def function_too_few(config: dict[str, Any], ctx: Any) -> None:
    ctx.batch(torch.ones(()))


def function_too_many(config: dict[str, Any], ctx: Any) -> None:
    for _ in range(ctx.batches + 1):
        ctx.batch(torch.ones(()))


def function_data_twice(config: dict[str, Any], ctx: Any) -> None:
    ctx.data([0])
    ctx.data([0])


def function_returns_text(config: dict[str, Any], ctx: Any) -> str:
    for _ in range(ctx.batches):
        ctx.batch(torch.ones(()))
    return "done"


def function_no_model(config: dict[str, Any], ctx: Any) -> None:
    ctx.initialise([1.0])


def function_slip(config: dict[str, Any], ctx: Any) -> Any:
    """Gives ``ctx.batch`` what is no loss, or returns what is no outcome."""
    losses = {"none": None, "text": "0.5", "complex": torch.ones((), dtype=torch.complex64), "vector": torch.ones(2)}
    for _ in range(ctx.batches):
        ctx.batch(losses.get(config["how"], torch.ones(())))
    return {"accuracy": [0.5]}


def function_alias(config: dict[str, Any], ctx: Any) -> None:
    """Overwrites a NumPy buffer between forward and backward."""
    weight = nn.Parameter(torch.ones(4))
    buffer = np.ones(4, dtype=np.float32)
    for k in range(ctx.batches):
        buffer[:] = k
        loss = (weight * torch.from_numpy(buffer)).sum()
        buffer[:] = -1
        loss.backward()
        ctx.batch(loss)


def function_late_backward(config: dict[str, Any], ctx: Any) -> None:
    """Runs backward after the batch it belongs to was recorded, on a buffer that was overwritten."""
    weight = nn.Parameter(torch.ones(4))
    buffer = np.ones(4, dtype=np.float32)
    late = None
    for _ in range(ctx.batches):
        loss = (weight * torch.from_numpy(buffer)).sum()
        if late is None:
            late = loss
        ctx.batch(loss.detach())
    buffer[:] = -1
    late.backward()


class BadData(Line):
    """Its data are missing."""

    def prepare(self) -> str:
        raise BadInput(Problem("digits.npz", "is missing", advice="Fetch it."))


class Careful(Line):
    """Uses everything a checkpoint must hold: momentum, a carry, its own count, batch statistics, a global draw."""

    def __init__(self, *, die_at: int = -1) -> None:
        super().__init__()
        self.die_at = die_at
        self.steps = 0

    def build(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 1))

    def players(self, model: nn.Module) -> list[Player]:
        return [Player("all", dict(model.named_parameters()), torch.optim.Adam(model.parameters(), lr=0.05))]

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Any, Carry]:
        if self.steps == self.die_at and "alive" not in os.environ:
            raise ValueError("broken off")
        past = torch.zeros(()) if carry is None else carry["mean"]
        loss = (model(batch.tensors["x"]) - batch.tensors["y"]).square().mean() + 0.1 * past
        return loss, {"mean": 0.5 * past + loss.detach(), "list": [past]}

    def after_step(self, model: nn.Module, player: Player) -> None:
        self.steps += 1
        for group in player.optimiser.param_groups:
            group["lr"] = 0.05 / (1 + self.steps)

    def metrics(self, carry: Carry) -> dict[str, Any]:
        return {"mean": carry["mean"]}

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]


def function_careful(config: dict[str, Any], ctx: Any) -> None:
    """The same as a function, which saves through ``ctx``."""
    model = ctx.initialise(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1)))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    if saved := ctx.resume():
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
    for k in range(ctx.first_batch, ctx.batches):
        if k == config["die_at"] and "alive" not in os.environ:
            raise ValueError("broken off")
        data = ctx.data([k], x=ctx.draw("x").normal((5, 3)), y=ctx.draw("y").uniform((5, 1)))
        optimiser.zero_grad(set_to_none=True)
        loss = (model(data["x"]) - data["y"]).square().mean()
        loss.backward()
        optimiser.step()
        ctx.batch(loss)
        ctx.checkpoint(lambda: {"model": model.state_dict(), "optimiser": optimiser.state_dict()})


class RandomData(Line):
    """Draws its data from global generators, as no trainable should."""

    def batches(self, draw: Draw) -> Iterator[Batch]:
        while True:
            y = torch.from_numpy(np.random.rand(5, 1).astype(np.float32))
            yield Batch(np.array([0]), {"x": torch.rand(5, 3), "y": y})


def function_random(config: dict[str, Any], ctx: Any) -> None:
    """Draws from torch's global generator after its weights were set."""
    model = ctx.initialise(nn.Linear(3, 1))
    for _ in range(ctx.batches):
        ctx.batch(model(torch.rand(5, 3)).square().mean())


class Shown(Line):
    """Shows what it does, in a way that would disturb the training if nothing were put back."""

    def __init__(self, *, lr: float = 0.1, show: str = "picture", die_at: int = -1) -> None:
        super().__init__(lr=lr)
        self.show, self.die_at = show, die_at

    def build(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 1))

    def players(self, model: nn.Module) -> list[Player]:
        return [Player("all", dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=self.lr))]

    def batches(self, draw: Draw) -> Iterator[Batch]:
        self.draw = draw
        yield from super().batches(draw)

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Any, Carry]:
        if self.die_at >= 0 and int(batch.index[0]) == self.die_at and "alive" not in os.environ:
            raise ValueError("broken off")
        return super().loss(model, batch, carry)

    def look(self, model: Any, place: Any) -> Any:
        x = place(torch.linspace(0, 1, 12).reshape(4, 3))
        y = model(x)  # BatchNorm's statistics move, dropout draws
        torch.rand(7)
        np.random.rand()
        self.draw("x").normal((3,))
        self.draw("another").normal((3,))
        model.eval()
        picture = y.sigmoid().reshape(4, 1, 1, 1).expand(4, 1, 3, 3)
        found = {
            "picture": {"given": Images(np.zeros((4, 3, 3, 3), np.uint8)), "picture": Images(picture)},
            "numbers": {"answer": y, "total": y.sum(), "errors": Maps(picture)},
            "name": {"A-B": y},
            "text": {"words": "hello"},
            "shape": {"flat": Images(y)},
            "channels": {"flat": Maps(torch.zeros(1, 3, 2, 2))},
            "type": {"whole": Images(torch.zeros(1, 1, 2, 2, dtype=torch.int64))},
            "list": [y],
            "large": {"huge": np.zeros((5000, 1000)), "small": y},
        }
        if self.show == "train":
            next(model.parameters()).add_(1.0)
        return found.get(self.show, {})


def function_shown(config: dict[str, Any], ctx: Any) -> None:
    """The same as a function."""
    model = ctx.initialise(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 1)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for k in range(ctx.batches):
        data = ctx.data([k], x=ctx.draw("x").normal((5, 3)))
        optimiser.zero_grad(set_to_none=True)
        loss = model(data["x"]).square().mean()
        loss.backward()
        optimiser.step()
        ctx.artifact("picture", lambda: Images(model(torch.ones(4, 3)).sigmoid().reshape(4, 1, 1, 1)))
        ctx.artifact("batch", k)
        if config.get("twice"):
            ctx.artifact("batch", k)
        ctx.batch(loss)


def function_overflow(config: dict[str, Any], ctx: Any) -> None:
    """A weight becomes infinite, which its loss does not show."""
    model = ctx.initialise(nn.Linear(3, 1))
    for _ in range(ctx.batches):
        with torch.no_grad():
            model.weight[0, 0] = float("inf")
        ctx.batch(model.bias.square().mean())


def function_without_a_model(config: dict[str, Any], ctx: Any) -> None:
    """Its parameters are its own affair."""
    for _ in range(ctx.batches):
        ctx.batch(torch.ones(()))


class Loud(Line):
    """Prints what looks like an answer, more than a pipe holds, and half a line; leaves a thread running."""

    def build(self) -> nn.Module:
        print({"done": 1}, '{"prepared": {}}', sep="\n")
        print("x" * 200_000, file=sys.stderr)
        print("half a line", end="", flush=True)
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return super().build()
