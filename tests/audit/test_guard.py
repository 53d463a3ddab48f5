"""What the guard finds, what it leaves alone, and what it says."""

import dataclasses
import itertools
import warnings
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from ablate.audit.guard import EXACT, SavedTensorGuard

WINDOW = 20


def window(model, frames, buffer, copied):
    """Sum of losses over a window whose targets pass through one NumPy buffer; the graph is kept until the end."""
    loss = 0.0
    for x, target in itertools.pairwise(frames):
        buffer[...] = target
        loss = loss + F.mse_loss(model(torch.from_numpy(x)), torch.from_numpy(buffer.copy() if copied else buffer))
    return loss


@pytest.fixture
def frames():
    return np.random.default_rng(0).random((WINDOW + 1, 1, 3, 8, 8), dtype=np.float32)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Sigmoid(), nn.Conv2d(4, 3, 3, padding=1))


@pytest.mark.parametrize("size", [8, 80], ids=["small", "larger than what is always hashed"])
def test_reused_target_buffer_gives_exactly_19_findings(model, size):
    frames = np.random.default_rng(0).random((WINDOW + 1, 1, 3, size, size), dtype=np.float32)
    assert (frames[0].nbytes > EXACT) == (size == 80)
    buffer = np.zeros_like(frames[0])
    guard = SavedTensorGuard(model)
    with guard.batch(7):
        window(model, frames, buffer, copied=False).backward()
    assert len(guard.findings) == WINDOW - 1
    for finding in guard.findings:
        assert finding.batch_index == 7
        assert finding.shape == (1, 3, size, size)
        assert finding.dtype == "float32"
        assert not finding.version_moved
        assert finding.near == "outside every module, after parameter 2.weight"
        assert finding.source.startswith(__file__.rsplit("/", 1)[-1]) or "test_guard.py:" in finding.source
        assert finding.source.endswith(" in window")
        assert "unseen by torch's version counter" in finding.detail
        assert finding.role == "target of MseLossBackward0"
        assert "data, target or parameter" in finding.detail
    with pytest.raises(dataclasses.FrozenInstanceError):
        guard.findings[0].near = ""


def test_the_source_is_the_line_that_saved_it(model, frames):
    guard = SavedTensorGuard(model)
    with guard.batch(0):
        window(model, frames, np.zeros_like(frames[0]), copied=False).backward()
    path, line = guard.findings[0].source.removesuffix(" in window").rsplit(":", 1)
    with open(path, encoding="utf-8") as file:
        assert "F.mse_loss(" in file.read().splitlines()[int(line) - 1]


def test_copied_targets_give_none(model, frames):
    guard = SavedTensorGuard(model)
    with guard.batch(0):
        window(model, frames, np.zeros_like(frames[0]), copied=True).backward()
    assert guard.findings == []
    assert guard.tensors_checked == guard.tensors_saved > 4 * WINDOW
    assert guard.tensors_never_used == 0
    assert not guard.unseen


def test_static_frames_give_none_since_nothing_changes(model, frames):
    guard = SavedTensorGuard(model)
    frames[:] = frames[0]
    with guard.batch(0):
        window(model, frames, np.zeros_like(frames[0]), copied=False).backward()
    assert guard.findings == []


@pytest.mark.parametrize("size", [8, 80])
def test_two_players_who_refill_a_buffer_between_their_backwards_are_legal(size):
    frames = np.random.default_rng(1).random((2, 1, 3, size, size), dtype=np.float32)
    first, second = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
    buffer = np.zeros_like(frames[0])
    guard = SavedTensorGuard()
    with guard.batch(0):
        for player, frame in ((first, frames[0]), (second, frames[1])):
            buffer[...] = frame
            x = torch.from_numpy(buffer)
            F.mse_loss(player(x), x).backward()
    assert guard.findings == []


def test_a_kept_graph_that_is_never_used_and_clipped_weights_are_legal():
    """A critic's score logged with its graph, then weights clipped through .data: nothing saved was used."""
    critic = nn.Linear(200, 200)  # 160 kB, above EXACT
    x = torch.randn(4, 200)
    guard = SavedTensorGuard(critic)
    with guard.batch(0):
        logged = critic(x).square().mean()
        critic(x).square().mean().backward()
        critic.weight.data.clamp_(-0.01, 0.01)
        critic(x).square().mean().backward()
    assert guard.findings == []
    assert guard.tensors_never_used > 0
    assert logged.requires_grad


