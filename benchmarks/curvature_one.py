"""One measurement of the curvature benchmark in a process of its own, so that memory and patches are its own.

    python benchmarks/curvature_one.py TASK NETWORK FOLDER [arguments]

Prints one JSON object. Weights and references of a network lie in FOLDER, made by the task ``reference``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ablate.curvature import Curvature, Hessian, Plan, look, objective
from ablate.curvature.edges import SETTLED
from ablate.curvature.lanczos import Krylov
from benchmarks.curvature_kept import kept
from benchmarks.curvature_methods import METHODS, TOLERANCE, Ends, missing
from benchmarks.curvature_networks import STEPS, TRAINED, Network, network
from benchmarks.curvature_whole import density
from benchmarks.resident import peak, resident

LONG = 600
EXACT = 1e-6
"""Tolerance of the runs that others are held against."""

SNAPSHOTS, BETWEEN, STARTS = 5, 10, 3
LONGEST = 12.0
ROUNDS = 5
"""Of each repeat of a product: by three calls alone its price moved by a quarter from run to run."""


def reference(name: str, folder: Path, seeds: int) -> dict[str, Any]:
    """Train, keep the weights, find both ends by a long run, and how many steps give them.

    The long run is Lanczos to ``EXACT`` from another start. The steps are the most that ``STARTS`` random starts need,
    and those that ours waits for a value to stand still.
    """
    net = network(name)
    net.train(STEPS.get(name, TRAINED))
    torch.save(net.model.state_dict(), folder / f"{name}.pt")
    hessian = Hessian(objective(net.model, net.loss, [net.batch]))
    exact = look(hessian, Plan(tolerance=EXACT, most_steps=LONG, probes=0, seed=99))
    top, bottom, needed = exact.top, exact.bottom, []
    for seed in range(1000, 1000 + STARTS):
        start = torch.randn(hessian.dimension, generator=torch.Generator().manual_seed(seed))
        krylov = Krylov(hessian.__matmul__, start)
        while True:
            krylov.extend()
            values = krylov.ritz().values
            errors = abs(values[-1] / top.value - 1), abs(values[0] / bottom.value - 1)
            if max(errors) <= TOLERANCE / 2 or len(krylov) >= LONG:
                break
        needed.append(len(krylov))
    found = {
        "top": top.value,
        "bottom": bottom.value,
        "bounds": [top.bound, bottom.bound],
        "steps": max(needed) + SETTLED,
    }
    found |= {"parameters": hessian.dimension, "converged": top.converged and bottom.converged}
    (folder / f"{name}.json").write_text(json.dumps(found))
    return found


def ends(name: str, folder: Path, seeds: int, method: str, told: str = "") -> dict[str, Any]:
    """Measure one method: medians over ``seeds`` runs, true errors, memory beside a gradient's, and what is kept.

    ``told`` are the steps it is to make; those of the reference if empty.
    """
    net, known = _trained(name, folder), json.loads((folder / f"{name}.json").read_text())
    package, call = METHODS[method]
    steps, started, most, kept = int(told or known["steps"]), time.thread_time(), 0, 0
    if package:
        importlib.import_module(package)
    gradient_peak = peak(lambda: _gradient(net))
    runs: list[tuple[Ends, float, float]] = []

    def run() -> None:
        begun, wall = time.thread_time(), time.perf_counter()
        found = call(net, len(runs), steps)
        runs.append((found, time.thread_time() - begun, time.perf_counter() - wall))

    for seed in range(seeds):
        before, high = resident(), peak(run)
        net.model.zero_grad(set_to_none=True)  # a package may leave gradients on the model, which the user drops
        most, kept = max(most, high), resident() - before  # of the last: what the first set up stays
        if seed == 0 and time.thread_time() - started > LONGEST:
            break
    return {
        "runs": len(runs),
        "products": median(run.products for run, _, _ in runs),
        "every": {"products": [run.products for run, _, _ in runs], "seconds": [took for _, took, _ in runs]},
        "gradients": median(run.gradients for run, _, _ in runs),
        "steps": median(run.steps for run, _, _ in runs),
        "seconds": median(took for _, took, _ in runs),
        "wall_seconds": median(took for _, _, took in runs),
        "top_error": max(abs(run.top / known["top"] - 1) for run, _, _ in runs),
        "bottom_error": max(abs(run.bottom / known["bottom"] - 1) for run, _, _ in runs),
        "wrong": sum(_wrong(run, known) for run, _, _ in runs),
        "density": len(runs[0][0].nodes) > 0,
        "peak_mb": (most - gradient_peak) / 1e6,
        "kept_mb": kept / 1e6 if len(runs) > 1 else None,  # after one run, what a package set up would count
    }


def _wrong(found: Ends, known: dict[str, float]) -> bool:
    """Return whether an end is off by more than the tolerance, or not given."""
    errors = found.top / known["top"] - 1, found.bottom / known["bottom"] - 1
    return not all(abs(error) <= TOLERANCE for error in errors)


def product(name: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Measure what a product costs in gradients, by each way to it."""
    net, repeats = _trained(name, folder), ROUNDS * repeats
    target = objective(net.model, net.loss, [net.batch])
    kept, anew = Hessian(target), Hessian(target, keep=False)
    vector = torch.randn(kept.dimension)
    gradient = _seconds(lambda: _gradient(net), repeats)
    found = {"kept graph (ours)": _seconds(lambda: kept @ vector, repeats) / gradient}
    found["graph built anew"] = _seconds(lambda: anew @ vector, repeats) / gradient
    parameters = {key: p.detach() for key, p in net.model.named_parameters()}

    def loss(values: dict[str, torch.Tensor]) -> torch.Tensor:
        value: torch.Tensor = net.criterion(
            torch.func.functional_call(net.model, values, (net.batch[0],)), net.batch[1]
        )
        return value

    tangent = {key: torch.randn_like(p) for key, p in parameters.items()}
    begun = time.thread_time()
    _, linear = torch.func.linearize(torch.func.grad(loss), parameters)
    found["torch.func.linearize, its building"] = (time.thread_time() - begun) / gradient
    found["torch.func.linearize, reused"] = _seconds(lambda: linear(tangent), repeats) / gradient
    if not missing("curvlinops"):
        from curvlinops import HessianLinearOperator

        operator = HessianLinearOperator(net.model, net.criterion, list(net.model.parameters()), [net.batch])
        found["jvp of the gradient (curvlinops)"] = _seconds(lambda: operator @ vector, repeats) / gradient
    if not missing("hessian_eigenthings"):
        from hessian_eigenthings import HessianOperator

        other = HessianOperator(net.model, [net.batch], net.loss)
        found["graph built anew (hessian-eigenthings)"] = _seconds(lambda: other.matvec(vector), repeats) / gradient
    return {"gradient_ms": gradient * 1e3, "ways": found}


