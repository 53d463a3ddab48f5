"""How often the statistics of a report are wrong, and how often they find what is there: simulated studies.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/error_rates.py [--studies N] [--seed N] [--write FILE]

Prints tables as Markdown, every rate with its Monte Carlo standard error, and writes them to a page where asked.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy
import scipy
import statsmodels

from ablate.design.attainable import LEVEL, blocks_needed
from ablate.trial.cpu import cpu_model
from analysis.bca import COVERAGE
from benchmarks import simulated_machines as machines
from benchmarks import simulated_studies as studies
from benchmarks.simulated_studies import BLOCKS, DISTRIBUTIONS, STUDIES, Rate

SEED = 20261130
Rows = list[tuple[str, ...]]
COUNTED = ("SYSTEMATIC", "CHAOS", "INCONCLUSIVE")
COVERED = 5
"""Times as many studies for coverage, which a report states to the percent."""


def level_rows(count: int, seed: int, name: str, blocks: int) -> Rows:
    """Each test's rate of rejecting what is true, at gap 0 (sign-flip, Holm) and at a gap of the margin (TOST)."""
    values = studies.differences(name, blocks, seed, count)
    three = studies.differences(name, blocks, seed + 7, 3 * count)
    best = studies.attainable(blocks)
    found = [
        ("sign-flip, gap 0", best, studies.false_difference(values)),
        (
            "Holm, 3 contrasts of gap 0, any",
            LEVEL if blocks >= blocks_needed(3) else 0.0,
            studies.false_difference_of_any(three, 3),
        ),
        ("TOST, gap at the upper margin", LEVEL, studies.claims_equivalence(values, 2.0, 2.0)),
        ("TOST, gap at the lower margin", LEVEL, studies.claims_equivalence(values, -2.0, 2.0)),
    ]
    return [
        (test, name, str(blocks), f"{100 * level:.2f} %", str(rate), "**yes**" if rate.exceeds(level) else "no")
        for test, level, rate in found
    ]


def coverage_rows(count: int, seed: int, name: str, blocks: int) -> Rows:
    """How often a BCa interval covers the true gap."""
    values = studies.differences(name, blocks, seed + 11, COVERED * count)
    found = [("mean gap", studies.mean_coverage(values, seed))]
    if name == "normal":
        found.append(("relative gap", studies.ratio_coverage(values, seed)))
    return [(of, name, str(blocks), f"{rate.studies:,}", str(rate)) for of, rate in found]


def headline_rows(count: int, seed: int, title: str, name: str, blocks: int) -> Rows:
    """Which headline a contrast gets whose losses differ by rounding only, by what is true of its outcome."""
    found = studies.headlines(name, blocks, studies.TRUTHS[title], "ROUNDING", seed + 13, count)
    assert set(found) <= set(COUNTED), found
    return [(title, name, str(blocks), *(str(Rate(found[word], count)) for word in COUNTED))]


def power_rows(count: int, seed: int, name: str, blocks: int) -> Rows:
    """How often a true gap is found, and how often equivalence is where the gap is 0."""
    values = studies.differences(name, blocks, seed + 17, count)
    found = [str(studies.false_difference(values + gap)) for gap in (0.5, 1.0, 1.5)]
    same = [str(studies.claims_equivalence(values, 0.0, margin)) for margin in (0.5, 1.0, 1.5)]
    return [(name, str(blocks), *found, *same)]


def planned_rows(count: int, seed: int, effect: float) -> Rows:
    """What a report's "about N blocks would be enough", for a chance of 90 %, comes to."""
    blocks = studies.planned_for_difference(effect)
    values = studies.differences("normal", blocks, seed + 19, count)
    rows = [(f"a gap of {effect:g}", str(blocks), str(studies.false_difference(values + effect)))]
    blocks = studies.planned_for_equivalence(effect)
    values = studies.differences("normal", blocks, seed + 23, count)
    same = studies.claims_equivalence(values, 0.0, effect)
    return [*rows, (f"equivalence within {effect:g}", str(blocks), str(same))]


def machine_rows(count: int, seed: int, title: str, blocks: int) -> Rows:
    """How often a kind effect is claimed: by trials, by blocks, by the plain mixed model and by the one in use."""
    world = machines.WORLDS[title]
    found = machines.rejections(world, blocks, seed + 29, count)
    kinds = " + ".join(map(str, world.machines))
    return [(title, kinds, str(blocks), str(found[0].studies), *(str(rate) for rate in found))]