@pytest.mark.parametrize("features", [8, 200], ids=["always hashed", "hashed once a run"])
def test_weights_moved_by_data_and_back_during_forward_are_found(features):
    layer = nn.Linear(features, features)
    x = torch.randn(2, features, requires_grad=True)
    guard = SavedTensorGuard(layer)
    with guard.batch(0):
        loss = layer(x).square().sum()
        layer.weight.data += 0.5
        loss = loss + layer(x).square().sum()
        layer.weight.data -= 0.5
        layer.weight.data.copy_(layer.weight.data)
        loss.backward()
    assert [f.near for f in guard.findings][-1:] == ["parameter weight"]


def test_a_large_weight_saved_many_times_is_hashed_once(monkeypatch):
    from ablate.audit import guard as module

    layer = nn.Conv2d(64, 64, 3, padding=1)  # its weight: 147 kB
    weight, hashed = layer.weight, []
    real = module.digest
    monkeypatch.setattr(module, "digest", lambda at, n: (hashed.append((at, n)), real(at, n))[1])
    guard = SavedTensorGuard(layer)
    for batch in range(2):
        with guard.batch(batch):
            h = torch.randn(1, 64, 4, 4)
            for _ in range(WINDOW):
                h = layer(h)
            h.sum().backward()
    assert hashed.count((weight.data_ptr(), weight.nbytes)) == 2 * 2  # at save and at use, in each batch
    assert guard.findings == []


@pytest.mark.parametrize("channels", [4, 64], ids=["small", "large"])
def test_an_overwritten_parameter_is_named_once_however_often_it_was_saved(channels):
    layer = nn.Conv2d(channels, channels, 3, padding=1)
    model = nn.Sequential(layer)
    guard = SavedTensorGuard(model)
    with guard.batch(0):
        h = torch.randn(1, channels, 4, 4)
        for _ in range(3):
            h = layer(h)
        layer.weight.data.mul_(0.5)
        h.sum().backward()
    assert [(f.near, f.version_moved) for f in guard.findings] == [("parameter 0.weight", False)]
    assert guard.tensors_changed == 3  # torch asks for the first one too, though its input needs no gradient
    assert guard.tensors_checked > guard.tensors_changed


def test_a_result_overwritten_inside_a_module_names_the_module():
    class Gate(nn.Module):
        def forward(self, x):
            self.kept = torch.sigmoid(x)
            return self.kept

    net = nn.Sequential(nn.Linear(3, 3), Gate())
    guard, nameless = SavedTensorGuard(net), SavedTensorGuard()
    for one in (guard, nameless):
        with one.batch(0):
            y = net(torch.ones(2, 3))
            net[1].kept.detach().numpy()[0, 0] = 9.0
            y.sum().backward()
    assert [f.near for f in guard.findings] == ["inside module 1 (Gate)"]
    assert guard.findings[0].source.endswith("Gate.forward")
    assert guard.findings[0].role == "result of SigmoidBackward0"
    assert [f.near for f in nameless.findings] == ["inside a module of class Gate"]


def test_another_part_of_the_storage_may_be_written():
    buffer = np.zeros((2, 8), np.float32)
    w = torch.ones(4, requires_grad=True)
    guard = SavedTensorGuard()
    with guard.batch(0):
        loss = (w * torch.from_numpy(buffer)[0, ::2]).square().sum()
        buffer[1] = 5.0
        buffer[0, 1::2] = 5.0
        loss.backward()
    assert guard.findings == []


def test_replaced_data_is_found_and_used_as_torch_uses_it():
    def gradient(guard):
        p = nn.Parameter(torch.ones(3))
        x = torch.ones(3, requires_grad=True)
        loss = (p * x).sum()
        p.data = torch.full((3,), 2.0)
        if guard is not None:
            guard.stop()
        loss.backward()
        return x.grad

    guard = SavedTensorGuard()
    guard.start(0)
    assert torch.equal(gradient(guard), gradient(None))
    assert len(guard.findings) == 1
    assert "its .data was replaced" in guard.findings[0].detail


