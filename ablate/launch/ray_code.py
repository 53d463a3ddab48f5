"""The user's own code on a cluster's nodes: which folder Ray sends there, how large it is, and paths inside of it.

Ray unpacks the folder on each node, into a place of its own, and starts its workers there. A trial's folders are
therefore named relative to it, and made whole on the node. Only this folder and what is installed there exist on a
node: ablate, torch and the libraries are installed beforehand (``ablate doctor --address`` looks).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.design.resolve import find_trainable
from ablate.errors import BadInput, Problem
from ablate.trial.task import TrialTask

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

LIMIT_BYTES = 512 * 2**20
"""What Ray carries in one message, unless LIMIT_VARIABLE says otherwise."""

LIMIT_VARIABLE = "RAY_max_grpc_message_size"

MOST_FILES = 100_000
"""Counting ends here: Ray would hash, pack and unpack every one of them on every node."""

LEFT_OUT = (".git", ".venv", "venv", "__pycache__")
"""What Ray leaves out by itself (RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES)."""

NAMED = 4
"""How many of the largest entries a refusal names."""


@dataclass(frozen=True)
class Code:
    """What is sent to every node.

    Attributes:
        folder: absolute path.
        excludes: patterns beside those of ``.gitignore`` and ``.rayignore`` files, in their language.
    """

    folder: Path
    excludes: tuple[str, ...] = ()

    @property
    def runtime_env(self) -> dict[str, object]:
        """Ray's own words for it."""
        return {"working_dir": str(self.folder), "excludes": list(self.excludes)}


def choose(grid: Path, trainable: str, cwd: Path, store: Path | None) -> Code:
    """Choose the folder: the current one if the grid lies in it, else the grid's.

    Args:
        grid: the grid file.
        trainable: what it names, ``module:Thing``.
        cwd: the current folder.
        store: where the run is written, which is never sent; None for one at a URI.

    Raises:
        BadInput: the trainable lies beside the chosen folder and would be missing on the nodes, or the folder is the
            home folder or a root, or it is larger than Ray carries.
    """
    cwd, beside = cwd.resolve(), grid.resolve().parent
    source = find_trainable(trainable, (beside, cwd)).file.resolve()
    folder = cwd if beside.is_relative_to(cwd) else beside
    if folder == Path.home().resolve() or folder == Path(folder.anchor):
        found = "would be sent to every node of the cluster as the study's folder"
        raise BadInput(
            Problem(str(folder), found, advice="Put the study in a folder of its own and launch from there.")
        )
    if source.is_relative_to(cwd) and not source.is_relative_to(folder):
        found = f"the trainable lies in {cwd}, but the folder sent to the nodes is the grid's, {folder}"
        advice = "Launch from a folder that holds both."
        raise BadInput(Problem(str(source), found, advice=advice))
    excludes: tuple[str, ...] = ()
    if store and store.resolve().is_relative_to(folder):
        runs = store.resolve().parent  # with all its other runs, unless it is the study's folder itself
        excludes = (_pattern((store.resolve() if runs == folder else runs).relative_to(folder)),)
    code = Code(folder, excludes)
    check_size(code)
    return code


def check_size(code: Code) -> None:
    """Check that Ray can carry the folder, before it packs it.

    Raises:
        BadInput: naming what in it is largest; or Ray was told a limit that is none.
    """
    limit = _limit()
    sizes: Counter[str] = Counter()
    count = 0
    for count, path in enumerate(files(code), 1):
        sizes[path.relative_to(code.folder).parts[0]] += path.stat().st_size
        if count > MOST_FILES:
            break
    total = sum(sizes.values())
    if total <= limit and count <= MOST_FILES:
        return
    largest = ", ".join(f"{name} {_size(size)}" for name, size in sizes.most_common(NAMED))
    what = f"more than {MOST_FILES} files" if count > MOST_FILES else _size(total)
    raise BadInput(
        Problem(
            where=str(code.folder),
            found=f"{what} would be sent to every node as the study's code; Ray carries {_size(limit)}. "
            f"Largest: {largest}",
            advice="Name what no node needs in a .rayignore file there (written like .gitignore, which counts too). "
            "Data belong where every node reaches them.",
        )
    )


def _limit() -> int:
    text = os.environ.get(LIMIT_VARIABLE, str(LIMIT_BYTES))
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit <= 0:
        advice = "Unset it, or set it alike here and on every node."
        raise BadInput(Problem(LIMIT_VARIABLE, f"is {text!r}", "a whole number of bytes above 0", advice=advice))
    return limit


def files(code: Code) -> Iterator[Path]:
    """Yield the files that Ray would pack: as it does, through links, without what ignore files name."""
    from pathspec import GitIgnoreSpec

    given = GitIgnoreSpec.from_lines([*LEFT_OUT, *code.excludes])
    yield from _below(code.folder, ((code.folder, given),), frozenset())


def relative(task: TrialTask, code: Code) -> TrialTask:
    """Return the task with its folders relative to the sent one; a folder that is not sent is left out."""
    inside = [Path(folder).resolve() for folder in (task.cwd, *task.search)]
    names = [str(folder.relative_to(code.folder)) if folder.is_relative_to(code.folder) else "" for folder in inside]
    return task.model_copy(update={"cwd": names[0] or ".", "search": tuple(filter(None, names[1:]))})


def on_node(task: TrialTask, folder: Path) -> TrialTask:
    """Return the task with its relative folders made whole: those of ``folder``, where Ray unpacked the code."""
    search = tuple(str(folder / name) for name in task.search)  # an absolute path stays what it is
    return task.model_copy(update={"cwd": str(folder / task.cwd), "search": search})


def _below(folder: Path, specs: Sequence[tuple[Path, GitIgnoreSpec]], above: frozenset[Path]) -> Iterator[Path]:
    from pathspec import GitIgnoreSpec

    real = folder.resolve()
    if real in above:  # a link to a folder around it
        return
    names = [".rayignore"] + ([".gitignore"] if os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE") != "1" else [])
    lines = [line for name in names if (folder / name).is_file() for line in (folder / name).read_text().splitlines()]
    specs = (*specs, (folder, GitIgnoreSpec.from_lines(lines))) if lines else specs
    for path in sorted(folder.iterdir()):
        if any(spec.match_file(str(path.relative_to(base))) for base, spec in specs):
            continue
        if path.is_dir():
            yield from _below(path, specs, above | {real})
        elif path.is_file():
            yield path


def _pattern(path: Path) -> str:
    """Return the pattern that matches one path from the root, whatever letters it has."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", path.as_posix())


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
