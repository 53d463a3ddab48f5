"""``compile: true``: what is compiled, and the proof that it was.

Compiled is the loss function: for a structured trainable its ``loss`` (each player's own, if it has one), for a
function trainable what it passes through ``ctx.compile``. With it goes the backward of what it computes. Not compiled
are the optimiser's step, the hooks and ``evaluate``. Where torch.compile cannot follow the code it breaks the graph and
runs that part as written; how many graphs and breaks there were is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from ablate.design.trial_spec import Numerics
from ablate.errors import Problem
from ablate.trial.effect import ArmNotInEffect

F = TypeVar("F", bound=Callable[..., Any])


def maybe_compiled(function: F, numerics: Numerics) -> F:
    """Return ``function``, compiled if the arm asks for it.

    Compiling happens in this process (no pool of workers), random draws stay those of eager mode, and code that is
    compiled anew too often is an error instead of a silent return to eager mode.
    """
    if not numerics.compile:
        return function
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    inductor.fallback_random = True
    if hasattr(torch._dynamo.config, "fail_on_recompile_limit_hit"):
        torch._dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(function)  # type: ignore[return-value]


def compile_columns(numerics: Numerics) -> dict[str, object]:
    """Return how many graphs were compiled in this process and how often one was broken; empty unless asked for."""
    if not numerics.compile:
        return {}
    counters = torch._dynamo.utils.counters
    return {
        "compiled_graphs": int(counters["stats"]["unique_graphs"]),
        "graph_breaks": sum(counters["graph_break"].values()),
    }


def check_compiled(numerics: Numerics) -> None:
    """Check after the first batch that something was compiled.

    Raises:
        ArmNotInEffect: nothing was.
    """
    if numerics.compile and not compile_columns(numerics)["compiled_graphs"]:
        raise ArmNotInEffect(
            Problem(
                "compile",
                "asked for true, but torch.compile had made no graph when the first batch ended",
                advice="A function trainable passes its loss function through ctx.compile, once, before its loop; "
                "code that torch.compile cannot follow at all runs as written.",
            )
        )