def table(heads: Sequence[str], work: Sequence[Callable[[], Rows]], pool: Executor) -> str:
    """Return a Markdown table; every row is also a line of progress on standard error."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for rows in pool.map(_call, work):
        for row in rows:
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def _call(work: Callable[[], Rows]) -> Rows:
    return work()


def page(count: int, seed: int, command: str, pool: Executor) -> str:
    """Return the page of all tables."""
    both = list(product(DISTRIBUTIONS, BLOCKS))
    outcomes = [
        (title, name, blocks)
        for title, truth in studies.TRUTHS.items()
        for name in (DISTRIBUTIONS if truth.gap in (0.0, studies.MARGIN) else ("normal",))
        for blocks in BLOCKS
    ]
    worlds = [(title, blocks) for title, world in machines.WORLDS.items() for blocks in world.blocks]

    def rows(heads: Sequence[str], function: Callable[..., Rows], cases: Iterable[tuple[Any, ...]]) -> str:
        return table(heads, [partial(function, count, seed, *case) for case in cases], pool)

    versions = ", ".join(f"{module.__name__} {module.__version__}" for module in (numpy, scipy, statsmodels))
    parts = [
        "# How often the statistics are right",
        f"{count:,} simulated studies a row, seed {seed}, on {datetime.date.today()}, {cpu_model() or 'unknown CPU'}, "
        f"Python {platform.python_version()}, {versions}. ± is one Monte Carlo standard error. "
        "A row of another number of studies states it. Made by",
        f"    {command}",
        "Differences have mean 0 and standard deviation 1 before a gap is added, so gaps and margins are in standard "
        "deviations of the difference. Skewed: log-normal, centred (skewness 6.2). Heavy-tailed: Student's t with 3 "
        "degrees of freedom. Decided by the functions of `analysis/`.",
        "## Level: how often a test rejects what is true",
        "Attainable is the largest level below 5 % that the test has with so many blocks; above it means by more than "
        "3 standard errors. TOST has a margin of 2.",
        rows(("test", "differences", "blocks", "attainable", "rejects", "above it"), level_rows, both),
        "The sign-flip test is exact where both sides do the same, which makes differences symmetric. Skewed "
        "differences with mean 0 arise only where the sides scatter in different shapes; then it finds a difference of "
        "the sides that is none of the means. TOST is a t test, wrong on the side of the long tail. Both are said in "
        "the notes of a report that claims a difference or equivalence (`analysis/assumptions.py`).",
        "## Coverage of the 95 % BCa interval",
        rows(("of the", "differences", "blocks", "studies", "covers"), coverage_rows, product(DISTRIBUTIONS, COVERAGE)),
        "It covers less than it says at all these sizes; a report says so below 40 blocks, with these figures for "
        "normal and log-normal differences (`analysis/bca.py`). No difference is claimed from it alone.",
        "## Headlines",
        "A contrast whose audited differences are rounding, in a family of its own, with a margin of 1 and a one-ulp "
        "control that scatters as much. Where the cause is UNKNOWN, EQUIVALENT stands for CHAOS at the same rates. "
        "BUG, CONFOUNDED and BITWISE EQUAL follow from the evidence, whatever the outcomes (`analysis/headline.py`).",
        rows(("what is true", "differences", "blocks", *COUNTED), headline_rows, outcomes),
        "SYSTEMATIC is wrong where there is no gap, or where one ulp does the same: both are held to the sign-flip "
        "test, the latter by the gap less the control's. CHAOS is wrong where the gap is the margin or more.",
        "## Power",
        "How often the sign-flip test finds a gap, and TOST equivalence within a margin at a gap of 0.",
        rows(
            ("differences", "blocks", "gap 0.5", "gap 1", "gap 1.5", "margin 0.5", "margin 1", "margin 1.5"),
            power_rows,
            both,
        ),
        "The number of blocks that a report calls enough, for a chance of 90 %, at normal differences:",
        rows(("to show", "blocks", "shown"), planned_rows, [(0.8,), (1.0,), (1.5,)]),
        "## Machines of two kinds",
        "But for the last row no kind has an effect. Every machine trains the same blocks; machines scatter by one "
        "standard deviation of a trial's own noise, unless said otherwise.",
        rows(("what is true", "machines", "blocks", "studies", *machines.TESTS), machine_rows, worlds),
        machines.EXPLANATION,
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=STUDIES, help="simulated studies of each row")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many simulate at once")
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    options = parser.parse_args()
    command = f"PYTHONPATH=. python benchmarks/error_rates.py --studies {options.studies} --seed {options.seed}"
    with ProcessPoolExecutor(options.processes) as pool:
        written = f" --write {options.write}" if options.write else ""
        text = page(options.studies, options.seed, command + written, pool)
    print(text)
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(text)


if __name__ == "__main__":
    main()
