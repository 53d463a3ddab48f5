"""GPU use by process: the real calls against a library compiled here with NVML's own structures."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ablate.trial import gpu_use, nvml
from ablate.trial.gpu_use import MACHINES_OWN, GpuSampler, GpuUse, processes

NOT_AVAILABLE = 2**64 - 1


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the driver's library cannot be stood in for by one of its own structures")
    library = tmp_path_factory.mktemp("nvml") / "libfake-nvml.so"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


@pytest.fixture
def driver(compiled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ctypes.CDLL:
    monkeypatch.setattr(nvml, "LIBRARY", str(compiled))
    library = ctypes.CDLL(str(compiled))  # the same one, already loaded: what is set here is seen there
    library.fake_process.argtypes = (ctypes.c_uint, ctypes.c_ulonglong)
    library.fake_sample.argtypes = (ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_uint)
    library.fake_reset(1)
    return library


@pytest.fixture
def here(tmp_path: Path) -> Path:
    link = tmp_path / "pid"
    link.symlink_to(MACHINES_OWN)
    return link


def microseconds(ago: float) -> int:
    return int((time.time() - ago) * 1e6)


def test_each_process_has_its_own_share_and_memory(driver: ctypes.CDLL, here: Path) -> None:
    driver.fake_process(4711, 3 << 30)
    driver.fake_process(815, NOT_AVAILABLE)
    driver.fake_process(99, 5)
    driver.fake_sample(4711, microseconds(0.2), 90)  # the newest counts, wherever it stands
    driver.fake_sample(4711, microseconds(1.0), 10)
    driver.fake_sample(815, microseconds(0.1), 25)
    driver.fake_sample(99, microseconds(60), 77)  # of a minute ago: no kernel ran since
    assert processes(here) == {4711: GpuUse(0.9, 3 << 30), 815: GpuUse(0.25, None), 99: GpuUse(0.0, 5)}
    assert driver.fake_opened() == 0  # closed again


def test_a_quiet_gpu_has_processes_that_use_nothing(driver: ctypes.CDLL, here: Path) -> None:
    driver.fake_process(1, 10)
    assert processes(here) == {1: GpuUse(0.0, 10)}


def test_an_unused_gpu_has_none(driver: ctypes.CDLL, here: Path) -> None:
    assert processes(here) == {}


def test_a_gpu_that_cannot_tell_by_process_says_nothing(driver: ctypes.CDLL, here: Path) -> None:
    driver.fake_reset(0)
    driver.fake_process(1, 10)
    assert processes(here) == {1: GpuUse(None, 10)}


def test_a_number_that_is_no_percentage_is_left_out(driver: ctypes.CDLL, here: Path) -> None:
    driver.fake_process(1, 10)
    driver.fake_sample(1, microseconds(0.3), 40)
    driver.fake_sample(1, microseconds(0.1), 4_000_000)
    assert processes(here) == {1: GpuUse(0.4, 10)}


def test_in_a_container_nothing_is_said_by_process(driver: ctypes.CDLL, tmp_path: Path) -> None:
    driver.fake_process(os.getpid(), 10)  # some other process of the machine has our number
    (tmp_path / "container").symlink_to("pid:[4026532831]")
    assert processes(tmp_path / "container") is None
    assert processes(tmp_path / "no-proc-here") is None


def test_without_a_driver_nothing_is_known(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libnot-there-at-all.so.1")
    assert processes(here) is None


def test_a_trial_samples_its_own_use_once_a_second(driver: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_use, "_numbers_are_the_machines", lambda namespace: True)
    clock = [100.0]
    monkeypatch.setattr(gpu_use.time, "monotonic", lambda: clock[0])
    sampler = GpuSampler()
    assert sampler.busy is None
    driver.fake_process(os.getpid(), 10)
    driver.fake_sample(os.getpid(), microseconds(0.1), 80)
    sampler.sample()
    clock[0] += 0.5
    sampler.sample()  # too early: the same sample would count twice
    assert sampler.busy == 0.8
    clock[0] += 0.5
    driver.fake_reset(1)
    driver.fake_process(os.getpid(), 10)
    sampler.sample()  # no kernel since
    assert sampler.busy == 0.4


def test_a_trial_in_a_container_samples_nothing(driver: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_use, "_numbers_are_the_machines", lambda namespace: False)
    driver.fake_process(os.getpid(), 10)
    driver.fake_sample(os.getpid(), microseconds(0.1), 80)
    sampler = GpuSampler()
    sampler.sample()
    assert sampler.busy is None
