"""A fork server forks only what is pristine: no thread, nothing of CUDA, and everything imported that a trial needs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ablate.design.trial_spec import Numerics
from ablate.trial import server
from ablate.trial.environment import process_environment


def test_a_server_with_a_second_thread_refuses_to_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/task").exists():
        pytest.skip("no /proc on this system")
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert "threads; something started a pool at import" in server.unfit_to_fork()
    finally:
        stop.set()
        thread.join()


def test_a_server_that_started_cudas_driver_refuses_to_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting GPUs is enough: it opens the driver's memory device, whatever torch knows of it."""
    (tmp_path / "0").symlink_to("/dev/null")
    (tmp_path / "7").symlink_to("/dev/nvidiactl")  # NVML alone: harmless
    assert not server._driver_open(tmp_path)
    (tmp_path / "8").symlink_to("/dev/nvidia-uvm")
    assert server._driver_open(tmp_path)
    assert not server._driver_open(tmp_path / "no /proc here")
    monkeypatch.setattr(server, "_driver_open", lambda: True)
    monkeypatch.setattr(server, "Path", lambda _: tmp_path / "no /proc here")
    assert server.unfit_to_fork() == "the fork server holds a CUDA context; something touched the GPU at import"


TOUCHING = """
import sys
called = []
touches = {"is_available", "device_count", "init", "_lazy_init", "get_device_properties", "current_device"}
def profile(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.endswith("torch/cuda/__init__.py") and code.co_name in touches:
        called.append(f"{code.co_name} from {frame.f_back.f_code.co_filename}:{frame.f_back.f_lineno}")
sys.setprofile(profile)
from ablate.trial import server
server.preload()
sys.setprofile(None)
print("\\n".join(called))
"""


def test_preloading_asks_cuda_nothing() -> None:
    """Not even how many GPUs there are: that starts the driver, and a GPU arm's fork would be broken."""
    environment = process_environment(Numerics(device="cuda"), os.environ)
    done = subprocess.run([sys.executable, "-c", TOUCHING], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


AFTER_PRELOAD = """
import sys
from ablate.trial import server
server.preload()
assert server.unfit_to_fork() == "", server.unfit_to_fork()
loaded = set(sys.modules)
import torch
parameter = torch.nn.Parameter(torch.ones(2))
optimiser = torch.optim.Adam([parameter])
parameter.sum().backward()
optimiser.step()
import ablate.trial.runner, ablate.record.recorder, ablate.audit.guard, safetensors.torch
print("\\n".join(sorted(set(sys.modules) - loaded)))
"""


def test_a_forked_trial_has_everything_imported_and_one_thread() -> None:
    environment = process_environment(Numerics(), os.environ)
    done = subprocess.run(
        [sys.executable, "-c", AFTER_PRELOAD], env=environment, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.split()) <= 1, done.stdout  # torch imports one small module at the first step
