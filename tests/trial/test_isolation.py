"""Every trial is a pristine process that ends with its owner, however the owner died."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from spec_factory import make_task

from ablate.design.trial_spec import CurvaturePlan, GuardPlan, Numerics, ProbePlan
from ablate.record.journal import read_identity, read_journal, rows_written
from ablate.record.paths import StorePaths
from ablate.trial import isolation, server
from ablate.trial.isolation import Isolation, ServerFailed
from ablate.trial.task import ProbeRequest


def wait_until(true: Callable[[], object], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return bool(true())


def processes_of(root: Path) -> list[psutil.Process]:
    """Servers and trials of one test: they were started with its scratch folder in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ABLATE_TEST") == str(root) and process.pid != os.getpid():
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


@pytest.fixture
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Isolation]:
    monkeypatch.setenv("ABLATE_TEST", str(tmp_path))
    made = Isolation(uuid.uuid4().hex)
    yield made
    made.close()
    assert wait_until(lambda: not processes_of(tmp_path), 5), processes_of(tmp_path)


def test_two_environments_run_side_by_side_and_each_is_what_it_asked_for(isolated: Isolation, tmp_path: Path) -> None:
    plain = make_task(tmp_path, "small_trainables:Line")
    default = make_task(tmp_path, "small_trainables:Line", numerics=Numerics(env={"ATEN_CPU_CAPABILITY": "default"}))
    off = make_task(tmp_path, "small_trainables:Line", numerics=Numerics(onednn=False))
    ends = [isolated.run(task) for task in (plain, default, off)]
    assert [end.status for end in ends] == ["done"] * 3
    columns = [
        json.loads(StorePaths(tmp_path).trial_json(task.spec.trial_id, 1).read_text()) for task in (plain, default, off)
    ]
    assert columns[1]["capability"] == "DEFAULT" != columns[0]["capability"]
    assert [row["onednn"] for row in columns] == [True, True, False]
    assert len({row["host"] for row in columns}) == 1
    assert all(row["threads_used"] <= 1 for row in columns)


def test_what_a_trial_prints_is_in_its_log(isolated: Isolation, tmp_path: Path) -> None:
    task = make_task(tmp_path, "small_trainables:Line", settings={"bad_at": 1, "how": "raise"})
    assert isolated.run(task).kind == "code"
    log = StorePaths(tmp_path).log(task.spec.trial_id, 1).read_text()
    assert "Traceback" in log
    assert "the user's own mistake" in log


def test_a_trial_that_closes_its_output_is_done_all_the_same(isolated: Isolation, tmp_path: Path) -> None:
    end = isolated.run(make_task(tmp_path, "small_trainables:Line", settings={"bad_at": 2, "how": "close"}))
    assert (end.status, end.error) == ("done", "")


def test_a_temporary_folder_too_long_for_a_socket_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("a" * isolation.MOST_BYTES)
    long.mkdir()
    monkeypatch.setattr(isolation.tempfile, "tempdir", str(long))
    made = Isolation(uuid.uuid4().hex)
    try:
        end = made.run(make_task(tmp_path, "small_trainables:Line"))
    finally:
        made.close()
    assert end.status == "done", end.error
    assert isolation.socket_folder("/var/x").parent == Path("/var/x")


def test_an_arm_that_cannot_take_effect_fails_its_trial(isolated: Isolation, tmp_path: Path) -> None:
    numerics = Numerics(env={"ATEN_CPU_CAPABILITY": "vsx"})  # of another processor: torch falls back with a warning
    end = isolated.run(make_task(tmp_path, "small_trainables:Line", numerics=numerics))
    assert end.status == "failed"
    assert "env.ATEN_CPU_CAPABILITY: asked for vsx, but this process has" in end.error


def test_a_trial_killed_from_outside_is_an_infrastructure_failure(isolated: Isolation, tmp_path: Path) -> None:
    end = isolated.run(make_task(tmp_path, "small_trainables:Line", settings={"bad_at": 1, "how": "die"}))
    assert (end.status, end.kind) == ("failed", "infrastructure")
    assert end.error.endswith("attempt 1: its process died by signal 9")


