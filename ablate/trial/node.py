"""What a node does for any task of a store at a URI: a folder of its own, and a thread that uploads."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ablate.errors import Problem, StoreError
from ablate.record.paths import StorePaths
from ablate.remote.location import working_copy
from ablate.remote.objects import Objects
from ablate.remote.patience import patiently
from ablate.trial.task import TrialEnd, TrialTask


class Node:
    """One task on this machine.

    Attributes:
        task: the task with this machine's folder of the store as its root.
    """

    def __init__(self, task: TrialTask, uri: str, closed: threading.Event) -> None:
        self._closed = closed
        self._paths = StorePaths(working_copy(uri))
        self.task = task.model_copy(update={"root": str(self._paths.root)})
        try:
            for folder in self._paths.folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            advice = "set ABLATE_CACHE on this node to a folder that can be written"
            raise StoreError(Problem(str(self._paths.root), f"cannot be made ({error})", advice=advice)) from error
        self._objects = Objects(uri)
        self._sent: dict[Path, tuple[int, int]] = {}

    @contextlib.contextmanager
    def uploading(self) -> Iterator[None]:
        """Upload from a thread of its own while the block runs."""
        over = threading.Event()
        thread = threading.Thread(target=self._keep_uploading, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def finish(self, end: TrialEnd) -> None:
        """Upload the rest.

        Raises:
            StoreError: if the store refuses, or does not come back.
        """
        raise NotImplementedError

    def _keep_uploading(self, over: threading.Event) -> None:
        """Upload until ``over`` is set; what fails is tried again, here or at the end."""
        raise NotImplementedError

    def _send_files(self, files: Iterable[Path]) -> None:
        """Send whole files: those that were not sent, or were replaced since."""
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # let go of meanwhile
                found = file.stat()
                state = (found.st_mtime_ns, found.st_ino)
                if self._sent.get(file) != state:
                    self._objects.send(self._name(file), file)
                    self._sent[file] = state

    def _name(self, path: Path) -> str:
        return path.relative_to(self._paths.root).as_posix()

    def _patiently(self, call: Callable[[], None]) -> None:
        patiently(call, lambda words: print(words, file=sys.stderr, flush=True), stop=self._closed)