def test_backward_after_the_watch_has_stopped_is_still_compared():
    buffer = np.ones(3, np.float32)
    guard = SavedTensorGuard()
    guard.start(4)
    loss = (torch.ones(3, requires_grad=True) * torch.from_numpy(buffer)).sum()
    guard.stop()
    guard.stop()
    buffer[0] = 2.0
    with guard.batch(5):
        loss.backward()
    assert [f.batch_index for f in guard.findings] == [4]


def test_starting_twice_is_refused():
    guard = SavedTensorGuard()
    with (
        guard.batch(3),
        pytest.raises(RuntimeError, match=r"guard.start\(4\): batch 3 is still being watched; call guard.stop"),
    ):
        guard.start(4)


def test_a_raising_batch_ends_the_watch():
    guard = SavedTensorGuard()
    with pytest.raises(ZeroDivisionError), guard.batch(0):
        _ = 1 / 0
    with guard.batch(1):
        torch.ones(1, requires_grad=True).exp().backward()
    assert guard.tensors_saved == 1


def test_a_kept_graph_is_hashed_again_by_a_second_backward():
    buffer = np.ones(3, np.float32)
    w = torch.ones(3, requires_grad=True)
    guard = SavedTensorGuard()
    with guard.batch(0):
        loss = (w * torch.from_numpy(buffer)).sum()
        loss.backward(retain_graph=True)
        assert guard.findings == []
        buffer[1] = 7.0
        loss.backward(retain_graph=True)
        loss.backward()
    assert len(guard.findings) == 1
    assert guard.tensors_never_used == 0


def test_double_backward_sees_what_the_first_backward_saved():
    buffer = np.ones(3, np.float32)
    x = torch.arange(3.0, requires_grad=True)
    guard = SavedTensorGuard()
    with guard.batch(0):
        (gradient,) = torch.autograd.grad(((x * torch.from_numpy(buffer)) ** 3).sum(), x, create_graph=True)
        assert guard.tensors_saved > 3
        gradient.sum().backward(retain_graph=True)
        assert torch.equal(x.grad, 6 * x)
        assert guard.findings == []
        buffer[0] = 2.0
        gradient.sum().backward()
    assert {f.source.split()[-1] for f in guard.findings} == {"test_double_backward_sees_what_the_first_backward_saved"}


def test_checkpointing_without_reentry_shows_its_inputs():
    buffer = np.ones((2, 3), np.float32)
    layer = nn.Linear(3, 3)
    guard = SavedTensorGuard(layer)
    for batch, write in ((0, False), (1, True)):
        with guard.batch(batch):
            x = torch.from_numpy(buffer)
            loss = checkpoint(lambda x: torch.tanh(layer(x)), x, use_reentrant=False).sum()
            if write:
                buffer[0, 0] = 3.0
            loss.backward()
    assert [f.batch_index for f in guard.findings] == [1]


NORMAL = {
    "BatchNorm, whose forward writes what it saved": (lambda: nn.BatchNorm2d(4), (3, 4, 5, 5)),
    "BatchNorm in eval mode": (lambda: nn.BatchNorm2d(4).eval(), (3, 4, 5, 5)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (3, 4)),
    "InstanceNorm": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (3, 4, 5, 5)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5, 5)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (3, 4)),
    "RReLU, which draws into what it saved": (nn.RReLU, (3, 4)),
    "Dropout": (nn.Dropout, (3, 4)),
    "in-place ReLU": (lambda: nn.ReLU(inplace=True), (3, 4)),
    "LSTM": (lambda: nn.LSTM(4, 4, 2, dropout=0.5), (3, 2, 4)),
    "GRU": (lambda: nn.GRU(4, 4), (3, 2, 4)),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8), (3, 2, 4)),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), (3, 4)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), (3, 4)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(4, 4, 3), (3, 4, 5, 5)),
    "pooling": (lambda: nn.MaxPool2d(2), (3, 4, 6, 6)),
}


@pytest.mark.parametrize(("make", "shape"), NORMAL.values(), ids=NORMAL.keys())
def test_ordinary_modules_used_several_times_raise_no_alarm(make, shape):
    module = make()
    guard = SavedTensorGuard(module)
    for batch in range(2):
        with guard.batch(batch):
            loss = 0.0
            for _ in range(3):
                y = module(torch.randn(shape, requires_grad=True) * 1.0)
                loss = loss + (y[0] if isinstance(y, tuple) else y).square().sum()
            loss.backward()
    assert guard.findings == []
    assert guard.tensors_checked > 0


