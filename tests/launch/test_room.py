"""What of a machine is free: cores, custom resources, shares of GPUs."""

from __future__ import annotations

import pytest

from ablate.launch.room import Room


def room(gpus: int = 2) -> Room:
    return Room({"CPU": 4.0, "GPU": float(gpus)}, [f"GPU-{number}" for number in range(gpus)])


def test_cores_are_counted() -> None:
    free = room()
    assert free.take({"CPU": 3.0}) == ()
    assert free.take({"CPU": 2.0}) is None
    free.give_back({"CPU": 3.0}, ())
    assert free.take({"CPU": 2.0}) == ()


def test_each_trial_gets_a_gpu_of_its_own() -> None:
    free, one = room(), {"CPU": 1.0, "GPU": 1.0}
    assert free.take(one) == ("GPU-0",)
    assert free.take(one) == ("GPU-1",)
    assert free.take(one) is None
    free.give_back(one, ("GPU-0",))
    assert free.take(one) == ("GPU-0",)


def test_a_trial_may_get_several() -> None:
    free = room()
    assert free.take({"GPU": 2.0}) == ("GPU-0", "GPU-1")
    assert free.take({"GPU": 0.1}) is None


def test_shares_go_to_the_emptiest_gpu() -> None:
    free, quarter = room(), {"CPU": 0.5, "GPU": 0.25}
    assert [free.take(quarter) for _ in range(4)] == [("GPU-0",), ("GPU-1",), ("GPU-0",), ("GPU-1",)]
    assert free.take({"GPU": 1.0}) is None  # half of each is free, and no whole one


def test_a_refusal_takes_nothing() -> None:
    free = room(gpus=1)
    assert free.take({"CPU": 4.0, "GPU": 2.0}) is None
    assert free.take({"CPU": 5.0, "GPU": 1.0}) is None
    assert free.take({"CPU": 4.0, "GPU": 1.0}) == ("GPU-0",)


@pytest.mark.parametrize("share", [1 / 3, 0.1, 1 / 7])
def test_shares_come_back_to_a_whole(share: float) -> None:
    free = room(gpus=1)
    for _ in range(5):
        taken = [free.take({"GPU": share}) for _ in range(int(1 / share))]
        assert all(taken)
        for gpus in taken:
            free.give_back({"GPU": share}, gpus or ())
    assert free.take({"GPU": 1.0}) == ("GPU-0",)


def test_what_the_machine_does_not_have_is_never_free() -> None:
    assert room().take({"cpu_i7_6800k": 1.0}) is None
    assert room(gpus=0).take({"GPU": 1.0}) is None
