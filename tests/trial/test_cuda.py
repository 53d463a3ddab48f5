"""What a GPU arm asks for and what is read back, with torch's answers given by hand; real GPUs are in test_on_gpu."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from spec_factory import make_task

from ablate.design.trial_spec import Numerics
from ablate.record.columns import TRIAL_COLUMNS
from ablate.record.paths import StorePaths
from ablate.trial import cuda, numerics
from ablate.trial.cuda import OnCuda
from ablate.trial.effect import ArmNotInEffect
from ablate.trial.environment import arm_environment, process_environment
from ablate.trial.numerics import InEffect, verify
from ablate.trial.runner import run_trial

PLAIN = OnCuda(
    gpu="NVIDIA Test",
    gpu_driver="580.1",
    cuda="13.0",
    cudnn=True,
    cudnn_version="91200",
    cudnn_benchmark=False,
    tf32_matmul=False,
    tf32_conv=False,
)
FOUND = InEffect(1, "AVX2", onednn=True, deterministic=False, device="cuda", on_cuda=PLAIN)


def found(**changes: object) -> InEffect:
    return dataclasses.replace(FOUND, on_cuda=dataclasses.replace(PLAIN, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "actual"),
    [
        (Numerics(device="cuda"), FOUND),
        (Numerics(device="cuda", cudnn=False), found(cudnn=False)),
        (Numerics(device="cuda", cudnn=False, tf32=True), found(cudnn=False, tf32_matmul=True)),
        (Numerics(device="cuda", tf32=True), found(tf32_matmul=True, tf32_conv=True)),
    ],
)
def test_what_took_effect_passes(asked: Numerics, actual: InEffect) -> None:
    verify(asked, actual)


@pytest.mark.parametrize(
    ("asked", "actual", "words"),
    [
        (Numerics(device="cuda"), found(cudnn=False), "cudnn: asked for True, but this process has False"),
        (Numerics(device="cuda", cudnn=False), FOUND, "cudnn: asked for False, but this process has True"),
        (
            Numerics(device="cuda", cudnn_benchmark=True),
            FOUND,
            "cudnn_benchmark: asked for True, but this process has False",
        ),
        (
            Numerics(device="cuda", tf32=True),
            found(tf32_conv=True),
            "tf32 (matrix products): asked for True, but this process has False",
        ),
        (
            Numerics(device="cuda"),
            found(tf32_conv=True),
            "tf32 (convolutions): asked for False, but this process has True",
        ),
    ],
)
def test_an_arm_that_did_not_take_effect_is_refused(asked: Numerics, actual: InEffect, words: str) -> None:
    with pytest.raises(ArmNotInEffect) as caught:
        verify(asked, actual)
    assert str(caught.value) == f"{words}\n    " + (
        "The machine or the torch build cannot do it, or something set it after the start."
    )


def test_what_is_read_back_are_columns_of_trials() -> None:
    columns = numerics.columns(Numerics(device="cuda"), FOUND)
    assert set(columns) <= set(TRIAL_COLUMNS)
    assert columns["gpu"] == "NVIDIA Test"
    assert columns["device"] == "cuda"
    on_cpu = numerics.columns(Numerics(), dataclasses.replace(FOUND, device="cpu", on_cuda=None))
    assert "gpu" not in on_cpu
    assert set(on_cpu) <= set(TRIAL_COLUMNS)


def test_flags_are_set_without_starting_cuda() -> None:
    flags = torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    try:
        cuda.set_flags(Numerics(device="cuda", cudnn=False, cudnn_benchmark=True, tf32=True))
        assert not torch.backends.cudnn.enabled
        assert torch.backends.cudnn.benchmark
        assert torch.backends.cudnn.allow_tf32
        assert torch.backends.cuda.matmul.allow_tf32
        cuda.set_flags(Numerics(device="cuda"))
        assert not torch.backends.cudnn.allow_tf32  # torch's own default is on
        assert not torch.cuda.is_initialized()
    finally:
        torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = flags
        torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.parametrize(("major", "has"), [(5, False), (7, False), (8, True), (9, True)])
def test_tf32_is_in_effect_only_where_the_gpu_has_it(monkeypatch: pytest.MonkeyPatch, major: int, has: bool) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (major, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA Test")
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        assert cuda.in_effect().tf32_matmul is has
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def test_a_trial_without_an_assigned_gpu_does_not_start() -> None:
    with pytest.raises(ArmNotInEffect) as caught:
        cuda.start(())
    assert str(caught.value) == (
        "device: asked for cuda, but the launcher assigned no GPU\n    Ask for `resources: {GPU: 1}`."
    )


def test_a_gpu_that_torch_cannot_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def broken() -> None:
        raise RuntimeError("No CUDA GPUs are available\nand a second line")

    monkeypatch.setattr(torch.cuda, "init", broken)
    task = make_task(tmp_path, "small_trainables:Line", numerics=Numerics(device="cuda"))
    end = run_trial(task.model_copy(update={"gpus": ("GPU-1234",)}))
    assert (end.status, end.kind) == ("failed", "code")
    assert end.error.endswith(
        f"device: asked for cuda, but torch {torch.__version__} cannot compute on GPU GPU-1234: "
        "No CUDA GPUs are available\n    Check `nvidia-smi` and that this torch is built for this GPU and driver."
    )
    columns = json.loads(StorePaths(tmp_path).trial_json(task.spec.trial_id, 1).read_text())
    assert columns["status"] == "failed"
    assert columns["batches"] == 0


def test_a_torch_without_cuda_is_never_a_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.version.cuda:
        pytest.skip("this torch is built with CUDA")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    task = make_task(tmp_path, "small_trainables:Line", numerics=Numerics(device="cuda"))
    end = run_trial(task.model_copy(update={"gpus": ("0",)}))
    assert end.status == "failed"
    assert "cannot compute on GPU 0: Torch not compiled with CUDA enabled" in end.error


def test_a_loss_on_another_device_than_the_arms_fails_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The meta device stands in for a GPU that the trainable did not use."""
    from ablate.trial import runner
    from ablate.trial.session import Session

    class OnMeta(Session):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            self.device = torch.device("meta")

        def place(self, tensor: torch.Tensor) -> torch.Tensor:
            return tensor

        def adopt(self, model: torch.nn.Module) -> torch.nn.Module:
            return model

    monkeypatch.setattr(runner, "Session", OnMeta)
    end = run_trial(make_task(tmp_path, "small_trainables:Line"))
    assert end.kind == "code"
    assert end.error.endswith(
        "device: asked for meta, but the loss of batch 0 is on cpu\n"
        "    Move data by `place` and make the rest where the model's parameters are."
    )