def test_running_statistics_that_backward_does_use_are_watched():
    norm = nn.BatchNorm1d(3).eval()
    guard = SavedTensorGuard(norm)
    with guard.batch(0):
        loss = norm(torch.randn(4, 3, requires_grad=True)).square().sum()
        norm.running_var.data[0] = 5.0
        loss.backward()
    assert [f.near for f in guard.findings] == ["buffer running_var"]


def test_optimiser_steps_between_batches_raise_no_alarm(model, frames):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    guard = SavedTensorGuard(model)
    for batch in range(3):
        optimiser.zero_grad()
        with guard.batch(batch):
            window(model, frames, np.zeros_like(frames[0]), copied=True).backward()
        optimiser.step()
    assert guard.findings == []


def test_tensors_without_contents_are_counted_and_pass():
    guard = SavedTensorGuard()
    with guard.batch(0):
        x = torch.ones(3, device="meta", requires_grad=True)
        (x * x).sum().backward()
    assert guard.unseen == {"meta tensor: has no contents": 2}
    assert guard.tensors_checked == 0


class Loud(torch.Tensor):
    """Notes every torch function called on it."""

    calls: ClassVar = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Product(torch.autograd.Function):
    """w * x; notes the type of the x it gets back."""

    kinds: ClassVar = []

    @staticmethod
    def forward(ctx, w, x):
        ctx.save_for_backward(x)
        with torch._C.DisableTorchFunctionSubclass():
            return w * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        Product.kinds.append(type(x))
        with torch._C.DisableTorchFunctionSubclass():
            return gradient * x, None


def test_a_tensor_subclass_keeps_its_type_and_is_compared():
    calls: ClassVar = []
    memory = np.ones(3, np.float32)
    x = torch.from_numpy(memory).as_subclass(Loud)
    guard = SavedTensorGuard()
    for watched in (False, True):
        Loud.calls.clear()
        w = torch.ones(3, requires_grad=True)
        if watched:
            guard.start(0)
        loss = Product.apply(w, x)
        guard.stop()
        memory[0] = 4.0
        loss.backward(torch.ones(3))
        calls.append(list(Loud.calls))
        memory[0] = 1.0
    assert calls[0] == calls[1]
    assert Product.kinds == [Loud, Loud]
    assert len(guard.findings) == 1


def test_sparse_matrices_are_compared():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    w = torch.ones(2, 2, requires_grad=True)
    guard = SavedTensorGuard()
    with guard.batch(0):
        loss = torch.sparse.mm(matrix, w).sum()
        matrix._values().numpy()[0] = 9.0
        loss.backward()
    assert len(guard.findings) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_region_shows_what_crosses_its_border():
    buffer = np.ones(3, np.float32)
    step = torch.compile(lambda w, x: (w.sin() * x).sum(), backend="aot_eager")
    w = torch.ones(3, requires_grad=True)
    guard = SavedTensorGuard()
    for batch in range(2):
        with guard.batch(batch):
            loss = step(w, torch.from_numpy(buffer))
            if batch:
                buffer[0] = 2.0
            loss.backward()
    assert [f.batch_index for f in guard.findings] == [1]


def test_torch_func_refuses_to_run_under_any_saved_tensor_hook():
    """A limit of torch's that the guard's documentation states."""
    with (
        SavedTensorGuard().batch(0),
        pytest.raises(RuntimeError, match=r"torch\.func.*don't yet support saved tensor hooks"),
    ):
        torch.func.grad(lambda x: (x * x).sum())(torch.ones(3))


def test_many_saves_of_repeated_contents_in_one_buffer_are_each_counted():
    buffer = np.zeros(3, np.float32)
    w = torch.ones(3, requires_grad=True)
    guard = SavedTensorGuard()
    with guard.batch(0):
        loss = 0.0
        for value in (1, 2, 1, 3):
            buffer[:] = value
            loss = loss + (w * torch.from_numpy(buffer)).sum()
        loss.backward()
    assert len(guard.findings) == 3


def test_a_model_made_after_the_guard_can_name_findings():
    guard = SavedTensorGuard()
    layer = nn.Linear(2, 2)
    guard.name_after(layer)
    with guard.batch(0):
        loss = layer(torch.ones(1, 2, requires_grad=True)).sum()
        layer.weight.data.add_(1)
        loss.backward()
    assert [f.near for f in guard.findings] == ["parameter weight"]
