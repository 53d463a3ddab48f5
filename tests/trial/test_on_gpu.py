"""Trials on a real GPU. Everything here is skipped without one; the same rules are tested elsewhere with stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from spec_factory import make_spec, make_task

from ablate.audit.guard import SavedTensorGuard
from ablate.design.trial_spec import GuardPlan, Numerics
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.trial.environment import process_environment
from ablate.trial.isolation import Isolation
from ablate.trial.nvml import all_gpus, driver_version, visible_gpus
from ablate.trial.task import TrialEnd
from tests.tolerances import numerical

GPUS = visible_gpus(os.environ)
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not GPUS or not torch.version.cuda, reason="no CUDA device, or a torch without CUDA"),
]
ON_GPU = Numerics(device="cuda")
F32 = 2.0**-24


class Ran:
    """A trial that ran: how it ended, its rows and its columns."""

    def __init__(self, root: Path, end: TrialEnd, trial_id: str) -> None:
        paths = StorePaths(root)
        self.end = end
        self.rows = read_journal(paths.rows(trial_id, 1)).rows
        self.columns: dict[str, Any] = json.loads(paths.trial_json(trial_id, 1).read_text())
        file = paths.audit_lines(trial_id, 1)
        self.audits = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def findings(self) -> list[dict[str, Any]]:
        return [row for row in self.audits if row["verdict"] != "clean"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    """Run a trial in a process of its own, on the first GPU if its arm asks for one."""
    isolation = Isolation(uuid.uuid4().hex)
    count = iter(range(1000))

    def run(trainable: str, gpus: tuple[str, ...] = GPUS[:1], **changes: Any) -> Ran:
        root = tmp_path / str(next(count))
        path = trainable if ":" in trainable else f"small_trainables:{trainable}"
        task = make_task(root, path, **changes)
        if task.spec.numerics.device == "cuda":
            task = task.model_copy(update={"gpus": gpus})
        return Ran(root, isolation.run(task), task.spec.trial_id)

    yield run
    isolation.close()


def test_what_took_effect_is_recorded(run: Any) -> None:
    ran = run("Line", numerics=ON_GPU)
    assert ran.end.status == "done", ran.end.error
    columns = ran.columns
    assert columns["device"] == "cuda"
    assert columns["gpu"] in {gpu.name for gpu in all_gpus()}
    assert columns["gpu_driver"] == driver_version() != ""
    assert columns["cuda"] == torch.version.cuda
    assert columns["cudnn"] is True
    assert columns["cudnn_version"]
    assert columns["tf32_matmul"] is columns["tf32_conv"] is False
    assert columns["gpu_peak_memory_bytes"] > 0
    assert json.loads(columns["env"])["CUDA_VISIBLE_DEVICES"] == GPUS[0]


@pytest.mark.parametrize(
    ("numerics", "column", "value"),
    [
        (Numerics(device="cuda", cudnn=False), "cudnn", False),
        (Numerics(device="cuda", cudnn_benchmark=True), "cudnn_benchmark", True),
        (Numerics(device="cuda", tf32=True), "tf32_matmul", True),
        (Numerics(device="cuda", tf32=True), "tf32_conv", True),
        (Numerics(device="cuda", deterministic=True), "deterministic", True),
        (Numerics(device="cuda", precision="bfloat16"), "precision", "bfloat16"),
        (Numerics(device="cuda", precision="float64"), "precision", "float64"),
    ],
)
def test_every_option_takes_effect(run: Any, numerics: Numerics, column: str, value: object) -> None:
    if numerics.tf32 and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this GPU has no TF32")
    ran = run("Line", numerics=numerics)
    assert ran.end.status == "done", ran.end.error
    assert ran.columns[column] == value


def test_deterministic_products_have_their_workspace(run: Any) -> None:
    ran = run("Line", numerics=Numerics(device="cuda", deterministic=True))
    assert json.loads(ran.columns["env"])["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_compile_takes_effect(run: Any) -> None:
    ran = run("Line", numerics=Numerics(device="cuda", compile=True))
    assert ran.end.status == "done", ran.end.error
    assert ran.columns["compiled_graphs"] >= 1


@pytest.mark.parametrize("trainable", ["Line", "function_line"])
def test_weights_data_and_draws_are_those_of_a_cpu_arm(run: Any, trainable: str) -> None:
    plan = GuardPlan(first=2, every=3)
    on_cpu, on_gpu = (run(trainable, numerics=numerics, batches=12, guard=plan) for numerics in (Numerics(), ON_GPU))
    assert on_gpu.end.status == "done", on_gpu.end.error
    for column in ("initial_hash", "order_hash", "draw_hash", "batches"):
        assert on_cpu.columns[column] == on_gpu.columns[column], column
    for name in ("batch_index", "order_hash", "content_hash", "metric.count"):
        assert on_cpu.rows[name].tolist() == on_gpu.rows[name].tolist(), name
    # numerical: the first loss is a mean of 5 squares of sums of 4 terms
    assert on_gpu.rows["loss"][0] == pytest.approx(on_cpu.rows["loss"][0], rel=numerical(F32, 9))


def test_the_same_deterministic_arm_twice_is_bitwise_equal(run: Any) -> None:
    numerics = Numerics(device="cuda", deterministic=True)
    one, two = (run("Line", numerics=numerics, batches=100) for _ in range(2))
    assert one.rows["loss"].tobytes() == two.rows["loss"].tobytes()


@pytest.mark.parametrize("trainable", ["Line", "function_line"])
def test_the_guard_changes_no_loss(run: Any, trainable: str) -> None:
    numerics = Numerics(device="cuda", deterministic=True)
    watched = run(trainable, numerics=numerics, guard=GuardPlan(first=4, every=1))
    free = run(trainable, numerics=numerics, guard=GuardPlan(first=0, every=0))
    assert watched.rows["loss"].tobytes() == free.rows["loss"].tobytes()
    assert watched.findings == []
    assert min(row["count"] for row in watched.audits) > 0


def test_a_trial_that_diverged_ends_where_a_cpu_arm_ends(run: Any) -> None:
    settings = {"bad_at": 7, "how": "nan"}
    on_cpu, on_gpu = (
        run("Line", numerics=numerics, settings=settings, batches=200) for numerics in (Numerics(), ON_GPU)
    )
    assert on_gpu.end.status == "diverged"
    assert on_gpu.rows["batch_index"].tolist() == on_cpu.rows["batch_index"].tolist() == list(range(8))
    assert np.isnan(on_gpu.rows["loss"][7])
    assert on_gpu.columns["draw_hash"] == on_cpu.columns["draw_hash"]


def test_the_copy_to_the_gpu_heals_the_reused_buffer(run: Any) -> None:
    settings = {"source": "photographs", "width": 16, "height": 16, "channels": "3,4", "window": 5}
    found = {
        (device, kind): len(
            run(
                "trainables.prednet:PredNet",
                numerics=Numerics(device=device),
                settings={**settings, "input": kind},
                batches=2,
            ).findings
        )
        for device in ("cpu", "cuda")
        for kind in ("copied", "reused-buffer")
    }
    assert found.pop(("cpu", "reused-buffer")) > 0
    assert found == dict.fromkeys(found, 0)


def test_a_gpu_that_is_not_there_fails_the_trial(run: Any) -> None:
    ran = run("Line", numerics=ON_GPU, gpus=("GPU-00000000-0000-0000-0000-000000000000",))
    assert ran.end.kind == "code"
    assert "device: asked for cuda, but torch" in ran.end.error


def test_a_cpu_arm_sees_no_gpu(run: Any) -> None:
    ran = run("gpu_trainables:function_sees_no_gpu")
    assert ran.end.status == "done", ran.end.error
    assert ran.columns["device"] == "cpu"


def test_a_draw_from_the_gpus_generator_is_named(run: Any) -> None:
    ran = run("gpu_trainables:function_draws_on_its_device", numerics=ON_GPU)
    assert ran.end.status == "done", ran.end.error
    assert any("torch cuda:0" in row["detail"] for row in ran.findings), ran.findings


AFTER_PRELOAD = """
from ablate.trial import server
server.preload()
assert server.unfit_to_fork() == "", server.unfit_to_fork()
import torch
{touch}
print(server.unfit_to_fork())
"""


@pytest.mark.parametrize(("touch", "says"), [("", ""), ("torch.cuda.is_available()", "holds a CUDA context")])
def test_preloading_starts_no_cuda_and_counting_gpus_would(touch: str, says: str) -> None:
    """With the GPU visible, which the server's own environment never has."""
    environment = {**process_environment(ON_GPU, os.environ), "CUDA_VISIBLE_DEVICES": GPUS[0]}
    environment.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    code = AFTER_PRELOAD.format(touch=touch)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
    assert bool(done.stdout.strip()) is bool(says)


