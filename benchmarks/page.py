"""The page of all benchmarks, in Markdown: the machine, then a section for each script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measured import Comparison, markdown
from benchmarks.surroundings import Surroundings

READ = """\
Each row is measured in one run together with what a user would take instead. Values are medians; the least and the
greatest of the repeats stand behind them, and what has none was measured once. "peer / ours" above 1 says that ours is
less. A target that was missed says **no**. Wherever the processor's time could be counted it was, since other work on a
machine moves it less than the clock's.
"""


@dataclass(frozen=True)
class Section:
    """How one script ended.

    Attributes:
        name: of the script.
        alone: the command that runs it by itself.
        seconds: how long it took.
        title: what its rows are about.
        rows: what it found.
        failed: how it failed; empty if it did not.
    """

    name: str
    alone: str
    seconds: float = 0.0
    title: str = ""
    rows: tuple[Comparison, ...] = ()
    failed: str = ""

    @property
    def outcome(self) -> str:
        """One line for whoever waits."""
        if self.failed:
            return f"FAILED after {self.seconds:.0f} s: {self.failed}"
        aimed = [row.met for row in self.rows if row.met is not None]
        return f"done in {self.seconds:.0f} s, {sum(aimed)} of {len(aimed)} targets met"

    def lines(self) -> list[str]:
        """Return the section of the page."""
        lines = [f"## {self.title or self.name}", ""]
        if self.failed:
            lines += [f"**Failed** after {self.seconds:.0f} s:", "", "```", self.failed, "```", ""]
        else:
            lines += [*markdown(self.rows), "", f"{self.outcome[0].upper()}{self.outcome[1:]}.", ""]
        return [*lines, f"By itself: `{self.alone}`", ""]


def page(surroundings: Surroundings, sections: Sequence[Section], others: Sequence[str], seconds: float) -> str:
    """Return the whole page; ``others`` are the scripts that were not asked for."""
    failed = [section.name for section in sections if section.failed]
    lines = ["# Benchmarks", "", *READ.splitlines(), "", *surroundings.lines(), ""]
    lines += [f"Written by `{surroundings.command}` in {seconds / 60:.0f} min.", ""]
    if failed:
        lines += [f"**Failed: {', '.join(failed)}.**", ""]
    if others:
        lines += [f"Not on this page, since they were not asked for: {', '.join(f'`{name}`' for name in others)}.", ""]
    for section in sections:
        lines += section.lines()
    return "\n".join(lines)
