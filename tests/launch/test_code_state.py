"""Which code a study was launched from, with the diff of what was not committed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ablate.launch.code_state import MOST_BYTES, CodeState, code_state, sent_along
from ablate.record.paths import StorePaths


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    made = StorePaths(tmp_path / "store")
    made.diffs.mkdir(parents=True)
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "model.py").write_text("x = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_a_clean_commit_has_no_diff(repository: Path, paths: StorePaths) -> None:
    assert code_state(repository, paths) == CodeState(git(repository, "rev-parse", "HEAD"), dirty=False)
    assert not list(paths.diffs.iterdir())


def test_a_copy_without_the_repository_is_told_its_commit(
    repository: Path, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = paths.root
    assert code_state(copy, paths) == CodeState()
    assert sent_along(copy) == {}
    for name, value in sent_along(repository).items():
        monkeypatch.setenv(name, value)
    assert code_state(copy, paths) == CodeState(git(repository, "rev-parse", "HEAD"), dirty=False)
    (repository / "new.py").touch()
    for name, value in sent_along(repository).items():
        monkeypatch.setenv(name, value)
    assert code_state(copy, paths).dirty


def test_a_change_is_kept_once(repository: Path, paths: StorePaths) -> None:
    (repository / "model.py").write_text("x = 2\n")
    state = code_state(repository, paths)
    assert state.dirty
    assert state.diff is not None
    assert "-x = 1\n+x = 2" in paths.diff(state.diff).read_text()
    assert code_state(repository, paths) == state
    assert len(list(paths.diffs.iterdir())) == 1


def test_a_diff_that_is_too_large_is_cut_and_says_so(repository: Path, paths: StorePaths) -> None:
    (repository / "model.py").write_text("y = 3\n" * MOST_BYTES)
    state = code_state(repository, paths)
    assert state.diff is not None
    content = paths.diff(state.diff).read_bytes()
    assert len(content) < MOST_BYTES + 100
    assert content.endswith(b"... cut here by ablate: the diff is larger than 1 MiB\n")


def test_outside_a_repository_nothing_is_claimed(tmp_path: Path, paths: StorePaths) -> None:
    assert code_state(tmp_path, paths) == CodeState()
