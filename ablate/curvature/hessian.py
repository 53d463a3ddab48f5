"""Products of the Hessian with vectors: the gradient's graph is kept and differentiated again for every vector.

By Pearlmutter (1994), H v is the gradient of (gradient . v). Keeping the graph costs 1.5 to 2.3 gradients a product on
an autoencoder, a convnet and a ConvLSTM, building it anew 2.6 to 3.4 (``benchmarks/curvature.py``); forward mode fails
on several operations. ``torch.autograd.grad`` leaves ``.grad`` alone; ``backward(create_graph=True)`` would add to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ablate.curvature.objective import CurvatureError, Objective
from ablate.errors import Problem


class Hessian:
    """The Hessian of an objective as an operator on flat vectors (n,), symmetric up to rounding.

    Args:
        objective: what is differentiated.
        keep: hold the gradient's graph between products, of all parts together; None if there is one part only.
            Several parts are streamed: the graph of one at a time is in memory, built again for every product.

    Attributes:
        loss: the objective's value.
        gradient: its gradient, (n,).
        products: how many products were made.

    Raises:
        CurvatureError: the loss or its gradient is no number, or an operation has no second derivative.
    """

    def __init__(self, objective: Objective, keep: bool | None = None) -> None:
        self.objective = objective
        self.products = 0
        self._parameters = list(objective.parameters.values())
        self._kept: list[Tensor] | None = None
        keep = len(objective.parts) == 1 if keep is None else keep
        if keep:
            loss, gradients = self._gradients(range(len(objective.parts)), graph=True)
            self._kept = gradients
            self.loss, self.gradient = loss, _flat(gradients).detach()
        else:
            self.loss, self.gradient = 0.0, torch.zeros(self.dimension, dtype=objective.dtype, device=objective.device)
            for i in range(len(objective.parts)):
                loss, gradients = self._gradients([i], graph=False)
                self.loss += loss
                self.gradient += _flat(gradients)
        if not torch.isfinite(self.gradient).all():
            raise CurvatureError(Problem("probe", "the gradient on the probe set is not finite"))

    @property
    def dimension(self) -> int:
        """Rows and columns."""
        return self.objective.dimension

    def __matmul__(self, vector: Tensor) -> Tensor:
        """Return the product with a flat vector (n,), in the objective's precision.

        Raises:
            CurvatureError: naming the operation that has no second derivative, or a product that is not finite.
        """
        self.products += 1
        pieces = self.objective.split(vector.to(self.objective.dtype))
        if self._kept is not None:
            product = self._differentiated(self._kept, pieces, again=True)
        else:
            product = torch.zeros_like(self.gradient)
            for i in range(len(self.objective.parts)):
                product += self._differentiated(self._gradients([i], graph=True)[1], pieces, again=False)
        if not torch.isfinite(product).all():
            raise CurvatureError(Problem("probe", f"product {self.products} with the Hessian is not finite"))
        return product

    def gradient_at(self, offset: Tensor) -> Tensor:
        """Return the gradient (n,) at the parameters plus ``offset`` (n,)."""
        total = torch.zeros_like(self.gradient)
        with self._moved(offset):
            for i in range(len(self.objective.parts)):
                total += _flat(self._gradients([i], graph=False)[1])
        return total

    def product_at(self, offset: Tensor, vector: Tensor) -> Tensor:
        """Return the product (n,) with ``vector`` (n,) at the parameters plus ``offset`` (n,)."""
        total, pieces = torch.zeros_like(self.gradient), self.objective.split(vector.to(self.objective.dtype))
        with self._moved(offset):
            for i in range(len(self.objective.parts)):
                total += self._differentiated(self._gradients([i], graph=True)[1], pieces, again=False)
        return total

    @contextmanager
    def _moved(self, offset: Tensor) -> Iterator[None]:
        at = [p.data for p in self._parameters]
        try:
            for p, value, piece in zip(self._parameters, at, self.objective.split(offset), strict=True):
                p.data = value + piece  # not in place: that would count as a write to what the kept graph saved
            yield
        finally:
            for p, value in zip(self._parameters, at, strict=True):
                p.data = value

    def _gradients(self, parts: range | list[int], graph: bool) -> tuple[float, list[Tensor]]:
        with sdpa_kernel(SDPBackend.MATH):  # a fused kernel has no second derivative
            loss = sum((self.objective.weights[i] * self.objective.parts[i]() for i in parts), torch.zeros(()))
            if loss.ndim or not torch.isfinite(loss):
                found = f"the loss on the probe set is {loss.item():g}" if loss.ndim == 0 else "the loss is no scalar"
                raise CurvatureError(Problem("probe", found, "one finite number"))
            if not loss.requires_grad:
                raise CurvatureError(Problem("probe", "the loss depends on no parameter that requires a gradient"))
            gradients = torch.autograd.grad(
                loss, self._parameters, create_graph=graph, allow_unused=True, materialize_grads=True
            )
        return float(loss.detach()), list(gradients)

    def _differentiated(self, gradients: list[Tensor], pieces: list[Tensor], again: bool) -> Tensor:
        live = [(g, v) for g, v in zip(gradients, pieces, strict=True) if g.requires_grad]
        if not live:  # the loss is linear in every parameter
            return torch.zeros_like(self.gradient)
        try:
            with sdpa_kernel(SDPBackend.MATH):
                second = torch.autograd.grad(
                    [g for g, _ in live],
                    self._parameters,
                    [v for _, v in live],
                    retain_graph=again,
                    allow_unused=True,
                    materialize_grads=True,
                )
        except (RuntimeError, NotImplementedError) as error:
            raise CurvatureError(_no_second_derivative(error)) from None
        return _flat(list(second)).detach()


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


def _no_second_derivative(error: Exception) -> Problem:
    words = str(error).splitlines()[0]
    advice = (
        "Write the operation in terms of others that can be differentiated twice: a custom autograd.Function whose "
        "backward is differentiable, attention as products and a softmax, nn.LSTM off the cuDNN path."
    )
    return Problem("probe: second derivative", words, "operations with a second derivative", "", advice)
