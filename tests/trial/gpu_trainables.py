"""Trainables for the tests on a GPU."""

from __future__ import annotations

from typing import Any

import torch


def function_sees_no_gpu(config: dict[str, Any], ctx: Any) -> None:
    assert ctx.device.type == "cpu"
    assert not torch.cuda.is_available()
    for _ in range(ctx.batches):
        ctx.batch(torch.ones(()))


def function_draws_on_its_device(config: dict[str, Any], ctx: Any) -> None:
    for _ in range(ctx.batches):
        ctx.batch(torch.rand((), device=ctx.device))