def test_a_batch_on_its_way_to_the_gpu_may_be_overwritten() -> None:
    """``place`` copies without waiting; the trainable may refill its buffer as soon as it returns."""
    from ablate.trial.session import Session

    session = object.__new__(Session)
    session.spec = make_spec("x:y", numerics=ON_GPU)
    session.device = torch.device("cuda")
    buffer = np.zeros(4_000_000, dtype=np.float32)
    for value in range(20):
        buffer[:] = value
        placed = session.place(torch.from_numpy(buffer))
        buffer[:] = -1.0
        assert placed.is_cuda
        assert (placed == value).all().item()


def test_the_guard_finds_an_overwrite_on_the_gpu_and_names_it() -> None:
    guard = SavedTensorGuard()
    weight = torch.ones(1000, device="cuda", requires_grad=True)
    with guard.batch(0):
        data = torch.ones(1000, device="cuda")
        loss = (weight * data).sum()
        data.data.fill_(5.0)
        loss.backward()
    assert len(guard.findings) == 1
    assert "test_on_gpu.py" in guard.findings[0].source
    assert "MulBackward0" in guard.findings[0].role


def test_the_guard_on_both_devices_at_once_loses_no_comparison() -> None:
    """CPU operations run backward in this thread, CUDA's in autograd's own, both in one graph."""
    guard = SavedTensorGuard()
    with guard.batch(0):
        on_gpu = torch.full((64,), 0.1, device="cuda", requires_grad=True)
        on_cpu = torch.full((64,), 0.1, requires_grad=True)
        a, b = on_gpu, on_cpu
        for _ in range(200):
            a, b = a.tanh(), b.tanh()
        (a.sum().cpu() + b.sum()).backward()
    assert guard.tensors_saved == guard.tensors_checked == 400
    assert guard.findings == []
    assert on_gpu.grad is not None
    assert on_cpu.grad is not None
    # across devices: measured, not asserted close
