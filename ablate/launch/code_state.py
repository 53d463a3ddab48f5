"""Which code a study was launched from: the commit, and what was changed since, as far as git knows."""

from __future__ import annotations

import hashlib
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ablate.record.disk import write_aside
from ablate.record.paths import StorePaths

MOST_BYTES = 2**20
"""A larger diff (data in the repository, as a rule) is cut there and says so."""

COMMIT, DIRTY = "ABLATE_SENT_COMMIT", "ABLATE_SENT_DIRTY"
"""Set in a launch that was submitted to a cluster, whose head has a copy of the folder and no repository."""


@dataclass(frozen=True)
class CodeState:
    """The columns of ``trials`` that name the code.

    Attributes:
        commit: the commit checked out; empty outside a repository.
        dirty: whether tracked files had been changed or untracked ones were there; None outside a repository.
        diff: name of the stored diff of tracked files, without its ending; None if there is none.
    """

    commit: str = ""
    dirty: bool | None = None
    diff: str | None = None


def code_state(folder: Path, paths: StorePaths) -> CodeState:
    """Ask git about ``folder`` and keep its diff in the store, once for equal ones.

    Raises:
        StoreError: if the disk is full or fails.
    """
    commit, dirty = _checked_out(folder)
    if commit:
        return CodeState(commit, dirty, _keep(_git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff"), paths))
    if os.environ.get(COMMIT):  # this folder is a copy that was sent here
        return CodeState(os.environ[COMMIT], os.environ.get(DIRTY) == "yes")
    return CodeState()


def sent_along(folder: Path) -> dict[str, str]:
    """Return the variables that tell a copy of ``folder``, which has no repository, which commit it is."""
    commit, dirty = _checked_out(folder)
    return {COMMIT: commit, DIRTY: "yes" if dirty else "no"} if commit else {}


def _checked_out(folder: Path) -> tuple[str, bool]:
    """Return the commit, and whether anything was changed or added since; no commit outside a repository."""
    with suppress(FileNotFoundError):  # no git on this machine
        if commit := _git(folder, "rev-parse", "HEAD").decode().strip():
            return commit, bool(_git(folder, "status", "--porcelain"))
    return "", False


def _keep(diff: bytes, paths: StorePaths) -> str | None:
    if not diff:
        return None
    if len(diff) > MOST_BYTES:
        diff = diff[:MOST_BYTES] + b"\n... cut here by ablate: the diff is larger than 1 MiB\n"
    name = hashlib.sha256(diff).hexdigest()[:16]
    path = paths.diff(name)
    if not path.exists():
        write_aside(path, diff)
    return name


def _git(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False).stdout
