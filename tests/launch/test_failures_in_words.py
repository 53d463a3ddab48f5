"""Each distinct failure is told once, with how many trials had it."""

from __future__ import annotations

from ablate.launch.failures import problems
from ablate.trial.task import TrialEnd


def failed(trial_id: str, last: str, kind: str = "code") -> TrialEnd:
    return TrialEnd(
        trial_id=trial_id, attempt=1, status="failed", kind=kind, error=f"trial {trial_id}, batch 0:\n{last}"
    )


def test_equal_failures_are_told_once() -> None:
    told = problems(
        [failed("t1", "KeyError: 'x'"), failed("t2", "KeyError: 'x'"), failed("t3", "boom")], 5, "runs/s", "cmd"
    )
    assert len(told) == 3
    assert "trial t1, batch 0:\nKeyError: 'x'\n    the same in 1 more trial" in str(told[0])
    assert "Run it alone: cmd t1" in str(told[0])
    assert "more trial" not in str(told[1])
    assert "3 of 5 trials failed\n    Launch again to retry." in str(told[2])


def test_many_ways_to_fail_are_counted() -> None:
    told = problems([failed(f"t{k}", f"error {k}") for k in range(5)], 9, "runs/s", "cmd")
    assert len(told) == 4
    assert "5 of 9 trials failed, in 5 ways" in str(told[-1])


def test_a_carry_with_a_graph_is_guessed() -> None:
    error = failed("t1", "RuntimeError: Trying to backward through the graph a second time")
    assert "Is the carry detached? It must hold no graph of the batch before. Run it alone: cmd t1" in str(
        problems([error], 1, "runs/s", "cmd")[0]
    )