def test_a_gpu_out_of_memory_is_a_memory_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ablate.trial import runner

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    monkeypatch.setattr(runner.structured, "train", full)
    end = run_trial(make_task(tmp_path, "small_trainables:Line"))
    assert end.kind == "memory"
    assert "CUDA out of memory" in end.error


def test_a_gpu_arms_environment() -> None:
    made = process_environment(Numerics(device="cuda", deterministic=True), {"CUDA_VISIBLE_DEVICES": "3"})
    assert made["CUDA_VISIBLE_DEVICES"] == ""  # the fork server sees none; each trial names its own
    assert made["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert made["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert arm_environment(made)["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_an_arm_may_choose_its_own_workspace() -> None:
    own = Numerics(device="cuda", deterministic=True, env={"CUBLAS_WORKSPACE_CONFIG": ":16:8"})
    assert process_environment(own, {})["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_a_cpu_arm_and_a_free_gpu_arm_get_no_workspace() -> None:
    inherited = {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "CUDA_DEVICE_ORDER": "FASTEST_FIRST", "TORCH_COMPILE_DISABLE": "1"}
    on_cpu = process_environment(Numerics(deterministic=True), inherited)
    assert not {"CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_ORDER", "TORCH_COMPILE_DISABLE"} & set(on_cpu)
    assert on_cpu["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUBLAS_WORKSPACE_CONFIG" not in process_environment(Numerics(device="cuda"), inherited)
