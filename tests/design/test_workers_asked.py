"""Arms with several workers: what they ask for, and what is refused before anything starts."""

# ruff: noqa: E501  (an expected message reads best in one piece)
from __future__ import annotations

from pathlib import Path

import pytest

from ablate.design.cross import trials
from ablate.design.resolve import TrainableSource, check_settings
from ablate.design.trial_spec import Numerics


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: {workers: 0}}", "arms.a.workers: found 0 (a whole number)\n    allowed: a whole number from 1: processes that share each batch"),
        ("{a: {workers: 2.5}}", "arms.a.workers: found 2.5 (a number)\n    allowed: a whole number from 1: processes that share each batch"),
        ("{a: {workers: 100000}}", "arms.a.workers: found 100000\n    allowed: at most 1024"),
        ("{a: {workers: 2, compile: true}}", "arms.a.workers: workers beside `compile`: what is compiled is the loss of a whole batch, and each has its share of one\n    remove one of them"),
        ("{a: {workers: 2, device: cuda, resources: {GPU: 1}}}", "arms.a.resources.GPU: 2 workers and 1 GPUs; NCCL lets no two workers share a GPU\n    write `GPU: 2`, or leave it out"),
        ("{a: {}, b: {repeat: a, workers: 2}}", "arms.b.workers: workers beside `repeat`, which copies it from a\n    allowed: perturb, blocks\n    remove it, or remove `repeat`"),
        ("{a: {}, b: {workers: 1}}", "arms.b: differs in nothing from a\n    if it is a control, write `repeat: a`"),
    ],
)  # fmt: skip
def test_one_thing_wrong(complaints, text, message):
    assert complaints(f"arms: {text}\n") == [f"grid.yaml:6: {message}"]


def test_an_arm_asks_for_what_its_workers_need_together(load):
    grid = load("arms: {a: {workers: 2, threads: 3}, b: {device: cuda, workers: 4}, again: {repeat: a}}\n")
    assert grid.arms["a"].resources == grid.arms["again"].resources == {"CPU": 6.0}
    assert grid.arms["b"].resources == {"CPU": 4.0, "GPU": 4.0}
    assert grid.arms["again"].numerics == Numerics(workers=2, threads=3)


def test_the_number_of_workers_makes_another_arm_and_another_trial(load):
    grid = load("arms: {one: {}, two: {workers: 2}}\n")
    assert [contrast.arms for contrast in grid.contrasts] == [("one", "two")]
    one, two = (next(spec for spec in trials(grid) if spec.arm == arm) for arm in ("one", "two"))
    assert one.trial_id != two.trial_id


def test_a_function_that_owns_its_loop_cannot_share_it(load):
    source = TrainableSource(Path("model.py"), "train", "function", {}, True, 1)
    (problem,) = check_settings(source, load("arms: {a: {}, b: {workers: 2}, c: {repeat: b}}\n"))
    assert str(problem) == (
        "arms.b.workers: train is a function with a loop of its own, so nobody else can share its batches out\n"
        "    allowed: a structured trainable\n"
        "    write it as a class with build, batches, players and loss, or leave out `workers`"
    )
