"""Both ends of a Hessian's spectrum, its density and its trace: beside scipy and the packages people use for them.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/curvature.py --peers DIR [--repeats 3] [--only TASK]
        [--json FILE] [--page docs/curvature.md]

``--peers`` is a folder with the packages that are compared, which this project does not install: PyHessian 0.1,
curvlinops-for-pytorch 3.0.1 and hessian-eigenthings 1.0.0a5, by ``pip install --target DIR --no-deps``, and what they
import: backpack-for-pytorch, einconv, linear_operator, opt_einsum, jaxtyping, wadler_lindig, einops, unfoldNd, tqdm.
Without it ours is measured, beside scipy. A method that fails, is missing or takes over ``LONGEST_S`` is said in its
row, and the others go on. Broken off by SIGINT or SIGTERM (``timeout 700 ...``) it shows and writes what it has.

Networks in float64 (``curvature_networks.py``), each method in a process of its own (``curvature_one.py``), at its
defaults and at its best setting (``curvature_methods.py``): the best that a user can choose beforehand, and, of those
that take a number of steps and do not say whether they suffice, the fewest that do. Every method is asked for a
relative error of 1e-3 at both ends; true errors are against a run to 1e-6 from another start. ``eigsh`` is run at four
settings, and the cheapest that is right is the peer: once as it is, without a density, against ours without one, and
once followed by a quadrature of as many steps as ours made. Products are counted where they are called. Seconds are the
one thread's processor time, medians of the repeats (one run of what takes over 12 seconds, or cannot be the cheapest
of its kind; three times as many of what decides by itself when to stop, since that depends on the start), errors the
worst of them, "wrong" in how many an error was over 1e-3.
Memory is the resident set's peak beside that of one gradient, and what is left when all results were dropped. The
package that takes 840 products is run on one network; ``--all`` runs it on all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from ablate.trial.cpu import cpu_model
from benchmarks.curvature_kept import PREDNET
from benchmarks.curvature_methods import APART, AT_HARD, BY_START, DEAREST, METHODS, OURS, THEN, TOLERANCE, missing
from benchmarks.curvature_networks import HARD, LATE, NAMES
from benchmarks.curvature_page import curvature_page
from benchmarks.curvature_rows import best_eigsh, comparisons
from benchmarks.measured import arguments, report
from benchmarks.surroundings import Surroundings

TITLE = "Curvature: ends of the spectrum, density, trace"
TASKS = ("ends", "product", "density", "warm", "kept")
WIDTH = 140
MORE_STARTS = 3
LONGEST_S = 600.0
"""A measurement that takes longer has gone wrong."""


def one(task: str, name: str, folder: str, count: int, *rest: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("curvature_one.py")), task, name, folder, str(count), *rest]
    path = os.pathsep.join(p for p in sys.path if p)
    environment = os.environ | {"PYTHONPATH": path}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {LONGEST_S:.0f} s"}
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {"failed": said[-1] if said else f"ended with {done.returncode} and said nothing"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(found: dict[str, Any], tasks: list[str], repeats: int, every: bool, console: Console) -> None:
    """Add everything that was asked for to ``found``, by network; with ``every`` the dearest package on every one."""

    def told(here: dict[str, Any], key: str, *row: Any) -> None:
        here[key] = row[-1]
        console.print(*row, style="dim")

    with TemporaryDirectory() as folder:
        if "kept" in tasks:
            told(found.setdefault(PREDNET, {}), "kept", PREDNET, one("kept", PREDNET, folder, repeats))
        for name in (*NAMES, *HARD) if "ends" in tasks else NAMES:
            here: dict[str, Any] = found.setdefault(name, {})
            told(here, "reference", name, one("reference", name, folder, repeats))
            if "failed" in here["reference"]:
                here |= {task: here["reference"] for task in tasks if task not in ("ends", "kept")}
                continue
            if "ends" in tasks:
                ends: dict[str, Any] = {}
                here["ends"] = ends
                for method in methods_of(name, every):
                    package = METHODS[method][0]
                    lost = missing(package)
                    times = 1 if method in APART else starts(name, method, repeats)
                    row = {"failed": f"{package} is not there"} if lost else one("ends", name, folder, times, method)
                    told(ends, method, name, method, row)
                peer, steps = best_eigsh(ends), ends[OURS].get("steps")
                if peer and steps:
                    row = one("ends", name, folder, starts(name, peer, repeats), peer + THEN, f"{steps:.0f}")
                    told(ends, peer + THEN, name, peer + THEN, row)
            for task in ("product", "density", "warm"):
                if task in tasks and name not in HARD:
                    told(here, task, name, one(task, name, folder, repeats))


def starts(name: str, method: str, repeats: int) -> int:
    """Return how many runs of a method are made: more of what decides by itself when to stop, but where one is long."""
    return MORE_STARTS * repeats if method in BY_START and name != LATE else repeats


def methods_of(name: str, every: bool) -> list[str]:
    """Return what is compared on a network, but for what waits for the number of our steps."""
    if name in HARD:
        return list(AT_HARD)
    methods = [method for method in METHODS if not method.endswith(THEN)]
    return [method for method in methods if every or method != DEAREST or name == NAMES[0]]


def ends_table(name: str, here: Mapping[str, Any]) -> Table:
    """Return one network's methods. In brackets: times ours."""
    known = here["reference"]
    if "failed" in known or "ends" not in here:
        known = {"failed": "broken off"} | known
        return Table(title=f"{name}: no reference, so nothing was measured: {known['failed']}")
    top, bottom = known["top"], known["bottom"]
    title = f"{name}, {known['parameters']:,} parameters: eigenvalues from {bottom:.4g} to {top:.4g}"
    table = Table(title=title)
    columns = ("products", "seconds", "error, top", "error, bottom", "wrong", "density", "bounds", "peak MB", "kept MB")
    for column in ("method", *columns):
        table.add_column(column, justify="left" if column == "method" else "right")
    ours = here["ends"].get(OURS, {"failed": "broken off"})
    for method, row in here["ends"].items():
        if "failed" in row:
            table.add_row(method, row["failed"], *[""] * (len(columns) - 1))
            continue
        products = f"{row['products']:.0f}{_times(row, ours, 'products')}"
        seconds = f"{row['seconds']:.2f}{_times(row, ours, 'seconds')}"
        errors = [_error(row["top_error"]), _error(row["bottom_error"])]
        errors.append(f"{row['wrong']} of {row['runs']}")
        yes = ["yes" if row["density"] else "no", "yes" if method.startswith(OURS) else "no"]
        kept = "" if row["kept_mb"] is None else f"{row['kept_mb']:.0f}"
        table.add_row(method, products, seconds, *errors, *yes, f"{row['peak_mb']:.0f}", kept)
    return table


