"""A float64 run that draws what a run in another precision drew, from the same state of torch's generators.

torch's streams depend on the type: randn in float32, float64 and bfloat16 gives different numbers from one state. So
draws that would be made in float64 are made in the arm's type and then widened. Where the arm's own draws were logged
(``DrawLog``), each is repeated in the very type and memory layout it had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ablate.audit.operation import draws, name, tensors

Dispatched = Callable[..., Any]

_COMPUTE_TOO = ("_scaled_dot_product_", "_flash_attention", "_efficient_attention", "_cudnn_rnn", "miopen_rnn")
"""Operations whose dropout draws inside of them: in a narrower type they would compute there too."""


class Drawn(NamedTuple):
    """One draw: the operation's name, and the shape, type and strides of what it filled."""

    operation: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...]


class DrawLog(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs a step as it is and notes its draws.

    Attributes:
        draws: in order.
        left: state of torch's generator of the CPU when the step ended; None before.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws: list[Drawn] = []
        self.left: Tensor | None = None

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.left = torch.get_rng_state()

    def __torch_dispatch__(
        self, func: Dispatched, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation and note it if it may draw."""
        result = func(*args, **(kwargs or {}))
        filled = _filled(func, args, result) if draws(func) else None
        if filled is not None:
            self.draws.append(Drawn(name(func), tuple(filled.shape), filled.dtype, filled.stride()))
        return result


class DrawnIn(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Makes float64 draws in ``dtype`` (in the same memory layout) and widens them; other draws are left alone.

    Args:
        dtype: the arm's type.
        log: the arm's own draws; while operations and shapes follow it, each draw has the logged type and layout.
    """

    def __init__(self, dtype: torch.dtype, log: DrawLog | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dtype = dtype
        self._logged = log.draws if log is not None else []
        self._next = 0

    def __torch_dispatch__(
        self, func: Dispatched, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation, a draw in the arm's type."""
        kwargs = kwargs or {}
        kind = name(func)
        if not draws(func) or kind.startswith(_COMPUTE_TOO):
            return func(*args, **kwargs)
        if func._schema.name.endswith("_") and isinstance(args[0], Tensor):  # type: ignore[attr-defined]
            return self._in_place(func, kind, args, kwargs)
        if kind.startswith("rrelu_with_noise"):
            return self._rrelu(func, kind, args, kwargs)
        if kind == "normal" and any(isinstance(a, Tensor) for a in args):
            return self._normal(args, kwargs)
        return self._out_of_place(func, kind, args, kwargs)

    def _expected(self, kind: str, like: Tensor) -> tuple[torch.dtype, tuple[int, ...]]:
        """Type and strides of the next draw."""
        logged = self._logged[self._next] if self._next < len(self._logged) else None
        self._next += 1
        if logged is not None and (logged.operation, logged.shape) == (kind, tuple(like.shape)):
            return logged.dtype, logged.strides
        return (self._dtype if like.dtype is torch.float64 else like.dtype), like.stride()

    def _in_place(self, func: Dispatched, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target: Tensor = args[0]
        if kind == "rrelu_with_noise":
            return target.copy_(self._rrelu(torch.ops.aten.rrelu_with_noise.default, kind, args, kwargs))
        dtype, strides = self._expected(kind, target)
        if dtype is target.dtype and strides == target.stride():
            return func(*args, **kwargs)
        drawn = torch.empty_strided(target.shape, strides, dtype=dtype, device=target.device)
        rest = [a.to(dtype) if isinstance(a, Tensor) and a.is_floating_point() else a for a in args[1:]]
        func(drawn, *rest, **kwargs)
        return target.copy_(drawn)

    def _out_of_place(self, func: Dispatched, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        dtype = self._dtype
        if self._next < len(self._logged) and self._logged[self._next].operation == kind:
            logged = self._logged[self._next].dtype
            dtype = logged if logged.is_floating_point else dtype
        self._next += 1
        wide = kwargs.get("dtype") is torch.float64
        narrow = dict(kwargs)
        if wide:
            narrow["dtype"] = dtype
        elif (
            kwargs.get("dtype") is None
            and torch.get_default_dtype() is torch.float64
            and next(tensors(list(args)), None) is None
        ):
            wide, narrow["dtype"] = kind in ("rand", "randn", "normal"), dtype
            if not wide:
                narrow = kwargs
        cast = [_narrow(a, dtype) for a in args]
        wide = wide or any(isinstance(a, Tensor) and a.dtype is torch.float64 for a in args)
        result = func(*cast, **narrow)
        return _widened(result, dtype) if wide else result

    def _rrelu(self, func: Dispatched, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """The noise in the arm's type; the product in float64."""
        x, noise = args[0], args[1]
        dtype, strides = self._expected(kind, x)
        narrow = torch.empty_strided(x.shape, strides, dtype=dtype).copy_(x)
        drawn = torch.empty_strided(x.shape, strides, dtype=dtype).copy_(noise)
        result = func(narrow, drawn, *args[2:], **kwargs)
        training = bool(args[4]) if len(args) > 4 else False
        if not training:
            return func(*args, **kwargs)  # type: ignore[no-any-return]
        noise.copy_(drawn)
        return torch.where(x <= 0, x * noise, x) if isinstance(result, Tensor) else result

    def _normal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As torch does, mean + std * standard normal numbers, which alone are drawn in the arm's type."""
        mean, std = args[0], args[1] if len(args) > 1 else 1.0
        like = torch.add(mean, std) if isinstance(mean, Tensor) else torch.add(std, mean)
        dtype, strides = self._expected("normal", like)
        drawn = torch.empty_strided(like.shape, strides, dtype=dtype, device=like.device)
        drawn.normal_(generator=kwargs.get("generator"))
        return drawn.to(like.dtype) * std + mean


def _filled(func: Dispatched, args: tuple[Any, ...], result: Any) -> Tensor | None:
    if func._schema.name.endswith("_") and isinstance(args[0], Tensor):  # type: ignore[attr-defined]
        return args[0]
    return next(iter(tensors(result)), None)


def _narrow(a: Any, dtype: torch.dtype) -> Any:
    return a.to(dtype) if isinstance(a, Tensor) and a.dtype is torch.float64 else a


def _widened(result: Any, dtype: torch.dtype) -> Any:
    if isinstance(result, Tensor):
        return result.to(torch.float64) if result.dtype is dtype else result
    return type(result)(_widened(one, dtype) for one in result) if isinstance(result, list | tuple) else result