def warm(name: str, folder: Path, seeds: int) -> dict[str, Any]:
    """Look at five snapshots of one run, each from a random start, and each from the vectors of the one before."""
    net = _trained(name, folder)
    cold, warmed, before = 0, 0, None
    errors: list[float] = []
    for number in range(SNAPSHOTS):
        target = objective(net.model, net.loss, [net.batch])
        alone = look(Hessian(target), Plan(probes=0, seed=number))
        found: Curvature = alone if before is None else look(Hessian(target), Plan(probes=0, seed=number), warm=before)
        cold, warmed, before = cold + alone.products, warmed + found.products, found
        exact = look(Hessian(target), Plan(tolerance=EXACT, most_steps=150, probes=0, seed=99))
        errors += [abs(found.top.value / exact.top.value - 1), abs(found.bottom.value / exact.bottom.value - 1)]
        net.train(BETWEEN)
    return {"cold": cold, "warm": warmed, "ratio": cold / warmed, "worst_error": max(errors)}


def _trained(name: str, folder: Path) -> Network:
    net = network(name)
    net.model.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
    return net


def _gradient(net: Network) -> object:
    return torch.autograd.grad(net.loss(net.model, net.batch), list(net.model.parameters()))


def _seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median processor time of a call; the first is not counted."""
    times = []
    for _ in range(repeats + 1):
        begun = time.thread_time()
        call()
        times.append(time.thread_time() - begun)
    return median(times[1:])


def keeping(name: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Measure what keeping weights costs a trial; no network of the others."""
    torch.set_default_dtype(torch.float32)
    return kept()


TASKS = {"reference": reference, "product": product, "density": density, "warm": warm, "kept": keeping}


def main() -> None:
    """Measure, and print what was found."""
    task, name, folder, count, *rest = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    found = (
        ends(name, Path(folder), int(count), *rest) if task == "ends" else TASKS[task](name, Path(folder), int(count))
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
