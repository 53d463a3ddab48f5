"""NVML stood in for by a library of the same calls; without a driver there are no GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ablate.trial import nvml
from ablate.trial.nvml import Gpu, all_gpus, driver_version, gpu_load, visible_gpus

TWO = (Gpu("GPU-aaaa-1", "NVIDIA A"), Gpu("GPU-bbbb-2", "NVIDIA B"))


class FakeLibrary:
    """Answers as NVML does: 0 for success, text into the caller's buffer."""

    def __init__(self, gpus: tuple[Gpu, ...], closed: tuple[int, ...] = (), count_fails: bool = False) -> None:
        self.gpus, self.closed, self.count_fails = gpus, closed, count_fails

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return 999 if self.count_fails else 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: Any) -> int:
        handle._obj.value = index.value + 1
        return 4 if index.value in self.closed else 0  # 4: no permission

    def nvmlDeviceGetUUID(self, handle: ctypes.c_void_p, buffer: Any, length: Any) -> int:
        buffer.value = self.gpus[(handle.value or 0) - 1].uuid.encode()
        return 0

    def nvmlDeviceGetName(self, handle: ctypes.c_void_p, buffer: Any, length: Any) -> int:
        buffer.value = self.gpus[(handle.value or 0) - 1].name.encode()
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle: ctypes.c_void_p, found: Any) -> int:
        found._obj.gpu = 40 + (handle.value or 0)
        return 0

    def nvmlSystemGetDriverVersion(self, buffer: Any, length: Any) -> int:
        buffer.value = b"580.65.06"
        return 0


def use(monkeypatch: pytest.MonkeyPatch, library: FakeLibrary | None) -> None:
    @contextmanager
    def fake() -> Iterator[Any]:
        yield library

    monkeypatch.setattr(nvml, "library", fake)


def test_gpus_are_listed_with_identifier_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeLibrary(TWO))
    assert all_gpus() == TWO
    assert driver_version() == "580.65.06"


def test_a_gpu_closed_to_this_process_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeLibrary(TWO, closed=(0,)))
    assert all_gpus() == TWO[1:]


def test_without_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libnot-there-at-all.so.1")
    assert all_gpus() == ()
    assert driver_version() == ""
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0"}) == ()


def test_a_driver_that_cannot_count_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeLibrary(TWO, count_fails=True))
    assert all_gpus() == ()


A, B = TWO[0].uuid, TWO[1].uuid


@pytest.mark.parametrize(
    ("variable", "visible"),
    [
        (None, (A, B)),
        ("", ()),
        ("-1", ()),
        ("1", (B,)),
        ("1,0", (B, A)),
        ("1, 0", (B, A)),
        ("0,0", (A,)),
        ("0,5,1", (A,)),
        ("0,NoDevice,1", (A,)),
        ("GPU-bbbb", (B,)),
        (A, (A,)),
        ("GPU-", ()),
        ("MIG-cccc-3", ("MIG-cccc-3",)),
    ],
)
def test_the_shells_own_choice_is_kept(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, visible: tuple[str, ...]
) -> None:
    use(monkeypatch, FakeLibrary(TWO))
    assert visible_gpus({} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}) == visible


def test_the_load_of_each_open_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeLibrary(TWO, closed=(0,)))
    assert gpu_load() == (("NVIDIA B", 42),)
    use(monkeypatch, None)
    assert gpu_load() == ()
