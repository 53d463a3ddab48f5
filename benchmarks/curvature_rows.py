"""What the curvature benchmark found, held against what was aimed at: one comparison a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from benchmarks.curvature_methods import ALONE, EIGSH, OURS, THEN, TOLERANCE
from benchmarks.curvature_networks import HARD
from benchmarks.measured import Comparison

Found = Mapping[str, Any]
MOST_PRODUCTS, MOST_GRADIENTS = 45, 2.6
FEWER = {
    "curvlinops, defaults": (5.0, 6.0),
    "hessian-eigenthings, defaults": (8.0, 8.0),
}
"""How many times fewer products, and how many times less time, than each."""

THAN_EIGSH = (2.0, 2.3)
MOST_OF_A_TRIAL = 0.02

PYHESSIAN_SPEED, PYHESSIAN_MEMORY = 0.9, 2.0
OUTLIERS, LOWER = "ConvLSTM", 2.0
WARM = 1.3


def comparisons(found: Mapping[str, Found]) -> list[Comparison]:
    """Return the rows; what failed or was not measured has none.

    Args:
        found: by network, as ``curvature.measured`` returns it.
    """
    rows: list[Comparison] = []
    for name, here in found.items():
        rows += _ends(name, here.get("ends", {}))
        for task, make in (("product", _product), ("density", _density), ("warm", _warm), ("kept", _kept)):
            if task in here and "failed" not in here[task]:
                rows += make(name, here[task])
    return rows


def _ends(name: str, methods: Found) -> Iterator[Comparison]:
    ours = methods.get(OURS, {"failed": ""})
    if "failed" in ours:
        return
    for method, times in FEWER.items():
        yield from _costs(name, "both ends and density", ours, method, methods, times)
    peer = best_eigsh(methods)
    if peer:
        made = f"a quadrature of as many steps as ours, {ours['steps']:.0f}"
        yield from _costs(name, "both ends and density", ours, peer + THEN, methods, THAN_EIGSH, made)
        others = ", ".join(
            _outcome(method, methods[method]) for method in EIGSH if method in methods and method != peer
        )
        note = f"of its settings the cheapest that is right; {others}" if others else "the only setting run"
        alone = methods.get(ALONE, {"failed": ""})
        if "failed" not in alone:
            yield from _costs(name, "both ends, no density on either side", alone, peer, methods, THAN_EIGSH, note)
    error = f"{name}, both ends: worst relative error"
    yield Comparison(error, "", (worst(ours),), target=f"<= {TOLERANCE:g}", met=right(ours))
    kept = ours["kept_mb"]
    if kept is not None:
        yield Comparison(f"{name}: memory kept after a probe", "MB", (kept,), target="<= 1 MB", met=kept <= 1)
    yield from _pyhessian(name, ours, methods)


def best_eigsh(methods: Found) -> str:
    """Return which of its settings costs the fewest products of those that are right, of all if none is; or nothing."""
    ran = {method: methods[method] for method in EIGSH if "failed" not in methods.get(method, {"failed": ""})}
    return min(ran, key=lambda method: (not right(ran[method]), ran[method]["products"]), default="")


def _outcome(method: str, row: Found) -> str:
    if "failed" in row:
        return f"{method} failed"
    return f"{method} {row['products']:.0f} products, {'right' if right(row) else f'wrong by {worst(row):.1e}'}"


def _costs(
    name: str, what: str, ours: Found, method: str, methods: Found, times: tuple[float, float], note: str = ""
) -> Iterator[Comparison]:
    """Return a row of products and one of time, if the peer did not fail."""
    peer = methods.get(method, {"failed": ""})
    if "failed" in peer:
        return
    missed = "" if right(peer) else f"the peer misses {TOLERANCE:g}: {worst(peer):.1e}"
    note = "; ".join(filter(None, [missed, note]))
    for key, unit, least in (("products", "products", times[0]), ("seconds", "s", times[1])):
        mine, theirs = (tuple(map(float, run["every"][key])) for run in (ours, peer))
        goal = f">= {least:g} times {'fewer' if key == 'products' else 'less'}"
        met = median(theirs) >= least * median(mine)
        if key == "products":
            goal, met = f"<= {MOST_PRODUCTS}, {goal}", met and median(mine) <= MOST_PRODUCTS
        label = f"{name}, {what}: {'products' if key == 'products' else 'time'}"
        yield _aimed(name, Comparison(label, unit, mine, method, theirs, goal, met, note))


def _aimed(name: str, row: Comparison) -> Comparison:
    """Return a row without its target where ends are hard to find: nothing was aimed at there but to be right."""
    return replace(row, target="", met=None) if name in HARD else row


def _pyhessian(name: str, ours: Found, methods: Found) -> Iterator[Comparison]:
    for method in ("PyHessian, defaults", "PyHessian, told the steps"):
        peer = methods.get(method, {"failed": ""})
        if "failed" in peer:
            continue
        mine, theirs = (tuple(map(float, run["every"]["seconds"])) for run in (ours, peer))
        goal = f">= {PYHESSIAN_SPEED:g} of its speed"
        met = median(theirs) >= PYHESSIAN_SPEED * median(mine)
        note = "" if right(peer) else f"the peer misses {TOLERANCE:g}: {worst(peer):.1e}"
        speed = Comparison(f"{name}, both ends and density: time", "s", mine, method, theirs, goal, met, note)
        yield _aimed(name, speed)
        memory, goal = f"{name}: peak memory beside a gradient's", f"<= {PYHESSIAN_MEMORY:g} times its"
        met = ours["peak_mb"] <= PYHESSIAN_MEMORY * peer["peak_mb"]
        yield Comparison(memory, "MB", (ours["peak_mb"],), method, (peer["peak_mb"],), goal, met)


def worst(row: Found) -> float:
    """Return the larger error of the two ends; infinite where an end is not given."""
    errors = (row["top_error"], row["bottom_error"])
    return max(float("inf") if error != error else float(error) for error in errors)


def right(row: Found) -> bool:
    """Return whether both ends are within the tolerance in every run."""
    return worst(row) <= TOLERANCE


def _product(name: str, found: Found) -> Iterator[Comparison]:
    ways = dict(found["ways"])
    ours = ways.pop("kept graph (ours)")
    peer, cost = min(((way, cost) for way, cost in ways.items() if "building" not in way), key=lambda pair: pair[1])
    goal, note = f"<= {MOST_GRADIENTS:g}", ""
    if "linearize" in peer:
        note = f"its building costs {ways['torch.func.linearize, its building']:.0f} gradients more"
    met = ours <= MOST_GRADIENTS
    yield Comparison(f"{name}: one product, in gradients", "gradients", (ours,), peer, (cost,), goal, met, note)


def _density(name: str, found: Found) -> Iterator[Comparison]:
    ours, plain = found["w1"]["ours"], found["w1"]["plain quadrature"]
    times = LOWER if name == OUTLIERS else 1.0
    goal = f">= {times:g} times lower" if times > 1 else "no worse"
    yield Comparison(
        f"{name}, density: Wasserstein-1 error at equal products",
        "mean |eigenvalue|",
        (ours,),
        "plain quadrature",
        (plain,),
        goal,
        plain >= times * ours,
        f"standard errors {found['w1_errors']['ours']:.2g} and {found['w1_errors']['plain quadrature']:.2g}",
    )
    if "plain_steps" in found:
        what, most = f"{name}, small: steps for our density's mean error", found["plain_most"]
        needed = found["plain_steps"]
        theirs, note = ((float(needed),), "") if needed else ((), f"not reached within {most} steps")
        yield Comparison(what, "steps", (float(found["steps"]),), "plain quadrature", theirs, note=note)
    others = {way: error for way, error in found["trace"].items() if way != "ours"}
    if not others:
        return
    peer = min(others, key=lambda way: others[way])
    mine, errors = found["trace"]["ours"], (found["trace_errors"]["ours"], found["trace_errors"][peer])
    yield Comparison(
        f"{name}, trace at 99 products: relative error",
        "",
        (mine,),
        peer,
        (others[peer],),
        "no worse than the best, up to two standard errors",
        mine <= others[peer] + 2 * _joined(errors),
        f"standard errors {errors[0]:.2g} and {errors[1]:.2g}",
    )


def _joined(errors: Sequence[float]) -> float:
    return float(sum(error**2 for error in errors)) ** 0.5


def _warm(name: str, found: Found) -> Iterator[Comparison]:
    warm, cold, met = float(found["warm"]), float(found["cold"]), found["ratio"] >= WARM
    what, goal = f"{name}: products for five snapshots", f">= {WARM:g} times fewer"
    note = f"worst relative error {found['worst_error']:.1e}"
    yield Comparison(what, "products", (warm,), "five cold starts", (cold,), goal, met, note)


def _kept(name: str, found: Found) -> Iterator[Comparison]:
    for key, words in (("cpu", "processor time"), ("wall", "time on the clock")):
        share, whole = 100 * found["keeping"][key] / found["trial"][key], found["trial"][key]
        what = f"{name}: keeping weights for probes, of a trial's {words}"
        note = f"{found['snapshots']} snapshots; {found['windows']} windows in {whole:.1f} s"
        most = 100 * MOST_OF_A_TRIAL
        yield Comparison(what, "%", (share,), target=f"<= {most:g} %", met=share <= most, note=note)
