"""Monte Carlo arithmetic: what rounding alone can do to a step, found by rounding at random.

A float64 run in which every floating result of every operation, forward and backward, gets random noise of the size
that correct arithmetic of a coarser precision could make. Runs with several seeds show how far from float64 a right
program can end, however ill-conditioned it is. Parker, Monte Carlo Arithmetic (UCLA CSD-970002, 1997); Denis, de
Oliveira Castro, Petit, Verificarlo (ARITH 2016, arXiv 1509.01347).

**Size of the noise**, uniform in plus or minus

- u |x| for a sum, difference, product, quotient or square root x; 2 u |x| for any other function, whose kernels are
  good to one unit in the last place. A single number that is exact in the precision (a step count) is left alone:
  those operations round it correctly.
- for x = sum of n terms x_i: the partial sums s_k of any order have errors d_k s_k, |d_k| <= u. With terms of random
  sign s_k grows to sqrt(k / n) ||x_i||, so that sqrt(sum s_k^2) = sqrt(n / 2) ||x_i||; with terms of one sign to
  (k / n) |x|, so sqrt(n / 3) |x|. Both are added. The norm ||x_i|| is found without the terms: of a linear operation
  f it is sqrt(f(x^2)), of a bilinear one sqrt(f(x^2, y^2)). So what cancels to 0 keeps its noise: the gradient of a
  bias in front of batch normalisation. Sums are carried in float32 at least (as oneDNN and cuDNN carry those of
  bfloat16 and TF32), but the factors of a product are rounded to the precision first: sqrt(2) u ||x_i||.
- fused operations with differences inside (normalisations, softmax, their gradients) are run as their parts, by
  torch's own decompositions.
- linear algebra: the inputs are perturbed by u sqrt(n) of their root mean square, as for a backward stable algorithm.

**Errors that repeat.** Constants in the program (``h / 1.05``) are rounded too, each to one value for the whole run.
And a recurrent chain near a fixed point makes the same error at every step, so that T of them add up to T, not sqrt(T):
with an odd seed an operation gets the same noise whenever it recurs with the same shape, with an even one fresh noise.

Where a derivative jumps, numbers near the jump land on a random side of it: see ``kinks``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ablate.audit.kinks import with_kinks
from ablate.audit.norms import rms
from ablate.audit.operation import EXACT, MATMULS, computed, draws, name, tensors, terms
from ablate.audit.plain_attention import PlainAttention
from ablate.audit.roundoff import FLOAT32

COMPARISONS = frozenset(("gt", "ge", "lt", "le", "eq", "ne"))

ROUNDED_ONCE = frozenset(("add", "sub", "rsub", "mul", "div", "sqrt", "reciprocal", "addcmul", "addcdiv", "square"))

BILINEAR = frozenset(MATMULS) | {"addr", "convolution", "_convolution", "convolution_backward"}

LINEAR = frozenset(
    """
    sum mean cumsum nansum index_add scatter_add index_put _index_put_impl _unsafe_index_put embedding_dense_backward
    col2im unfold_backward avg_pool2d avg_pool3d avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d
    _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward upsample_nearest1d_backward
    upsample_nearest2d_backward upsample_nearest3d_backward upsample_bilinear2d upsample_bilinear2d_backward
    upsample_linear1d upsample_linear1d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward
    reflection_pad1d_backward reflection_pad2d_backward replication_pad1d_backward replication_pad2d_backward trace
    """.split()  # noqa: SIM905 a table is easier to read in words
)
_AVERAGES = frozenset(("mean", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"))

FUSED = frozenset(
    """
    native_batch_norm native_batch_norm_backward _native_batch_norm_legit native_layer_norm
    native_layer_norm_backward native_group_norm native_group_norm_backward _softmax _log_softmax
    _softmax_backward_data _log_softmax_backward_data tanh_backward sigmoid_backward gelu_backward silu_backward
    softplus_backward elu_backward mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss
    huber_loss_backward binary_cross_entropy binary_cross_entropy_backward var std var_mean std_mean logsumexp
    log_sigmoid_forward log_sigmoid_backward lerp addcmul addcdiv _fused_rms_norm _fused_rms_norm_backward
    hardswish_backward mish_backward logit logit_backward
    """.split()  # noqa: SIM905 a table is easier to read in words
)

__all__ = ["RoundingNoise"]


class RoundingNoise(PlainAttention):  # type: ignore[no-untyped-call]
    """Runs a float64 step with rounding noise in every operation; the global generators are not touched.

    Args:
        roundoff: unit roundoff of the arithmetic that is simulated, from 2**-40 to 2**-2.
        seed: same seed, same noise; at least 0. Noise of an odd seed repeats, see above.

    Raises:
        ValueError: if the roundoff cannot be simulated in float64.
    """

    def __init__(self, roundoff: float, seed: int) -> None:
        if not 2.0**-40 <= roundoff <= 2.0**-2:
            raise ValueError(f"rounding of {roundoff:g} cannot be simulated in float64: from 2**-40 to 2**-2 can")
        super().__init__()
        self._u = roundoff
        self._sum = min(roundoff, FLOAT32)
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}
        self._constants: dict[float, float] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation and add noise to what it computed."""
        kwargs = kwargs or {}
        kind = name(func)
        if draws(func):
            return func(*args, **kwargs)
        in_place = func._schema.name.endswith("_")  # type: ignore[attr-defined]
        args = with_kinks(kind, args, in_place, self._u, self._seed, lambda t: self._uniform(t, 1.0))
        if kind in EXACT or kind in COMPARISONS:
            return func(*args, **kwargs)
        parts = _parts(func)
        if parts is not None:
            with self:
                return parts(*args, **kwargs)
        return self._rounded(func, kind, args, kwargs)

    def _rounded(self, func: Callable[..., Any], kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = tuple(self._constant(a) for a in args), {k: self._constant(a) for k, a in kwargs.items()}
        if self._seed % 2:
            self._repeat(kind, args)
        squares = _squares(func, kind, args, kwargs)
        if kind.startswith(("linalg_", "_linalg", "cholesky", "triangular_solve", "lu_")) and "norm" not in kind:
            args = tuple(self._perturbed(a) for a in args)
        result = func(*args, **kwargs)
        made = [_stored(t) for t in computed(func, args, kwargs, result) if torch.finfo(t.dtype).eps < self._u]
        if not made:
            return result
        if squares is not None:
            height = terms(func, args, kwargs, made)
            for t, square in zip(made, squares, strict=True):
                self._add_sum_noise(t, kind, square, height)
            return result
        relative = self._u if kind in ROUNDED_ONCE else 2 * self._u
        if made[0].is_complex():
            relative *= math.sqrt(5)  # Brent, Percival, Zimmermann, Math. Comp. 76 (2007): a complex product
        height = terms(func, args, kwargs, made)
        if height > 1:
            relative += self._sum * math.sqrt(height)
        for t in made:
            if kind.startswith("_fft"):
                t.add_(self._uniform(t, 1.0).mul_(relative * math.log2(max(2, t.numel())) * rms(t)))
            elif not (t.numel() == 1 and kind in ROUNDED_ONCE and _exact(t, self._u)):
                t.mul_(self._uniform(t, relative, around=1.0))
        return result

    def _add_sum_noise(self, t: Tensor, kind: str, square: Tensor, height: int) -> None:
        if t.numel() == 0:
            return
        if kind in _AVERAGES:
            square = square / height
        size = square.abs() if square.is_complex() else square
        size = size.clamp_(min=0).sqrt_()
        factor = self._sum * math.sqrt(height / 2)
        if kind in BILINEAR and self._u > FLOAT32:
            factor += self._u * math.sqrt(2)
        relative = self._u + self._sum * math.sqrt(height / 3)
        noise = size.mul_(factor).add_(t.abs(), alpha=relative).mul_(self._uniform(size, 1.0))
        # an infinite result (a masked score) stays what it is
        t.add_(torch.nan_to_num_(noise, nan=0.0, posinf=0.0, neginf=0.0))

    def _perturbed(self, a: Any) -> Any:
        if not isinstance(a, Tensor) or not (a.is_floating_point() or a.is_complex()) or a.numel() == 0:
            return a
        return a + self._uniform(a, 1.0) * (self._u * math.sqrt(a.shape[-1] if a.dim() else 1) * rms(a))

    def _constant(self, a: Any) -> Any:
        """A float constant as it might be rounded: to one value for the whole run."""
        if isinstance(a, list | tuple) and any(isinstance(one, float) for one in a):
            return [self._constant(one) for one in a]
        if not isinstance(a, float) or _representable(a, self._u):
            return a
        if a not in self._constants:
            key = zlib.crc32(f"{self._seed} {a!r}".encode())
            self._constants[a] = a * (1 + self._u * (2 * key / (2**32 - 1) - 1))
        return self._constants[a]

    def _repeat(self, kind: str, args: tuple[Any, ...]) -> None:
        """Start the generators anew, at a place that depends on the operation and its shapes."""
        shapes = [tuple(t.shape) for t in tensors(list(args))]
        place = zlib.crc32(f"{self._seed} {kind} {shapes}".encode())
        for generator in self._generators.values():
            generator.manual_seed(place)

    def _uniform(self, like: Tensor, size: float, around: float = 0.0) -> Tensor:
        """Uniform numbers in ``around`` plus or minus ``size``; real, in float64, shape and layout of ``like``."""
        generator = self._generators.get(like.device)
        if generator is None:
            generator = self._generators[like.device] = torch.Generator(like.device).manual_seed(self._seed)
        dtype = torch.float64 if like.dtype in (torch.complex128, torch.float64) else torch.float32
        made = torch.empty_like(like, dtype=dtype)
        return made.uniform_(around - size, around + size, generator=generator)


def _stored(t: Tensor) -> Tensor:
    """The numbers that a sparse tensor keeps; any other itself."""
    return t._values() if t.is_sparse else t


def _exact(t: Tensor, roundoff: float) -> bool:
    value = t.detach().item()
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    return all(_representable(float(part), roundoff) for part in parts)


def _representable(value: float, roundoff: float) -> bool:
    """Whether a number has no more significant bits than the precision; infinities and NaN count as such."""
    if not math.isfinite(value):
        return True
    scaled = math.frexp(value)[0] / roundoff
    return scaled == math.floor(scaled)


@cache
def _parts(func: Any) -> Callable[..., Any] | None:
    """Return torch's decomposition of a fused operation; None for any other."""
    if name(func) not in FUSED or func._schema.name.startswith("aten::_foreach_"):
        return None
    from torch._decomp import decomposition_table  # slow to import, and only simulations need it

    found: Callable[..., Any] | None = decomposition_table.get(func)
    return found


def _squares(func: Any, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor] | None:
    """Return what a linear or bilinear operation makes of its arguments' squares: sums of the squares of its terms."""
    if kind not in BILINEAR and kind not in LINEAR:
        return None
    if func._schema.name.startswith("aten::_foreach_") or any(t.is_sparse for t in tensors(list(args))):
        return None
    squared = [_squared(a) for a in args]
    named = {key: _squared(value) for key, value in kwargs.items()}
    return computed(func, squared, named, func(*squared, **named))


def _squared(a: Any) -> Any:
    if isinstance(a, Tensor):
        if a.is_complex():
            return a.abs().square_().to(a.dtype)
        return a.square() if a.is_floating_point() else a
    return [_squared(one) for one in a] if isinstance(a, list) and any(True for _ in tensors(a)) else a