def test_a_trial_killed_for_memory_is_recognised(
    isolated: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter([3, 4])
    monkeypatch.setattr(isolation, "oom_kills", lambda: next(counts))
    end = isolated.run(make_task(tmp_path, "small_trainables:Line", settings={"bad_at": 1, "how": "die"}))
    assert (end.status, end.kind) == ("failed", "memory")
    assert "killed because the machine ran out of memory" in end.error


def test_a_trial_without_a_batch_for_too_long_is_ended_as_hung(isolated: Isolation, tmp_path: Path) -> None:
    settings = {"bad_at": 1, "how": "hang"}
    end = isolated.run(make_task(tmp_path, "small_trainables:Line", settings=settings, stall_minutes=0.05))
    assert (end.status, end.kind) == ("failed", "infrastructure")
    assert end.error.endswith("no batch for 0.05 minutes (stall_minutes), so it was ended as hung")
    assert wait_until(lambda: len(processes_of(tmp_path)) <= 1, 2)  # the server alone is left


@pytest.mark.parametrize("off_s", [3600.0, -3600.0], ids=["an hour ahead", "an hour behind"])
def test_a_hung_trial_is_told_from_a_slow_one_whatever_the_clock_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    """The times of files are their server's: here an hour off, while rows are written, and then no more."""
    monkeypatch.setattr(isolation, "LOOK_S", 0.05)
    task = make_task(tmp_path, "small_trainables:Line", stall_minutes=0.5 / 60)
    rows = StorePaths(tmp_path).rows(task.spec.trial_id, 1)
    rows.parent.mkdir(parents=True, exist_ok=True)
    mine, theirs = socket.socketpair()
    began = time.monotonic()
    wrote: list[float] = []

    def write() -> None:
        for row in range(20):  # 2 s in all, four times what counts as hung
            time.sleep(0.1)
            rows.write_bytes(b"row" * (row + 1))
            os.utime(rows, (time.time() + off_s,) * 2)
            wrote.append(time.monotonic())

    writer = threading.Thread(target=write)
    writer.start()
    with mine, theirs, pytest.raises(TimeoutError):
        list(isolation._messages(mine, task))
    ended = time.monotonic()
    writer.join()
    assert len(wrote) == 20
    assert ended > wrote[-1]
    assert ended - began > 2.0


def test_a_server_told_to_leave_passes_it_on(isolated: Isolation, tmp_path: Path) -> None:
    task = make_task(tmp_path, "small_trainables:Line", settings={"bad_at": 10**9, "how": "raise"}, batches=10**9)
    rows = StorePaths(tmp_path).rows(task.spec.trial_id, 1)
    ends: list[Any] = []
    thread = threading.Thread(target=lambda: ends.append(isolated.run(task)))
    thread.start()
    assert wait_until(lambda: rows.exists() and (rows_written(rows) or 0) > 3, 60)
    for process in processes_of(tmp_path):
        if "ablate.trial.server" in process.cmdline() and process.pid != read_identity(rows)["pid"]:
            process.terminate()
    thread.join(30)
    assert [(end.status, end.kind) for end in ends] == [("failed", "infrastructure")]
    assert "told to leave (SIGTERM), it left after batch " in ends[0].error
    assert StorePaths(tmp_path).checkpoint(task.spec.trial_id).exists()


def test_a_server_that_was_killed_is_started_again_and_kept(isolated: Isolation, tmp_path: Path) -> None:
    def servers() -> list[int]:
        return [process.pid for process in processes_of(tmp_path)]

    def run(attempt: int) -> str:
        return isolated.run(make_task(tmp_path, "small_trainables:Line", attempt=attempt)).status

    assert run(1) == "done"
    first = servers()
    assert len(first) == 1
    os.kill(first[0], signal.SIGKILL)
    assert wait_until(lambda: not servers(), 5)
    time.sleep(0.5)  # a dying process closes its sockets after its memory is gone
    assert run(2) == "done"
    second = servers()
    assert len(second) == 1
    time.sleep(1.5 * server.LINGER_S)
    assert servers() == second
    assert run(3) == "done"
    assert servers() == second


def test_the_kernels_count_of_memory_kills_is_read() -> None:
    if not Path("/proc/vmstat").exists():
        pytest.skip("no /proc/vmstat on this system")
    count = isolation.oom_kills()
    assert count is None or count >= 0


def test_shutting_the_connection_down_kills_the_trial(isolated: Isolation, tmp_path: Path) -> None:
    task = make_task(tmp_path, "small_trainables:Line", settings={"bad_at": 1, "how": "hang"})
    rows = StorePaths(tmp_path).rows(task.spec.trial_id, 1)

    def stop_soon(connection: socket.socket) -> None:
        import threading

        def stop() -> None:
            assert wait_until(rows.exists, 20)
            connection.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=stop).start()

    end = isolated.run(task, stop_soon)
    assert end.status == "failed"
    assert wait_until(lambda: len(processes_of(tmp_path)) <= 1, 2)  # the server alone is left


OWNER = """
import sys, uuid
from ablate.trial.isolation import Isolation
from ablate.trial.task import TrialTask
isolation = Isolation(uuid.uuid4().hex)
print("start", flush=True)
isolation.run(TrialTask.model_validate_json(sys.argv[1]))
"""


@pytest.mark.parametrize("victims", ["owner", "owner and server", "server"])
def test_a_trial_ends_within_two_seconds_of_its_owner_killed(tmp_path: Path, victims: str) -> None:
    settings = {"bad_at": 1, "how": "hang"}
    task = make_task(tmp_path, "small_trainables:Line", settings=settings, guard=GuardPlan(first=0, every=0))
    environment = {**os.environ, "ABLATE_TEST": str(tmp_path)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, task.model_dump_json()], env=environment)
    rows = StorePaths(tmp_path).rows(task.spec.trial_id, 1)
    assert wait_until(lambda: rows_written(rows) == 1, 30)
    others = [process for process in processes_of(tmp_path) if process.pid != owner.pid]
    assert len(others) == 2  # server and trial
    trial = max(others, key=lambda process: process.create_time())
    the_server = min(others, key=lambda process: process.create_time())
    if "server" in victims:
        the_server.kill()
    if "owner" in victims:
        owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not trial.is_running() or trial.status() == psutil.STATUS_ZOMBIE, 2)
    if victims == "server":
        owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert wait_until(lambda: not processes_of(tmp_path), 3)
    assert len(read_journal(rows).rows) == 1  # what was acknowledged before is there


