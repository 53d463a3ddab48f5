"""Which errors only say that another worker is gone; any other one is the trainable's, and no attempt is made again."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from ablate.trial.ranks import WorkerLost, is_loss

GLOO = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"


@pytest.mark.parametrize(
    "error",
    [
        WorkerLost("another worker is gone"),
        dist.DistBackendError("NCCL error in: ProcessGroupNCCL.cpp:2356"),
        # raised by a backward pass of torch 2.13 whose other process was killed, and by one whose other hung
        RuntimeError(f"{GLOO}pair.cc:553] Connection closed by peer [127.0.0.1]:62170."),
        RuntimeError(f"{GLOO}unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete"),
        RuntimeError("Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144]"),
    ],
)
def test_what_torch_raises_of_another_worker_is_a_loss(error: Exception) -> None:
    assert is_loss(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Broken pipe"),
        RuntimeError("ffmpeg: av_interleaved_write_frame(): Broken pipe"),
        RuntimeError("Connection closed by peer while fetching the data"),
        RuntimeError("this trainable needs NCCL"),
        BrokenPipeError(32, "Broken pipe"),
        ValueError("third_party/gloo"),
    ],
)
def test_what_a_trainable_raises_of_its_own_pipes_is_none(error: Exception) -> None:
    assert not is_loss(error)
