"""GPU arms before the start: a missing GPU is refused, and a launcher counts and assigns those there are."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ablate.errors import UnmetPlacement
from ablate.launch import local, placement
from ablate.launch.after import Then
from ablate.launch.local import LocalLauncher
from ablate.launch.placement import Node, available_cores, check, this_machine
from ablate.trial.nvml import all_gpus
from ablate.trial.task import TrialEnd, TrialTask
from tests.conftest import Workplace

GPU_ARMS = """\
arms:
  on-cpu: {}
  on-gpu: {device: cuda}
"""


def test_a_machine_without_a_gpu_offers_none() -> None:
    if all_gpus():
        pytest.skip("this machine has a GPU")
    assert this_machine().resources == {"CPU": float(available_cores())}


def test_gpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "visible_gpus", lambda environment: ("GPU-a", "GPU-b"))
    assert this_machine().resources == {"CPU": float(available_cores()), "GPU": 2.0}


def test_a_missing_gpu_is_refused_with_advice() -> None:
    with pytest.raises(UnmetPlacement) as caught:
        check({"on-gpu": {"CPU": 1.0, "GPU": 1.0}}, [Node("this machine", {"CPU": 2.0})])
    assert caught.value.exit_code == 4
    assert str(caught.value) == (
        "arms.on-gpu.resources.GPU: asks for GPU: 1, no node offers it\n"
        "    allowed: this machine: CPU 2\n"
        "    An arm with `device: cuda` never runs on the CPU instead: "
        "launch where nvidia-smi lists a GPU, or remove the arm."
    )


def test_too_few_gpus_are_refused() -> None:
    with pytest.raises(UnmetPlacement) as caught:
        check({"on-gpu": {"GPU": 4.0}}, [Node("a", {"GPU": 2.0}), Node("b", {"GPU": 1.0})])
    assert str(caught.value) == (
        "arms.on-gpu.resources.GPU: asks for GPU: 4, the most on one node is 2\n    allowed: a: GPU 2; b: GPU 1\n"
        "    The nearest is a, where GPU 2 would fit."
    )


@pytest.mark.parametrize("how", [("launch", "grid.yaml", "--local"), ("launch", "grid.yaml")])
def test_a_launch_without_a_gpu_exits_4_and_writes_nothing(place: Workplace, how: tuple[str, ...]) -> None:
    place.grid(GPU_ARMS)
    done = place.ablate(*how, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.code == 4
    assert "arms.on-gpu.resources.GPU: asks for GPU: 1, no node offers it" in done.words
    assert "never runs on the CPU instead" in done.words
    assert done.seconds < 5
    assert not (place.folder / "runs").exists()


def test_one_trial_of_a_gpu_arm_is_refused_too(place: Workplace) -> None:
    from ablate.design.cross import trials
    from ablate.design.grid import load_grid

    path = place.grid(GPU_ARMS)
    trial = next(spec.trial_id for spec in trials(load_grid(path)) if spec.arm == "on-gpu")
    done = place.ablate("trial", "grid.yaml", trial, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.code == 4
    assert "asks for GPU: 1, no node offers it" in done.words


class FakeIsolation:
    """Takes the fork servers' place; notes which GPUs a trial was given, one trial at a time."""

    def __init__(self, launch_id: str) -> None:
        self.given: list[tuple[str, tuple[str, ...]]] = []

    def run(self, task: TrialTask, started: Any) -> TrialEnd:
        self.given.append((task.spec.arm, task.gpus))
        return TrialEnd(trial_id=task.spec.trial_id, attempt=task.attempt, status="done")

    def close(self) -> None:
        return


def test_the_local_launcher_assigns_gpus_to_gpu_arms_alone(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from ablate.design.cross import trials
    from ablate.design.grid import load_grid

    for module in (placement, local):
        monkeypatch.setattr(module, "visible_gpus", lambda environment: ("GPU-a",))
    isolation = FakeIsolation("fake")
    monkeypatch.setattr(local, "Isolation", lambda launch_id: isolation)
    specs = trials(load_grid(place.grid(GPU_ARMS)))
    tasks = [TrialTask(spec=s, root=str(tmp_path), attempt=1, cwd=os.getcwd(), search=()) for s in specs]
    launcher = LocalLauncher("fake")
    ends: list[str] = []

    def after(task: TrialTask, end: TrialEnd) -> Then:
        ends.append(end.trial_id)
        return Then.GO_ON

    launcher.run(tasks, after)
    assert sorted(ends) == sorted(task.spec.trial_id for task in tasks)
    given = isolation.given
    assert {gpus for arm, gpus in given if arm == "on-gpu"} == {("GPU-a",)}
    assert {gpus for arm, gpus in given if arm == "on-cpu"} == {()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_assigns_a_gpu_and_the_trial_never_falls_back(
    shared_place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray believes what it is told of GPUs, so its assignment is seen here without one: the trial fails on GPU 0."""
    import torch

    if torch.version.cuda:
        pytest.skip("this torch is built with CUDA")
    from ablate.launch import tune
    from tests.launch.test_contract import prepare

    monkeypatch.chdir(shared_place.folder)
    monkeypatch.setattr(tune, "visible_gpus", lambda environment: ("GPU-a",))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    store, tasks = prepare(shared_place, "on_ray", GPU_ARMS)
    launcher = tune.TuneLauncher("gpu-placement")
    ends: dict[str, list[TrialEnd]] = {}

    def after(task: TrialTask, end: TrialEnd) -> Then:
        ends.setdefault(task.spec.arm, []).append(end)
        return Then.GO_ON

    try:
        launcher.start()
        with store:
            launcher.run(tasks, after)
    finally:
        launcher.close()
    assert [end.status for end in ends["on-cpu"]] == ["done"] * 2
    for end in ends["on-gpu"]:
        assert end.status == "failed"
        assert "cannot compute on GPU 0: Torch not compiled with CUDA enabled" in end.error
