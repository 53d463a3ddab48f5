"""A launch whose every trial fails in the same place ends early; one of which anything may still come does not."""

from __future__ import annotations

import pytest

from ablate.design.trial_spec import GuardPlan, Numerics, TrialSpec
from ablate.launch.failures import problems
from ablate.launch.hopeless import ENOUGH, Hopeless, failure_in_short
from ablate.record.reader import Run
from ablate.trial.task import TrialEnd

TRACE = 'Traceback (most recent call last):\n  File "/home/me/net.py", line {line}, in loss\n    y = x @ w\n{error}'


def spec(arm: str, block: int, **factors: object) -> TrialSpec:
    return TrialSpec(
        study="s",
        trainable="net:Net",
        settings={},
        arm=arm,
        numerics=Numerics(),
        factors=factors,
        block=block,
        batches=9,
        guard=GuardPlan(),
        resources={"CPU": 1.0},
    )


def end(of: TrialSpec, line: int = 7, error: str = "RuntimeError: shape", kind: str = "code") -> TrialEnd:
    text = TRACE.format(line=line, error=f"{error} [{of.block}]")
    return TrialEnd(
        trial_id=of.trial_id, attempt=1, status="failed", kind=kind, error=f"trial {of.trial_id}, batch 0:\n{text}"
    )


SPECS = [spec(arm, block, lr=lr) for block in range(4) for arm in ("a", "b") for lr in (0.1, 0.2)]


def after(specs: list[TrialSpec], done: int = 0, batches: int | None = 2, **how: object) -> Hopeless:
    hopeless = Hopeless(SPECS, done)
    for one in specs:
        hopeless.failed(one, end(one, **how), batches)
    return hopeless


def test_enough_failures_alike_in_every_arm_level_and_two_blocks_are_hopeless() -> None:
    assert ENOUGH == 8
    assert after(SPECS[:8]).gives_up([None, 0, 2])
    assert not after(SPECS[:7]).gives_up([])


@pytest.mark.parametrize(
    ("hopeless", "running"),
    [
        (after(SPECS[:8], done=1), []),  # an earlier launch had one that was done
        (after([one for one in SPECS if one.arm == "a"]), []),  # the other arm may be right
        (after([one for one in SPECS if one.factors["lr"] == 0.1]), []),  # so may the other level
        (after(SPECS[:4] * 2), []),  # and another block
        (after(SPECS[:8], kind="infrastructure"), []),  # the code is not at fault
        (after(SPECS[:8], batches=None), []),  # nobody knows how far they got
        (after(SPECS[:8]), [0, 3]),  # one is past that place
    ],
)
def test_what_may_still_come_right_goes_on(hopeless: Hopeless, running: list[int | None]) -> None:
    assert not hopeless.gives_up(running)


def test_one_that_is_done_or_fails_elsewhere_is_hope() -> None:
    hopeless = after(SPECS[:8])
    hopeless.done()
    assert not hopeless.gives_up([])
    hopeless = after(SPECS[:8])
    hopeless.failed(SPECS[9], end(SPECS[9], line=8), 2)
    assert not hopeless.gives_up([])


def test_failures_are_the_same_by_line_and_name() -> None:
    one, two = SPECS[0], SPECS[-1]  # of other blocks: their messages differ
    assert failure_in_short(end(one)) == failure_in_short(end(two))
    assert failure_in_short(end(one)) != failure_in_short(end(two, line=8))
    assert failure_in_short(end(one)) != failure_in_short(end(two, error="ValueError: x"))
    ours = TrialEnd(trial_id="t1", attempt=1, status="failed", kind="code", error="trial t1, batch 0:\nplayers(): no")
    assert failure_in_short(ours) == ("players(): no",)


def test_what_was_not_run_is_told() -> None:
    told = problems([end(one) for one in SPECS[:8]], 8, "runs/s", "cmd", not_run=992)
    assert str(told[-1]) == (
        "runs/s: 8 of 8 trials failed; 992 more were not run, since every arm and every level failed in the same place"
        "\n    Mend it and launch again: nothing is lost, and the study goes on."
    )


@pytest.mark.slow
def test_a_launch_gives_up_and_goes_on_when_it_is_mended(place):
    place.grid("arms:\n  first: {}\n  second: {onednn: false}\n", settings="{fault: raise}", blocks=6)
    done = place.ablate("launch", "grid.yaml", "--local")
    assert done.code == 3, done.text
    assert "more were not run, since every arm and every level failed in the same place" in done.words
    assert " ".join(done.err.split()).count("Planned: the double raises, as it was told") == 1  # not ten times
    rows = Run(place.root()).trials().to_pylist()
    assert ENOUGH <= sum(row["failure_kind"] == "code" for row in rows) < 12
    mended = place.ablate("launch", "grid.yaml", "--local", env={"DOUBLES_WELL": "1"})
    assert mended.code == 0, mended.text
    assert [row["status"] for row in Run(place.root()).trials().to_pylist()] == ["done"] * 12
