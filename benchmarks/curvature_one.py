"""One measurement of the curvature benchmark in a process of its own, so that memory and patches are its own.

    python benchmarks/curvature_one.py TASK NETWORK FOLDER [arguments]

Prints one JSON object. Weights and references of a network lie in FOLDER, made by the task ``reference``.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.stats import wasserstein_distance

from ablate.curvature import Curvature, Hessian, Plan, look, objective
from ablate.curvature.edges import SETTLED, grow
from ablate.curvature.lanczos import Krylov
from ablate.curvature.trace import deflated
from benchmarks.curvature_methods import METHODS, Ends, missing
from benchmarks.curvature_networks import STEPS, Network, network

TRAINED, TOLERANCE, LONG = 40, 1e-3, 600
EXACT = 1e-6
"""Tolerance of the runs that others are held against."""

SNAPSHOTS, BETWEEN, STARTS = 5, 10, 3
LONGEST = 20.0
TRACE_PRODUCTS, TRACE_SEEDS, DENSITY_SEEDS = 99, 40, 20
FOREIGN_SEEDS = 5
"""Starts of packages that take the network itself."""


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


def ends(name: str, folder: Path, seeds: int, method: str) -> dict[str, Any]:
    """Measure one method: medians over ``seeds`` runs, true errors, memory beside a gradient's, and what is kept."""
    net, known = _trained(name, folder), json.loads((folder / f"{name}.json").read_text())
    package, call = METHODS[method]
    steps, started, peak, kept = int(known["steps"]), time.thread_time(), 0, 0
    if package:
        importlib.import_module(package)
    gradient_peak = _peak(lambda: _gradient(net))
    runs: list[tuple[Ends, float, float]] = []

    def run() -> None:
        begun, wall = time.thread_time(), time.perf_counter()
        found = call(net, len(runs), steps)
        runs.append((found, time.thread_time() - begun, time.perf_counter() - wall))

    for seed in range(seeds):
        before, high = _resident(), _peak(run)
        net.model.zero_grad(set_to_none=True)  # a package may leave gradients on the model, which the user drops
        peak, kept = max(peak, high), _resident() - before  # of the last: what the first set up stays
        if seed == 0 and time.thread_time() - started > LONGEST:
            break
    return {
        "runs": len(runs),
        "products": median(run.products for run, _, _ in runs),
        "every": {"products": [run.products for run, _, _ in runs], "seconds": [took for _, took, _ in runs]},
        "gradients": median(run.gradients for run, _, _ in runs),
        "seconds": median(took for _, took, _ in runs),
        "wall_seconds": median(took for _, _, took in runs),
        "top_error": max(abs(run.top / known["top"] - 1) for run, _, _ in runs),
        "bottom_error": max(abs(run.bottom / known["bottom"] - 1) for run, _, _ in runs),
        "density": len(runs[0][0].nodes) > 0,
        "peak_mb": (peak - gradient_peak) / 1e6,
        "kept_mb": kept / 1e6 if len(runs) > 1 else None,  # after one run, what a package set up would count
    }


