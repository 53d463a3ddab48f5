"""The guard's hooks when backward runs in several threads, as it does for CUDA beside the CPU."""

from __future__ import annotations

import sys
import threading

import torch

from ablate.audit.guard import SavedTensorGuard

LENGTH, THREADS = 400, 4


def chain(start: torch.Tensor) -> torch.Tensor:
    x = start
    for _ in range(LENGTH):
        x = x.tanh()  # saves its result
    return x.sum()


def test_no_comparison_is_lost_between_threads() -> None:
    guard = SavedTensorGuard()
    leaves = [torch.full((3,), 0.1 * (k + 1), requires_grad=True) for k in range(THREADS)]
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)
        with guard.batch(0):
            losses = [chain(leaf) for leaf in leaves]
            threads = [threading.Thread(target=loss.backward) for loss in losses]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert guard.tensors_saved == guard.tensors_checked == LENGTH * THREADS
    assert guard.tensors_never_used == 0
    assert guard.findings == []
    for leaf in leaves:
        expected = leaf.detach().clone().requires_grad_()
        chain(expected).backward()
        assert leaf.grad is not None
        assert torch.equal(leaf.grad, expected.grad)


def test_a_finding_in_another_thread_names_line_and_operation() -> None:
    guard = SavedTensorGuard()
    weight, data = torch.ones(3, requires_grad=True), torch.ones(3)
    with guard.batch(0):
        loss = (weight * data).sum()
        data.numpy()[:] = 5.0
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert len(guard.findings) == 1
    assert "test_guard_threads.py" in guard.findings[0].source
    assert "MulBackward0" in guard.findings[0].role


def test_a_tensor_saved_without_a_frame_of_the_users_has_no_source() -> None:
    """A device thread of autograd has no Python stack; what a backward saves there is watched all the same."""
    guard = SavedTensorGuard()
    with guard.batch(0):
        saved = guard._pack(torch.ones(3))
    assert guard._unpack(saved).tolist() == [1.0, 1.0, 1.0]
    assert guard.tensors_checked == 1