def _times(row: Mapping[str, Any], ours: Mapping[str, Any], key: str) -> str:
    return "" if "failed" in ours else f" ({row[key] / ours[key]:.2g}x)"


def _error(value: float) -> str:
    if value != value:
        return "not given"
    return f"{value:.1e}" if value <= TOLERANCE else f"[bold red]{value:.1e}[/]"


def ways_table(title: str, found: Mapping[str, Mapping[str, float]], form: str) -> Table:
    """Return ways as rows and networks as columns."""
    table = Table(title=title)
    table.add_column("way")
    for name in found:
        table.add_column(name, justify="right")
    for way in dict.fromkeys(way for ways in found.values() for way in ways):
        values = (ways.get(way) for ways in found.values())
        table.add_row(way, *("" if value is None else format(value, form) for value in values))
    return table


def put(table: Table, console: Console) -> None:
    """Print a table's title above it, not folded to its width."""
    title, table.title = table.title, None
    console.print(title, style="bold", highlight=False)
    console.print(table)


def show(found: Mapping[str, Any], tasks: list[str], console: Console) -> None:
    """Print the tables."""
    for name, here in found.items():
        if "ends" in here or "failed" in here.get("reference", {}):
            put(ends_table(name, here), console)
    for task in tasks:
        for name, here in found.items():
            if task != "ends" and "failed" in here.get(task, {}):
                console.print(f"{task}, {name}: {here[task]['failed']}", style="red")
    ways = {name: row["ways"] for name, row in _good(found, "product").items()}
    density, warm = _good(found, "density"), _good(found, "warm")
    if ways:
        put(ways_table("One product, in gradients", ways, ".2f"), console)
    if density:
        w1 = {name: row["w1"] for name, row in density.items()}
        put(ways_table("Density at equal products: Wasserstein-1 error over mean |eigenvalue|", w1, ".4f"), console)
        trace = {name: row["trace"] for name, row in density.items()}
        put(ways_table("Trace at 99 products: root mean squared relative error", trace, ".2%"), console)
    if warm:
        rows = ("cold", "warm", "ratio", "worst_error")
        counts = {name: {key: row[key] for key in rows} for name, row in warm.items()}
        put(
            ways_table("Five snapshots: products from random starts, and from the last vectors", counts, ".4g"), console
        )


def _good(found: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return what a task found, by network, where it did not fail."""
    return {name: here[task] for name, here in found.items() if "failed" not in here.get(task, {"failed": ""})}


def main() -> None:
    """Measure, print, and write what was found."""
    parser = arguments(__doc__, 3)
    parser.add_argument("--peers", help="a folder with the packages to compare with")
    parser.add_argument("--only", choices=TASKS, action="append", help="measure this; may be given again")
    parser.add_argument("--all", action="store_true", help="run the package of 840 products on every network")
    parser.add_argument("--page", type=Path, help="also write a page of Markdown")
    asked = parser.parse_args()
    if asked.peers:
        sys.path.insert(1, asked.peers)
    console, tasks = Console(width=WIDTH), asked.only or list(TASKS)
    surroundings, began = Surroundings.now(), time.monotonic()
    load, broken, found = os.getloadavg(), False, dict[str, Any]()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        measure(found, tasks, asked.repeats, asked.all, Console(stderr=True, width=WIDTH))
    except KeyboardInterrupt:
        broken = True
    versions = f"Python {sys.version.split()[0]}, torch {torch.__version__}"
    machine = {"cpu": cpu_model(), "versions": versions, "load_before": load, "load_after": os.getloadavg()}
    console.print(f"{machine['cpu']}, {versions}, one thread, medians of {asked.repeats}", highlight=False)
    console.print(f"load {load[0]:.1f} before, {os.getloadavg()[0]:.1f} after, of {os.cpu_count()} cores")
    show(found, list(tasks), console)
    gone = sorted({package for package, _ in METHODS.values() if missing(package)})
    if gone:
        console.print(f"not there, so not compared: {', '.join(gone)} (--peers)", style="bold")
    if broken:
        console.print("broken off: what is not above was not measured", style="bold red")
    rows = comparisons(found)
    report(TITLE, rows, asked.json)
    if asked.json:
        whole = json.loads(asked.json.read_text()) | {"machine": machine, "networks": found, "broken_off": broken}
        asked.json.write_text(json.dumps(whole, indent=1))
    if asked.page:
        seconds = time.monotonic() - began
        tables = [ends_table(name, here) for name, here in found.items() if "ends" in here]
        asked.page.write_text(curvature_page(surroundings, TITLE, rows, tables, seconds, broken))


if __name__ == "__main__":
    main()
