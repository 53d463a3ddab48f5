"""How far a run is: after a launch, during one, and as a list of runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from ablate.design.trial_spec import Numerics
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.status import ArmStatus, RunStatus, run_status
from ablate.record.status_table import ago, runs_table, status_table, time_left
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec

ABLATE = str(Path(sys.executable).parent / "ablate")
GRID = """
study: slow
question: Is it over yet?
trainable: slow:train
batches: 200
blocks: 2
arms: {plain: {}, no-onednn: {onednn: false}}
"""
SLOW = """
import time, torch
def train(config, ctx):
    for k in range(ctx.batches):
        time.sleep(0.05)
        ctx.batch(torch.ones(()))
"""


def text(table: object) -> str:
    console = Console(width=100, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_a_run_is_followed_while_it_is_written_and_after(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "slow.py").write_text(SLOW)
    launch = subprocess.Popen([ABLATE, "launch", "grid.yaml", "--local"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        root = tmp_path / "runs" / "slow"
        deadline = time.monotonic() + 180  # seconds alone; a machine that many share is slower by tens of times
        status = None
        while time.monotonic() < deadline and (status is None or not status.total("running")):
            time.sleep(0.2)
            if (root / "spec.json").exists():
                status = run_status(Run(root))
        assert status is not None
        assert status.total("running") >= 1
        assert status.total("planned") == 4
        assert f"process {launch.pid} on" in status.writer
        assert 0 <= status.batches < status.batches_in_all == 800
        assert "running; " in text(status_table(status))
    finally:
        launch.send_signal(signal.SIGTERM)
        launch.wait()
    after = run_status(Run(root))
    assert after.total("running") == 0
    assert after.writer == ""
    assert after.left_s is None
    assert "not being written; last change" in text(status_table(after))
    listed = subprocess.run([ABLATE, "runs", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [one["study"] for one in json.loads(listed.stdout)] == ["slow"]
    shown = subprocess.run([ABLATE, "status", "slow"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Is it over yet?" in shown.stdout


def one(**changes: object) -> RunStatus:
    arm = ArmStatus("plain", 4, 2, 1, 1, 1, 0.012, 0.97, 2)
    fields = {"study": "s", "question": "Q?", "writer": "", "arms": (arm,), "batches": 50, "batches_in_all": 100}
    return RunStatus(**{**fields, "left_s": 30.0, "changed": time.time() - 7200, **changes})  # type: ignore[arg-type]


def test_the_table_sums_up_and_explains_its_columns() -> None:
    shown = text(status_table(one()))
    assert "s: 2 of 4 trials done, 1 running, 1 failed; 50 % of batches; about 30 s left" in shown
    assert "processor seconds per second of one trial" in shown
    assert "12" in shown
    assert "0.97" in shown


def test_the_load_of_gpus_is_shown() -> None:
    assert "GPU: NVIDIA A, 42 % busy now, on this machine" in text(status_table(one(), [("NVIDIA A", 42)]))


def gpu_run(root: Path, recorded: float | None) -> tuple[Run, Recorder]:
    """A GPU arm with a trial that is done and one that this process seems to run, beside a CPU arm."""
    arms = {name: make_grid().arms["fast"] for name in ("cpu", "gpu")}
    arms["gpu"] = arms["gpu"].model_copy(update={"numerics": Numerics(device="cuda")})
    with Store.open(root, make_grid(arms=arms, factors={}), b"") as store:
        done, running = (make_spec("gpu", block).model_copy(update={"factors": {}}) for block in (0, 1))
        with Recorder(store.paths, done, 1) as recorder:
            recorder.record(0, 1.0, 0.1, {})
            recorder.finish("done", wall_s=2.0, cpu_s=1.0, threads_used=3, gpu_busy=recorded)
        store.absorb(done.trial_id, 1)
        return Run(root), Recorder(store.paths, running, 1)


def test_gpu_use_is_told_per_arm(tmp_path: Path) -> None:
    run, running = gpu_run(tmp_path / "r", 0.5)
    with running:
        status = run_status(run, {os.getpid(): (0.9, 300 << 20), 1: (1.0, 1 << 30)})
        cpu, gpu = status.arms
        assert (cpu.device, cpu.gpu_share, cpu.gpu_memory_bytes) == ("cpu", None, None)
        assert (gpu.device, gpu.running, gpu.done) == ("cuda", 1, 1)
        assert gpu.gpu_share == pytest.approx(0.7)  # of the trial that is done and of the one that runs
        assert gpu.gpu_memory_bytes == 300 << 20
        assert status.gpu_note == ""
        shown = text(status_table(status))
        assert "GPU MiB" in shown
        row = next(line for line in shown.splitlines() if line.strip().startswith("gpu")).split()
        assert row[-2:] == ["0.70", "300"]
        assert "share of the time that a trial ran kernels on one" in shown


def test_gpu_use_that_the_driver_does_not_tell_is_said(tmp_path: Path) -> None:
    run, running = gpu_run(tmp_path / "r", None)
    with running:
        status = run_status(run, None)
        assert status.arms[1].gpu_share is None
        shown = " ".join(text(status_table(status, [("NVIDIA A", 42)])).split())
        assert "GPU use is not known trial by trial in gpu: the driver cannot tell it here (in a container" in shown
        assert "GPU: NVIDIA A, 42 % busy now, on this machine" in shown


def test_a_trial_of_another_machine_is_not_taken_for_a_process_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablate.record.journal.socket.gethostname", lambda: "elsewhere")
    run, running = gpu_run(tmp_path / "r", 0.5)
    with running:
        monkeypatch.undo()
        arm = run_status(run, {os.getpid(): (0.9, 300 << 20)}).arms[1]
        assert (arm.running, arm.gpu_share, arm.gpu_memory_bytes, arm.cpu_share) == (1, 0.5, None, 0.5)


def test_an_arms_name_keeps_its_line_in_eighty_columns() -> None:
    arm = ArmStatus("reused-buffer", 4, 2, 1, 1, 1, 0.012, 0.97, 2, "cuda", 0.5, 3 << 30)
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(status_table(one(arms=(arm,))))
    assert "reused-buffer  2/4" in captured.get()
    assert "GPU MiB" in captured.get()


def test_without_a_gpu_arm_the_table_has_no_column_for_it() -> None:
    assert "GPU" not in text(status_table(one()))


def test_runs_are_listed_last_changed_first() -> None:
    listed = text(runs_table([one(), one(study="newer", changed=time.time(), writer="process 1")]))
    assert listed.index("newer") < listed.index(" s ")
    assert "running" in listed
    assert "incomplete" in listed
    assert "2 h ago" in listed


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "about 1 s left"), (89, "about 89 s left"), (600, "about 10 min left"), (7200, "2.0 h")],
)
def test_time_left_in_words(seconds: float, words: str) -> None:
    assert words in time_left(seconds)


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "5 s ago"), (120, "2 min ago"), (90000, "1 d ago"), (-5, "0 s ago")]
)
def test_ago_in_words(seconds: float, words: str) -> None:
    assert ago(time.time() - seconds) == words


def test_no_folder_of_runs_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [ABLATE, "runs", "--runs", "nowhere"], cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 2
    assert "nowhere: is not a folder" in done.stderr
