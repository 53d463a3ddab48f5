"""The guard changes no value and keeps no memory."""

import gc
import tracemalloc
import weakref

import numpy as np
import psutil
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from ablate.audit.guard import SavedTensorGuard


def convolutional():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 3), nn.Flatten())
    return net, (4, 3, 10, 10)


def attention():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1), (5, 2, 8)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.b(checkpoint(lambda x: self.a(x).tanh(), x, use_reentrant=False))


class Penalised(nn.Module):
    """A gradient penalty: a second derivative inside the loss."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 6), nn.Softplus(), nn.Linear(6, 1))

    def forward(self, x):
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return slope.square()


class Reentrant(Checkpointed):
    def forward(self, x):
        return self.b(checkpoint(lambda x: self.a(x).tanh(), x.requires_grad_(), use_reentrant=True))


class Tied(nn.Module):
    """One weight under two names, used twice."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x).relu())


class MixedPrecision(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = convolutional()[0]

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.net(x).float()


MODELS = {
    "mixed precision": lambda: (MixedPrecision(), (4, 3, 10, 10)),
    "channels last": lambda: (convolutional()[0].to(memory_format=torch.channels_last), (4, 3, 10, 10)),
    "tied weights": lambda: (Tied(), (3, 6)),
    "checkpointed with reentry": lambda: (Reentrant(), (3, 6)),
    "convolutions": convolutional,
    "attention with dropout": attention,
    "LSTM": lambda: (nn.LSTM(4, 4, 2), (5, 2, 4)),
    "checkpointed": lambda: (Checkpointed(), (3, 6)),
    "gradient penalty": lambda: (Penalised(), (3, 6)),
}


def train(make, guarded):
    torch.manual_seed(0)
    model, shape = make()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = SavedTensorGuard(model)
    seen = []
    for batch in range(3):
        optimiser.zero_grad()
        if guarded:
            guard.start(batch)
        y = model(torch.randn(shape))
        loss = (y[0] if isinstance(y, tuple) else y).square().mean()
        loss.backward()
        guard.stop()
        optimiser.step()
        seen.append(loss.detach())
        seen.extend(p.grad.clone() for p in model.parameters() if p.grad is not None)
    return seen, guard


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_losses_and_gradients_are_bitwise_those_without(make):
    without, _ = train(make, guarded=False)
    guarded, guard = train(make, guarded=True)
    assert all(torch.equal(a, b) for a, b in zip(without, guarded, strict=True))
    assert guard.findings == []
    assert guard.tensors_checked > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's compiler about itself
def test_a_compiled_model_is_unchanged_too():
    def compiled():
        net, shape = convolutional()
        net.insert(3, nn.Dropout(0.2))
        return torch.compile(net), shape

    without, _ = train(compiled, guarded=False)
    torch._dynamo.reset()
    guarded, guard = train(compiled, guarded=True)
    assert all(torch.equal(a, b) for a, b in zip(without, guarded, strict=True))
    assert guard.findings == []


def test_third_derivatives_are_right():
    x = torch.tensor([1.5], requires_grad=True)
    with SavedTensorGuard().batch(0):
        first = torch.autograd.grad((x**4).sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first, x, create_graph=True)[0]
        third = torch.autograd.grad(second, x)[0]
    assert third.item() == 24 * 1.5


class Net(nn.Module):
    """Keeps its last result with the graph, as models with attention maps do: the usual way into a cycle."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.sigmoid(layer(x))
        self.last = x
        return x


def test_memory_is_flat_over_3000_batches_without_the_garbage_collector():
    model = Net()
    guard = SavedTensorGuard(model)
    target = np.zeros((32, 64), np.float32)

    def batches(first, count):
        for k in range(first, first + count):
            with guard.batch(k):
                loss = F.mse_loss(model(torch.rand(32, 64)), torch.from_numpy(target.copy()))
                if k % 3:  # some graphs are dropped unused
                    loss.backward()
            model.zero_grad()

    process = psutil.Process()
    gc.collect()
    gc.disable()
    try:
        batches(0, 200)
        tracemalloc.start()
        batches(200, 51)
        before, resident = tracemalloc.get_traced_memory()[0], process.memory_info().rss
        objects = len(gc.get_objects())
        batches(251, 3000)
        objects_grown = len(gc.get_objects()) - objects
        grown, resident_grown = tracemalloc.get_traced_memory()[0] - before, process.memory_info().rss - resident
    finally:
        tracemalloc.stop()
        gc.enable()
    assert objects_grown < 100  # one kept a batch would be 3000
    assert grown < 200_000  # one batch's bookkeeping is 4 kB, 3000 would be 12 MB; Python's free lists take 31 kB
    # one saved tensor (8 kB) a batch would be 24 MB; the allocator's own arenas take up to 5 MB after other tests
    assert resident_grown < 12_000_000
    assert guard.findings == []


def test_graphs_die_at_once():
    model = Net()
    guard = SavedTensorGuard(model)
    gc.disable()
    try:
        with guard.batch(0):
            y = model(torch.rand(2, 64))
            alive = weakref.ref(y)
            model.last = None
            del y
            assert alive() is None
        kept = weakref.ref(model)
        with guard.batch(1):
            model(torch.rand(2, 64))  # the model now holds a graph, which must not hold the model
        del model, guard
        assert kept() is None
    finally:
        gc.enable()
