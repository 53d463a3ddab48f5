"""``ablate report``: the notebooks run on a run, and one HTML page that needs nothing but itself."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

import ablate
from ablate.record.disk import write_aside
from ablate.record.reader import Run
from analysis.digits import plural
from analysis.evidence_lines import evidence_lines
from analysis.gap import gap
from analysis.gap_report import GapReport
from analysis.handed_over import handing_over
from analysis.html_tables import table
from analysis.methods import methods
from analysis.probed import has_probes
from analysis.provenance import arm_settings, diffs, machines, versions
from analysis.report_body import body
from analysis.reproduce import commands, grid_text
from analysis.run_notebook import Progress, notebooks, run_notebook
from analysis.words import WORDS, meaning


def write_report(run: Run, output: Path, progress: Progress | None = None) -> None:
    """Write the page, whole or not at all.

    Args:
        run: the store; only its Parquet files and its grid are read.
        output: the page.
        progress: told before each cell of each notebook.

    Raises:
        AblateError: a notebook's cell failed.
        BadInput: the outcome that the grid asks for was not recorded.
        StoreError: the page cannot be written there.
    """
    report = gap(run)  # what is wrong with the run is said before a kernel starts
    with handing_over(run, report) as given:
        bodies = [body(run_notebook(path, run.paths.root, progress, given)) for path in notebooks(has_probes(run))]
    write_aside(output, page(run, report, bodies).encode())


def page(run: Run, report: GapReport, bodies: list[str]) -> str:
    """Return the page.

    Args:
        run: the store.
        report: its analysis.
        bodies: what the notebooks show, as HTML.
    """
    recorded = run.trials()
    word, _, sentence = report.headline.partition(": ")
    worst = next((contrast for contrast in report.contrasts if contrast.label == report.worst), None)
    source = (files("analysis") / "templates" / "report.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(source).render(
        report=report,
        word=word,
        sentence=sentence[:1].upper() + sentence[1:],
        meaning=meaning(word),
        tone=_tone(word),
        evidence=evidence_lines(worst) if worst else [],
        trials=_trials(recorded, report),
        bodies=bodies,
        methods=methods(run.grid, report),
        machines=table(machines(recorded, run.grid)).text,
        versions=versions(recorded),
        arms=table(arm_settings(recorded, run.grid)).text,
        commands=commands(run, recorded),
        grid=grid_text(run),
        diffs=diffs(run, recorded),
        words=WORDS,
        spec_hash=run.spec.hash,
        version=ablate.__version__,
        now=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _trials(recorded: Any, report: GapReport) -> str:
    planned = sum(arm.trials for arm in report.arms)
    statuses = recorded["status"].to_pylist()
    counts = [f"{statuses.count(status)} {status}" for status in dict.fromkeys(sorted(statuses))]
    if planned > len(statuses):
        counts.append(f"{planned - len(statuses)} not run yet")
    return f"{plural(planned, 'trial')} planned: {', '.join(counts)}"


def _tone(word: str) -> str:
    if word in ("BUG", "CONFOUNDED"):
        return "bad"
    return "unsure" if word in ("SYSTEMATIC", "INCONCLUSIVE", "NOTHING TO COMPARE") else "good"
