"""What an aten operation computes, read off its schema and its arguments: its new values, and how many terms they sum.

The terms are the height of the summation tree: how many roundings a term can go through until it is in the result.
Rounding errors grow with its square root (see ``error_bound``), whatever the order of summation is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

Args = Sequence[Any]
Kwargs = Mapping[str, Any]

EXACT = frozenset(
    """
    clone _to_copy copy fill zero set resize resize_as detach lift lift_fresh lift_fresh_copy alias contiguous
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones
    ones_like new_ones full full_like new_full scalar_tensor arange linspace eye tril triu diag_embed
    cat stack hstack vstack concat index index_select gather take masked_select nonzero where masked_fill
    masked_scatter index_fill select_scatter slice_scatter diagonal_scatter as_strided_scatter scatter
    select_backward slice_backward embedding flip roll repeat repeat_interleave constant_pad_nd reflection_pad1d
    reflection_pad2d replication_pad1d replication_pad2d replication_pad3d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d pixel_shuffle pixel_unshuffle channel_shuffle im2col unfold_copy view_copy expand_copy
    permute_copy max min amax amin aminmax argmax argmin maximum minimum fmax fmin clamp clamp_min clamp_max relu
    threshold threshold_backward hardtanh hardtanh_backward leaky_relu_backward max_pool2d_with_indices
    max_pool3d_with_indices adaptive_max_pool2d sort topk median nanmedian kthvalue mode neg abs sgn sign
    floor ceil round trunc nan_to_num isfinite real imag complex conj_physical view_as_real view_as_complex copysign
    _unsafe_view _reshape_alias _reshape_copy record_stream _local_scalar_dense
    _unsafe_index _conj_copy _pack_padded_sequence unique_dim _unique2
    """.split()  # noqa: SIM905 a table is easier to read in words
)
"""Operations whose results are their inputs' numbers or constants, in another place: nothing is rounded."""

MATMULS = {
    "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "vdot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1, "linear": 0,
    "_addmm_activation": 1,
}  # fmt: skip
"""Operation -> position of its left factor, whose last dimension is summed over."""

SUMS_OVER_DIM = frozenset(
    (
        "_softmax",
        "_log_softmax",
        "_softmax_backward_data",
        "_log_softmax_backward_data",
        "cumsum",
        "cumprod",
        "logcumsumexp",
    )
)

SCATTERS = frozenset(
    ("index_add", "scatter_add", "index_put", "_index_put_impl", "_unsafe_index_put", "embedding_dense_backward")
)

RESULTS_ADDED = frozenset(("add", "sub", "rsub"))


@cache
def name(operation: Any) -> str:
    """Return the name without namespace, foreach and in-place marks: ``add`` for ``aten::_foreach_add_``."""
    base = str(operation._schema.name).split("::")[-1]
    base = base.removeprefix("_foreach_").removeprefix("_fused_")
    return base.removesuffix("_") if not base.endswith("__") else base


@cache
def draws(operation: Any) -> bool:
    """Whether the operation may draw from a random generator."""
    return torch.Tag.nondeterministic_seeded in operation.tags


@cache
def outputs(operation: Any) -> tuple[tuple[bool, ...], tuple[tuple[int, str], ...]]:
    """Which results are new tensors, not views or arguments; which arguments are written, by position and name."""
    schema = operation._schema
    new = tuple(result.alias_info is None for result in schema.returns)
    written = tuple(
        (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    return new, written


def tensors(value: object) -> Iterator[Tensor]:
    """Yield the tensors in an argument or result: it, or those in a list or tuple."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)


def computed(operation: Any, args: Args, kwargs: Kwargs, result: object) -> list[Tensor]:
    """Return the floating or complex tensors that a call made or wrote, each once; no views."""
    new, written = outputs(operation)
    results = (result,) if len(new) == 1 else result if isinstance(result, list | tuple) else ()
    found = [t for one, is_new in zip(results, new, strict=False) if is_new for t in tensors(one)]
    for place, argument in written:
        found += tensors(args[place] if place < len(args) else kwargs.get(argument))
    distinct = {id(t): t for t in found if t.is_floating_point() or t.is_complex()}
    return list(distinct.values())


@cache
def sums(operation: Any) -> bool:
    """Whether it may sum although its results have as many elements as its arguments: for those ``terms`` has rules."""
    kind = name(operation)
    ruled = kind in MATMULS or kind in SUMS_OVER_DIM or kind in SCATTERS or "convolution" in kind
    return ruled or operation._schema.name.startswith("aten::_foreach_")


def terms(operation: Any, args: Args, kwargs: Kwargs, results: Iterable[Tensor]) -> int:
    """Return the most terms that one element of the results is a sum of; 1 for an element-wise operation.

    Args:
        operation: an aten overload.
        args: its positional arguments.
        kwargs: its keyword arguments.
        results: what ``computed`` returned.
    """
    kind = name(operation)
    if kind in EXACT:
        return 1
    if kind in MATMULS:
        left: Tensor = args[MATMULS[kind]]
        return max(1, left.shape[-1] * (left.shape[0] if kind == "addbmm" else 1))
    if kind in ("convolution", "_convolution", "convolution_overrideable"):
        return max(1, _convolution_terms(args[1], bool(args[6])))
    if kind == "convolution_backward":
        return _convolution_backward_terms(args)
    if kind in SUMS_OVER_DIM:
        dim = args[2] if kind.endswith("_data") else args[1]
        return max(1, args[0].shape[dim]) if args[0].dim() else 1
    if kind in SCATTERS:
        return _scatter_terms(kind, args)
    if operation._schema.name.startswith("aten::_foreach_"):
        inputs = list(tensors(args[0])) if args else []
        pairs = zip(inputs, results, strict=False)
        return max([1, *(a.numel() // max(1, r.numel()) for a, r in pairs)])
    largest = max((t.numel() for t in tensors(list(args)) if t.is_floating_point() or t.is_complex()), default=1)
    smallest = min((t.numel() for t in results if t.numel()), default=largest)
    return max(1, largest // max(1, smallest))


def _convolution_terms(weight: Tensor, transposed: bool) -> int:
    return weight.numel() // max(1, weight.shape[1 if transposed else 0])


def _convolution_backward_terms(args: Args) -> int:
    # input gradient: output channels by kernel; weight and bias gradients: samples by positions (of the input, if the
    # convolution is transposed)
    grad, x, weight, transposed, mask = args[0], args[1], args[2], bool(args[7]), args[10]
    by_input = _convolution_terms(weight, not transposed) if mask[0] else 1
    summed = x if transposed else grad
    by_weight = summed.numel() // max(1, summed.shape[1]) if mask[1] else 1
    by_bias = grad.numel() // max(1, grad.shape[1]) if mask[2] else 1
    return max(1, by_input, by_weight, by_bias)


def _scatter_terms(kind: str, args: Args) -> int:
    """How often one place can be added to: the most equal indices, or an upper bound of it."""
    if kind == "embedding_dense_backward":
        return 1 + _most_equal(args[1])
    if kind == "index_add":
        return 1 + _most_equal(args[2])
    if kind == "scatter_add":
        index = args[2]
        return 1 + (index.shape[args[1]] if index.dim() else 1)
    accumulate = bool(args[3]) if len(args) > 3 else False
    if not accumulate:
        return 1
    return 1 + max((math.prod(index.shape) for index in args[1] if index is not None), default=1)


def _most_equal(index: Tensor) -> int:
    if not index.numel():
        return 0
    return int(torch.unique(index, return_counts=True)[1].max())
