"""What ``ablate plan`` says of time and power, from a past run or from one short trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ablate.design.forecast import ContrastPower, Forecast
    from ablate.design.pace import Paces
    from ablate.design.plan import Plan
    from ablate.launch.study import Study


def forecast(study: Study, made: Plan, run: str | None, measured: bool) -> tuple[Forecast, Paces | None]:
    """Forecast a study; return also how fast its trials run, if that is known.

    Args:
        study: the study.
        made: its plan.
        run: a past run to take pace and spread from; None for none.
        measured: time one short trial.

    Raises:
        BadInput: there is no such run, or nothing in it can be used.
    """
    from ablate.design.forecast import UNKNOWN, Forecast, forecast_time
    from ablate.design.pace import Paces
    from ablate.launch.placement import this_machine

    if run is None and not measured:
        return Forecast(notes=(UNKNOWN,)), None
    paces: Paces | None = None
    power: tuple[ContrastPower, ...] = ()
    notes: tuple[str, ...]
    if run is not None:
        from ablate.record.reader import Run as OpenRun
        from ablate.record.timing import timed_trials
        from analysis import power as past

        opened = OpenRun(run)
        paces = Paces(f"as in {opened.paths.root}", timed_trials(opened))
        power, notes = past.power(opened, study.grid, made), past.differences(opened.grid, study.grid)
    else:
        notes = ("power is not known: --from RUN takes the spread between blocks from a past run of this model",)
    if measured:
        from ablate.launch.measure import measure, short_trial

        spec = short_trial(study)
        typer.echo(f"timing {spec.batches} batches of arm {spec.arm}", err=True)
        paces = Paces(f"{spec.batches} batches of arm {spec.arm} timed here", [measure(study, spec)])
    assert paces is not None, "a run or a measurement was asked for"
    time = forecast_time(study.specs, paces, this_machine().resources)
    return Forecast(time=time, power=power, notes=notes), paces