def product(name: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Measure what a product costs in gradients, by each way to it."""
    net = _trained(name, folder)
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


def density(name: str, folder: Path, seeds: int) -> dict[str, Any]:
    """Compare densities and traces with the whole spectrum of the small network, at equal products.

    Distances are Wasserstein-1, relative to that of the spectrum from zero, the mean of |eigenvalue|; means over seeds.
    """
    net = network(name, small=True)
    net.train(TRAINED)
    target = objective(net.model, net.loss, [net.batch])
    hessian = Hessian(target)
    matrix = torch.stack([hessian @ e for e in torch.eye(hessian.dimension)])
    matrix = (matrix + matrix.T) / 2
    true = np.linalg.eigvalsh(matrix.numpy())
    scale = float(np.abs(true).mean())
    measures: dict[str, list[float]] = {}
    products = []
    for seed in range(DENSITY_SEEDS):
        found = look(Hessian(target), Plan(tolerance=TOLERANCE, seed=seed))
        assert found.density is not None
        ritz, of_ours = found.edges.ritz, found.density
        products.append(found.products)
        made = {"ours": (of_ours.nodes, of_ours.weights), "plain quadrature": (ritz.values, ritz.first**2)}
        for method, (package, call) in METHODS.items():
            if seed < FOREIGN_SEEDS and "told the steps" in method and not missing(package):
                other = call(net, seed, len(ritz.values))
                made[method.replace("told the steps", "same steps")] = (other.nodes, other.weights)
        for key, (nodes, weights) in made.items():
            measures.setdefault(key, []).append(wasserstein_distance(nodes, true, weights) / scale)
    return {
        "parameters": hessian.dimension,
        "largest_share": float(true[-1] / true.sum()),
        "products": products,
        "w1": {key: float(np.mean(errors)) for key, errors in measures.items()},
        "w1_errors": {key: float(np.std(errors, ddof=1) / len(errors) ** 0.5) for key, errors in measures.items()},
        **_traces(matrix),
    }


class _Counted:
    """A matrix as an operator that hessian-eigenthings takes, and that counts its products."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self.matrix, self.products = matrix, 0
        self.shape, self.dtype, self.device = matrix.shape, matrix.dtype, matrix.device
        self.size = len(matrix)

    def matvec(self, vector: torch.Tensor) -> torch.Tensor:
        """Return a product."""
        self.products += 1
        return self.matrix @ vector

    __matmul__ = matvec


def _traces(matrix: torch.Tensor) -> dict[str, dict[str, float]]:
    """Return root mean squared relative errors of trace estimates at 99 products, and these errors' own.

    All on the whole matrix, which costs little, so that many seeds can be had. Ours spends some of the products on the
    ends of the spectrum, as a probe does.
    """
    true = float(matrix.trace())
    ways: dict[str, Callable[[int], float]] = {"ours": lambda s: _our_trace(matrix, s)}
    if not missing("curvlinops"):
        from curvlinops import hutchinson_trace, hutchpp_trace
        from curvlinops import xtrace as their_xtrace

        ways["curvlinops, Hutchinson"] = lambda s: float(hutchinson_trace(matrix, TRACE_PRODUCTS))
        ways["curvlinops, Hutch++"] = lambda s: float(hutchpp_trace(matrix, TRACE_PRODUCTS))
        ways["curvlinops, XTrace"] = lambda s: float(their_xtrace(matrix, TRACE_PRODUCTS - 1))
    if not missing("hessian_eigenthings"):
        import hessian_eigenthings as he

        for method in ("hutchinson", "hutch++"):
            ways[f"hessian-eigenthings, {method}"] = lambda s, m=method: (
                he.trace(_Counted(matrix), num_matvecs=TRACE_PRODUCTS, method=m, seed=s).estimate  # type: ignore[misc]
            )
    errors, spreads = {}, {}
    for way, estimate in ways.items():
        squares = []
        for seed in range(TRACE_SEEDS):
            torch.manual_seed(seed)
            squares.append((estimate(seed) / true - 1) ** 2)
        errors[way] = float(np.mean(squares)) ** 0.5
        spreads[way] = float(np.std(squares, ddof=1)) / TRACE_SEEDS**0.5 / (2 * errors[way])
    return {"trace": errors, "trace_errors": spreads}


def _our_trace(matrix: torch.Tensor, seed: int) -> float:
    operator, draws = _Counted(matrix), torch.Generator().manual_seed(seed)
    krylov = Krylov(operator.matvec, torch.randn(operator.size, generator=draws))
    grow(krylov, TOLERANCE, TRACE_PRODUCTS)
    found = deflated(krylov, TRACE_PRODUCTS - operator.products, draws)
    assert operator.products <= TRACE_PRODUCTS
    return found.value


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


def _resident() -> int:
    """Return the process's resident bytes, after what is free was given back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return _status("VmRSS")


def _peak(call: Callable[[], object]) -> int:
    """Return by how many bytes the resident set grew at most while a call ran."""
    before = _resident()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    found = call()
    peak = _status("VmHWM") - before
    del found
    return peak


def _status(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


TASKS = {"reference": reference, "product": product, "density": density, "warm": warm}


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
