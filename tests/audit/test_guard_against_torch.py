"""What torch refuses without the guard is refused with it, and what torch allows is allowed, case by case.

torch itself is the reference: each case runs without the guard first.
"""

import pytest
import torch

from ablate.audit.guard import SavedTensorGuard


def leaf():
    return torch.tensor([0.5, -1.0, 2.0], requires_grad=True)


def saved_input():
    x = leaf()
    h = x * 1
    y = h * h
    h.add_(1)
    return [x], y.sum()


def saved_output(function):
    def case():
        x = leaf()
        y = function(x)
        z = y * 1
        y.add_(1)
        return [x], z.sum()

    return case


def input_not_saved():
    x = leaf()
    h = x * 1
    y = h + 2
    h.mul_(3)
    return [x], y.sum() + h.sum()


def output_not_saved():
    x = leaf()
    y = x * 2
    y.add_(1)
    return [x], y.sum()


def in_place_relu():
    x = leaf()
    return [x], (x * 1).relu_().sum()


def in_place_exp_then_more():
    x = leaf()
    y = (x * 1).exp_()
    y.mul_(2)
    return [x], y.sum()


def optimiser_step():
    w = leaf()
    h = leaf()
    y = (h * 2) * w
    with torch.no_grad():
        w.sub_(0.1)
    return [w, h], y.sum()


def detached_write():
    x = leaf()
    y = x.exp()
    y.detach().add_(1)
    return [x], y.sum()


def view_of_the_same_part():
    x = leaf()
    h = x * 1
    y = h.square()
    h[:2].zero_()
    return [x], y.sum()


def view_of_another_part():
    """torch counts versions per storage, so it refuses this too, though no saved number changed."""
    x = leaf()
    base = x * 1
    y = base[:1].square()
    base[2:].zero_()
    return [x], y.sum()


def data_shared_by_a_target():
    x = leaf()
    target = torch.zeros(3)
    y = (x - 0).mul(target)
    target.add_(1)
    return [x], y.sum()


def same_value_written():
    x = leaf()
    h = x * 1
    y = h.square()
    h.mul_(1)
    return [x], y.sum()


def backward_twice():
    x = leaf()
    y = x.exp().sum()
    y.backward()
    return [x], y


CASES = {
    "in place on a saved input": (saved_input, True),
    "in place on exp's saved result": (saved_output(torch.exp), True),
    "in place on sigmoid's saved result": (saved_output(torch.sigmoid), True),
    "in place on relu's saved result": (saved_output(torch.relu), True),
    "in place on tanh's saved result": (saved_output(torch.tanh), True),
    "in place on an input that was not saved": (input_not_saved, False),
    "in place on a result that was not saved": (output_not_saved, False),
    "relu_ in place": (in_place_relu, False),
    "exp_ in place, then mul_": (in_place_exp_then_more, True),
    "an optimiser's step between forward and backward": (optimiser_step, True),
    "detach().add_()": (detached_write, True),
    "through a view of the same part": (view_of_the_same_part, True),
    "through a view of another part": (view_of_another_part, True),
    "a target without gradient": (data_shared_by_a_target, True),
    "the same value written": (same_value_written, True),
}


@pytest.mark.parametrize(("case", "refused"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("inside", [True, False], ids=["backward inside", "backward after"])
def test_refusals_are_torchs_own(case, refused, inside):
    def run(guard):
        if guard is not None:
            guard.start(0)
        leaves, loss = case()
        if guard is not None and not inside:
            guard.stop()
        try:
            loss.backward()
        finally:
            if guard is not None:
                guard.stop()
        return [x.grad for x in leaves]

    guard = SavedTensorGuard()
    if refused:
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as torchs:
            run(None)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as ours:
            run(guard)
        versions = [str(e.value).split("is at version ")[1].split(" instead")[0] for e in (torchs, ours)]
        assert versions[0] == versions[1]
        assert "saved in batch 0 (" in str(ours.value)
        assert "test_guard_against_torch.py:" in str(ours.value)
        assert [f.version_moved for f in guard.findings] == [True]
        assert guard.tensors_changed == 1 <= guard.tensors_checked
        assert "changed in place: at version" in guard.findings[0].detail
    else:
        for without, with_guard in zip(run(None), run(guard), strict=True):
            assert torch.equal(without, with_guard)
        assert guard.findings == []


def test_a_second_backward_without_the_graph_is_refused_as_ever():
    with SavedTensorGuard().batch(0):
        _, loss = backward_twice()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()


def numpy_write(t):
    t.detach().numpy()[0] = 9.0


def data_write(t):
    t.data[0] = 9.0


def data_add(t):
    t.data.add_(1)


@pytest.mark.parametrize("write", [numpy_write, data_write, data_add])
@pytest.mark.parametrize("which", ["leaf", "result"])
def test_writes_that_torch_does_not_see_are_found(write, which):
    def run():
        x = leaf()
        h = x if which == "leaf" else x * 1
        y = h.square().sum()
        write(h)
        y.backward()
        return x.grad

    unguarded = run()  # torch says nothing and returns a wrong gradient
    assert not torch.equal(unguarded, 2 * leaf().detach())
    guard = SavedTensorGuard()
    with guard.batch(0):
        assert torch.equal(run(), unguarded)
    assert [(f.version_moved, f.shape) for f in guard.findings] == [(False, (3,))]
