"""Prints a forecast for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ablate.design.forecast import ContrastPower, Forecast, TimeForecast
from ablate.design.new_table import new_table


def render_forecast(forecast: Forecast, console: Console) -> None:
    """Print ``forecast`` on ``console``."""
    if forecast.time is not None:
        console.print(Text(_time(forecast.time)))
        for note in forecast.time.notes:
            console.print(Text(f"  {note}"))
    if forecast.power:
        console.print(_power(forecast.power))
        for power in forecast.power:
            if power.note:
                console.print(Text(f"  {power.label}: {power.note}"))
    for note in forecast.notes:
        console.print(Text(note))


def duration(seconds: float) -> str:
    """Return a duration as people say it: ``40 s``, ``12 min``, ``3.5 h``, ``2.1 days``."""
    for unit, size, limit in (("s", 1, 90), ("min", 60, 90 * 60), ("h", 3600, 36 * 3600)):
        if seconds < limit:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds / 86400)} days"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _time(time: TimeForecast) -> str:
    cores = f"{time.cores:g} core{'s' if time.cores != 1 else ''}"
    wall = f"about {duration(time.wall_s)} on this machine's {cores}, " if time.wall_s is not None else ""
    return (
        f"time: {wall}{duration(time.core_s)} of core time, the longest trial {duration(time.longest_trial_s)} "
        f"({time.source})"
    )


def _power(powers: tuple[ContrastPower, ...]) -> Table:
    found = new_table(
        "contrast",
        "sd between blocks",
        "blocks",
        "smallest gap at 80 % power",
        "blocks for the margin",
        right=(1, 2, 3, 4),
    )
    for power in powers:
        spread = "-"
        if power.sd is not None and power.sd_interval is not None:
            low, high = power.sd_interval
            spread = f"{power.sd:.2g} [{low:.2g}, {high:.2g}]"
        gap = "-" if power.smallest_gap is None else f"{power.smallest_gap:.2g}"
        if power.smallest_gap_percent is not None:
            gap += f" ({power.smallest_gap_percent:.2g}%)"
        needed = "-" if power.margin_blocks is None else str(power.margin_blocks)
        found.add_row(*map(Text, (power.label, spread, str(power.blocks), gap, needed)))
    return found
