from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ablate.design.cross import trials
from ablate.design.forecast import ContrastPower, Forecast, TimeForecast, forecast_time, makespan
from ablate.design.forecast_table import duration, render_forecast
from ablate.design.pace import Pace, Paces, TimedTrial
from ablate.design.trial_spec import GuardPlan
from tests.tolerances import numerical

FIRST_TWO = GuardPlan(first=2, every=0)


def timed(arm="a", durations=(9.0, 3.0, 1.0, 1.0, 5.0), wall_s=20.0, factors=None, guard=FIRST_TWO):
    return TimedTrial(arm, factors or {}, durations, wall_s, guard)


def test_a_pace_is_of_medians_and_the_rest_is_the_start():
    # batch 0 is a warm-up; batch 1 is watched; batches 2 to 4 are plain, and the held-up one does not count
    assert timed().pace == Pace(start_s=20 - (2 * 3 + 3 * 1), batch_s=1.0, watched_s=3.0)
    assert timed(wall_s=None).pace == Pace(start_s=19 - 9, batch_s=1.0, watched_s=3.0)
    assert timed(durations=(2.0,), wall_s=2.5).pace == Pace(0.5, 2.0, 2.0)
    assert timed(guard=GuardPlan(first=0, every=0)).pace.watched_s == 2.0
    assert timed(wall_s=1.0).pace.start_s == 0.0


def test_a_trial_takes_its_start_and_its_batches():
    assert Pace(2.0, 0.5, 1.0).trial_s(10, GuardPlan(first=3, every=5)) == 2 + 4 * 1 + 6 * 0.5


def test_the_nearest_pace_is_taken(load):
    grid = load("factors: {x: [1, 2]}\narms: {a: {}, b: {threads: 2}, c: {threads: 3}}\n")
    specs = {(spec.arm, spec.factors["x"]): spec for spec in trials(grid)}

    def constant(seconds):
        return (seconds,) * 3

    paces = Paces(
        "here", [timed("a", constant(1.0), factors={"x": 1}), timed("a", constant(3.0)), timed("b", constant(8.0))]
    )
    assert [paces.of(specs[key]).batch_s for key in (("a", 1), ("a", 2), ("b", 1), ("c", 1))] == [1.0, 2.0, 8.0, 3.0]
    assert [paces.timed(arm) for arm in "abc"] == [True, True, False]


def slow_makespan(seconds, needs, cores):
    """Second by second: start whatever fits, in order; count."""
    left = {}
    waiting = list(range(len(seconds)))
    now = 0
    while waiting or left:
        for position in list(waiting):
            if sum(needs[k] for k in left) + needs[position] <= cores:
                left[position] = seconds[position]
                waiting.remove(position)
        left = {k: rest - 1 for k, rest in left.items() if rest > 1}
        now += 1
    return now


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), max_size=8), st.integers(3, 5))
def test_the_makespan_is_that_of_starting_what_fits(jobs, cores):
    seconds, needs = [job[0] for job in jobs], [job[1] for job in jobs]
    found = makespan(seconds, [{"CPU": float(need)} for need in needs], {"CPU": float(cores)})
    assert found == slow_makespan(seconds, needs, cores)


def test_the_time_of_a_study(load):
    specs = trials(load("arms: {a: {}, b: {threads: 2}}\n"))
    durations = (0.01,) * 5
    found = forecast_time(specs, Paces("here", [timed("a", durations, 1.05)]), {"CPU": 2.0})
    assert found.longest_trial_s == pytest.approx(2.0, rel=numerical(2**-53, 1200))  # 1 s to start, 100 batches
    assert found.core_s == pytest.approx(6 * 2 + 6 * 2 * 2, rel=numerical(2**-53, 1200))
    assert found.wall_s is not None
    assert found.wall_s == pytest.approx(18.0, rel=numerical(2**-53, 1200))  # trials of one thread go side by side
    assert found.notes == (
        "starting processes, checking data and making initial weights come on top",
        "not timed, and taken to be as fast as the rest: b",
    )


def test_what_this_machine_lacks_has_no_time_here(load):
    specs = trials(load("arms: {a: {}, b: {resources: {cpu_i5_4590: 1}}}\n"))
    found = forecast_time(specs, Paces("here", [timed("a"), timed("b")]), {"CPU": 2.0})
    assert found.wall_s is None
    assert found.notes[-1] == "no time on this machine, which lacks what these arms need: b (cpu_i5_4590)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.004, "0.004 s"), (7.25, "7.2 s"), (89, "89 s"), (600, "10 min"), (7200, "2 h"), (86400 * 365, "365 days")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def printed(forecast):
    stream = io.StringIO()
    render_forecast(forecast, Console(file=stream, width=140))
    return [" ".join(line.split()) for line in stream.getvalue().splitlines() if line.strip() and "─" not in line]


def test_the_table():
    power = ContrastPower(
        label="b against a",
        blocks=7,
        seen_blocks=5,
        sd=0.0123,
        sd_interval=(0.007, 0.03),
        smallest_gap=0.02,
        smallest_gap_percent=4.0,
        margin_blocks=31,
    )
    unknown = ContrastPower(label="c against a", blocks=7, note="the run has no arm c")
    time = TimeForecast(source="as in runs/x", core_s=240, wall_s=125, cores=2, longest_trial_s=8, notes=("mind",))
    assert printed(Forecast(time=time, power=(power, unknown), notes=("differs",))) == [
        "time: about 2.1 min on this machine's 2 cores, 4 min of core time, the longest trial 8 s (as in runs/x)",
        "mind",
        "contrast sd between blocks blocks smallest gap at 80 % power blocks for the margin",
        "b against a 0.012 [0.007, 0.03] 7 0.02 (4%) 31",
        "c against a - 7 - -",
        "c against a: the run has no arm c",
        "differs",
    ]
    assert printed(Forecast(time=time.model_copy(update={"wall_s": None, "notes": ()}))) == [
        "time: 4 min of core time, the longest trial 8 s (as in runs/x)"
    ]