def test_a_refused_fork_is_told_to_the_user(isolated: Isolation, tmp_path: Path) -> None:
    # the grid refuses this variable; here it makes NumPy start a pool when the server imports it
    task = make_task(tmp_path, "small_trainables:Line", numerics=Numerics(env={"OPENBLAS_NUM_THREADS": "2"}))
    end = isolated.run(task)
    assert end.kind == "infrastructure"
    assert "no process could be made for it: the fork server has 2 threads" in end.error


def test_a_server_that_cannot_start_says_what_it_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "torch.py").write_text("raise ImportError('this torch is broken')")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("ABLATE_TEST", str(tmp_path))
    with pytest.raises(ServerFailed) as caught:
        Isolation(uuid.uuid4().hex).run(make_task(tmp_path, "small_trainables:Line"))
    assert "ablate.trial.server did not start" in str(caught.value)
    assert "this torch is broken" in str(caught.value)
    assert "Check that torch imports" in str(caught.value)


def test_a_probe_runs_in_the_plain_environment_whatever_the_arms(isolated: Isolation, tmp_path: Path) -> None:
    """So equal weights of any arm give equal bytes; what it printed goes once it is done."""
    plan = ProbePlan(curvature=CurvaturePlan(at=(4,)))
    request = ProbeRequest(at=(4,), plan=plan.curvature)
    arms = [Numerics(), Numerics(env={"ATEN_CPU_CAPABILITY": "default"}, threads=2, onednn=False)]
    plain, other = (make_task(tmp_path, "small_trainables:Line", numerics=arm, probes=plan) for arm in arms)
    assert isolated.run(plain).status == "done"
    paths = StorePaths(tmp_path)
    shutil.copy(paths.snapshot(plain.spec.trial_id, 4), paths.snapshot(other.spec.trial_id, 4))
    for task in (plain, other):
        end = isolated.run(task.model_copy(update={"attempt": 0, "probe": request}))
        assert (end.status, end.missing, end.error) == ("done", (), "")
        assert not paths.probe_log(task.spec.trial_id).exists()
    lines = [paths.probe_lines(task.spec.trial_id, 4).read_bytes() for task in (plain, other)]
    assert lines[0] == lines[1]


def test_a_probe_that_fails_or_stalls_says_so_and_leaves_its_log(isolated: Isolation, tmp_path: Path) -> None:
    plan = ProbePlan(curvature=CurvaturePlan(at=(0, 1)))
    request = ProbeRequest(at=(0, 1), plan=plan.curvature)
    told = {
        "raise": "probe of trial {} (arm plain, block 0):\nsnapshot after 0 batches, player line: Traceback",
        "hang": "probe of trial {} (arm plain, block 0): no product with the Hessian for 0.04 minutes (stall_minutes)",
    }
    for how, words in told.items():
        settings = {"bad_at": 0, "how": how}
        task = make_task(tmp_path, "small_trainables:Line", settings=settings, probes=plan, stall_minutes=0.04)
        assert isolated.run(task).status == "failed"  # its first batch does, after it kept the initial weights
        end = isolated.run(task.model_copy(update={"attempt": 0, "probe": request}))
        assert end.status == "failed"
        assert words.format(task.spec.trial_id) in end.error
        assert "snapshot after 0 batches" in StorePaths(tmp_path).probe_log(task.spec.trial_id).read_text()


def test_a_server_started_ahead_is_the_one_that_forks(isolated: Isolation, tmp_path: Path) -> None:
    task = make_task(tmp_path, "small_trainables:Line")
    isolated.start(task.numerics)
    assert wait_until(lambda: processes_of(tmp_path), 30)
    assert isolated.run(task).status == "done"
    assert len(processes_of(tmp_path)) == 1


def test_a_server_started_ahead_and_not_wanted_ends(isolated: Isolation, tmp_path: Path) -> None:
    isolated.start(Numerics())
    assert wait_until(lambda: processes_of(tmp_path), 30)
    isolated.close()
    assert wait_until(lambda: not processes_of(tmp_path), 100)  # once it has imported torch


def test_why_a_server_started_ahead_failed_is_said_by_the_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "torch.py").write_text("raise ImportError('this torch is broken')")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("ABLATE_TEST", str(tmp_path))
    broken, task = Isolation(uuid.uuid4().hex), make_task(tmp_path, "small_trainables:Line")
    broken.start(task.numerics)
    with pytest.raises(ServerFailed, match="this torch is broken"):
        broken.run(task)
    broken.close()
