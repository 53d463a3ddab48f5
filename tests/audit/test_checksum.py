"""The checksum sees every covered element and no other, in whatever layout."""

import pytest
import torch
from torch import nn

from ablate.audit.checksum import checksum, dense_bytes, unseen

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.complex64,
]


def sample(dtype):
    return (torch.arange(24, dtype=torch.float64).reshape(2, 3, 4) % 5 > 1).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_element_counts(dtype):
    t = sample(dtype)
    before = checksum(t)
    assert checksum(t.clone()) == before
    for index in range(t.numel()):
        changed = t.clone()
        changed.view(-1)[index] = (
            1 - int(changed.view(-1)[index].real) if dtype.is_complex else not changed.view(-1)[index]
        )
        assert checksum(changed) != before


def test_permuted_contents_are_seen_though_the_sum_is_the_same():
    assert checksum(torch.tensor([1.0, 2.0, 3.0])) != checksum(torch.tensor([3.0, 2.0, 1.0]))


LAYOUTS = {
    "contiguous": lambda base: base,
    "transposed": lambda base: base.transpose(0, 2),
    "channels last": lambda base: base[None].contiguous(memory_format=torch.channels_last)[0],
    "a slice": lambda base: base[:, 1:3],
    "every other": lambda base: base[..., ::2],
    "one column": lambda base: base[:, :, 1],
    "expanded": lambda base: base[:1].expand(7, -1, -1),
    "a transposed slice, expanded": lambda base: base[:, 1:3].transpose(0, 1)[None].expand(2, -1, -1, -1),
    "overlapping": lambda base: base.view(-1).unfold(0, 5, 2),
    "empty": lambda base: base[:0],
    "one number": lambda base: base[1, 2, 3],
}


@pytest.mark.parametrize("view", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_exactly_the_covered_elements_count(view):
    base = torch.arange(24.0).reshape(2, 3, 4)
    marks = view(torch.arange(24).reshape(2, 3, 4)).reshape(-1).tolist() if view(base).numel() else []
    for index in range(24):
        changed = base.clone()
        changed.view(-1)[index] = -1.0
        same = checksum(view(changed)) == checksum(view(base))
        assert same == (index not in marks), index


def test_dense_layouts_are_read_in_place():
    base = torch.rand(2, 3, 4)
    assert dense_bytes(base.transpose(0, 2)) == dense_bytes(base) == base.nbytes
    assert dense_bytes(base[:1].expand(7, -1, -1)) == 48
    assert dense_bytes(base[:, 1:3]) == 0


@pytest.mark.parametrize("view", [torch.conj, torch._neg_view], ids=["conjugated", "negated"])
def test_lazy_views(view):
    base = torch.randn(4, dtype=torch.complex64)
    before = checksum(view(base))
    base[2] = 0
    assert checksum(view(base)) != before


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch: their support is in beta
@pytest.mark.parametrize("to", ["to_sparse", "to_sparse_csr", "to_sparse_csc", "to_mkldnn"])
def test_other_layouts(to):
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    first, again, other = (getattr(t, to)() for t in (dense, dense.clone(), dense.flip(0)))
    assert checksum(first) == checksum(again) != checksum(other)
    assert unseen(first) == ""


def test_what_has_no_contents_is_said():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    assert unseen(fake) == "FakeTensor: keeps its contents elsewhere"
    assert unseen(torch.ones(3, device="meta")) == "meta tensor: has no contents"
    assert unseen(torch._efficientzerotensor(3)).startswith("zero tensor")
    assert unseen(nn.Parameter(torch.ones(3))) == ""
