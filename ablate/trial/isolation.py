"""Client of the fork servers: runs a task in a pristine process under its arm's environment, and says how it ended."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ablate.design.trial_spec import Numerics
from ablate.errors import AblateError, Problem
from ablate.record.paths import StorePaths
from ablate.trial.environment import arm_environment, process_environment
from ablate.trial.task import TrialEnd, TrialTask

LOOK_S = 1.0
"""How often a trial's journal is looked at for a sign of life."""

START_S = 120.0
"""How long a fork server may take to import torch before it counts as broken (2 s on an idle machine)."""


NAME = 24
"""Letters of a socket's name."""

MOST_BYTES = 103
"""Of a socket's path: the kernel's limit less the closing zero (107 on Linux, 103 on macOS)."""


class ServerFailed(AblateError):
    """A fork server could not be started; the text carries what it printed."""


def oom_kills() -> int | None:
    """Return how many processes the kernel killed for memory since boot; None where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def socket_folder(temporary: str) -> Path:
    """Return the folder for this user's sockets: below ``temporary``, or below /tmp where that would be too long."""
    folder = Path(temporary) / f"ablate-{os.getuid()}"
    longest = len(os.fsencode(folder / f"{'0' * NAME}.sock"))
    return folder if longest <= MOST_BYTES else Path("/tmp", folder.name)


class Isolation:
    """Fork servers of one launch on this node, started when first needed, shared by all its processes.

    Args:
        launch_id: names the launch; processes with the same id and environment share a server.
    """

    def __init__(self, launch_id: str) -> None:
        self._folder = socket_folder(tempfile.gettempdir())
        self._launch_id = launch_id
        self._holds: dict[str, socket.socket] = {}
        self._holding = threading.Lock()  # the local launcher asks from one thread per running trial
        self._let_go = False

    def run(
        self,
        task: TrialTask,
        started: Callable[[socket.socket], None] | None = None,
        heard: Callable[[dict[str, Any]], None] = lambda message: None,
    ) -> TrialEnd:
        """Run a task to its end in a process of its own.

        Args:
            task: the attempt.
            started: told the connection; shutting it down from another thread kills the trial.
            heard: told what the process says before its end.

        Raises:
            ServerFailed: if no server can be had.
        """
        kills = oom_kills()
        connection = self.connect(task.numerics)
        if started:
            started(connection)
        end: TrialEnd | None = None
        code: int | None = None
        refused = ""
        try:
            with connection:
                connection.sendall(json.dumps({"task": task.model_dump()}).encode() + b"\n")
                for message in _messages(connection, task):
                    heard(message)
                    if "end" in message:
                        end = TrialEnd.model_validate(message["end"])
                    code = message.get("exit", code)
                    refused = message.get("refused", refused)
        except TimeoutError:  # closing the connection made the server kill the trial
            what = "product with the Hessian" if task.probe else "batch"
            words = f"no {what} for {task.spec.stall_minutes:g} minutes (stall_minutes), so it was ended as hung"
            return task.failed("infrastructure", words)
        except OSError as error:
            refused = str(error)
        return end or _died(task, code, refused, killed_for_memory=code == -9 and oom_kills() != kills)

    def connect(self, numerics: Numerics) -> socket.socket:
        """Return a new connection to the server of this arm's environment, starting the server if there is none."""
        return self._reach(process_environment(numerics, os.environ))

    def start(self, numerics: Numerics) -> None:
        """Start the server of this arm's environment in the background; why it cannot be had, the first trial says."""
        environment = process_environment(numerics, os.environ)  # now, since Ray changes it while it starts

        def connect() -> None:
            with suppress(AblateError, OSError):
                self._reach(environment).close()
            if self._let_go:  # it was started for nothing
                self.close()

        threading.Thread(target=connect, daemon=True).start()

    def close(self) -> None:
        """Let go of the servers; each ends when nobody holds it."""
        self._let_go = True
        for hold in list(self._holds.values()):
            hold.close()
        self._holds.clear()

    def _reach(self, environment: dict[str, str]) -> socket.socket:
        text = json.dumps([self._launch_id, sys.executable, arm_environment(environment)])
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:NAME]}.sock"
        with self._holding:
            held = self._holds.get(str(path))
            if held is not None and _is_closed(held):  # a server that was killed is started again, and held again
                held.close()
                held = None
            if held is None:
                hold = _open(path) or self._start(path, environment)
                hold.sendall(b'{"hold": true}\n')
                self._holds[str(path)] = hold
        return _open(path) or self._start(path, environment)

    def _start(self, path: Path, environment: dict[str, str]) -> socket.socket:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.stat().st_uid != os.getuid():  # whoever writes there can run code as us
            raise ServerFailed(
                Problem(str(self._folder), "belongs to another user", advice="Set TMPDIR to a folder of yours.")
            )
        with open(path.with_suffix(".lock"), "w") as lock:  # one process of this node starts it, the others wait
            fcntl.flock(lock, fcntl.LOCK_EX)
            if connection := _open(path):
                return connection
            path.unlink(missing_ok=True)
            log = path.with_suffix(".log")
            with open(log, "wb") as output:
                parent = subprocess.Popen(
                    [sys.executable, "-m", "ablate.trial.server", str(path)],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    start_new_session=True,
                )
            parent.wait()  # it left the server behind, which Ray would kill with its worker were it the worker's child
            if _is_ready(parent) and (connection := _open(path)):
                for left in (log, path.with_suffix(".lock")):
                    left.unlink(missing_ok=True)
                return connection
            said = log.read_text(errors="replace").splitlines()[-8:]
        raise ServerFailed(
            Problem(
                where="starting a process for trials",
                found="\n      ".join([f"{sys.executable} -m ablate.trial.server did not start", *said]),
                advice="Check that torch imports: python -c 'import torch'",
            )
        )


def _is_ready(server: subprocess.Popen[bytes]) -> bool:
    """Wait for the server's word that it listens; it closes its end of the pipe when it dies."""
    assert server.stdout is not None
    with server.stdout:
        readable, _, _ = select.select([server.stdout], [], [], START_S)
        return bool(readable) and server.stdout.readline() == b"ready\n"


def _messages(connection: socket.socket, task: TrialTask) -> Iterator[dict[str, Any]]:
    """Yield what server and trial write, one JSON object a line, until the connection closes.

    Raises:
        TimeoutError: no batch was recorded, and nothing written, for the trial's ``stall_minutes``.
    """
    paths, trial_id = StorePaths(Path(task.root)), task.spec.trial_id
    growing = paths.probe_log(trial_id) if task.probe else paths.rows(trial_id, task.attempt)
    alive, seen, buffer = time.monotonic(), None, b""
    connection.settimeout(LOOK_S)
    while True:
        try:
            data = connection.recv(65536)
        except TimeoutError:
            now = _look(growing)
            if now != seen:  # a file's time is told by its server's clock, so only that it changed counts
                alive, seen = time.monotonic(), now
            if time.monotonic() - alive > 60 * task.spec.stall_minutes and not task.follows:  # it writes nothing
                raise
            continue
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        yield from map(json.loads, lines)


def _look(growing: Path) -> tuple[int, int] | None:
    """Return what changes when a row, or a line of a probe's log, is written: time and size; None without a file."""
    try:
        found = growing.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _open(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def _died(task: TrialTask, code: int | None, refused: str, killed_for_memory: bool) -> TrialEnd:
    if killed_for_memory:
        words = (
            "its process was killed because the machine ran out of memory; ask for fewer trials at once or more memory"
        )
    elif refused:
        words = f"no process could be made for it: {refused}"
    elif code is None:
        words = "its fork server is gone"
    else:
        words = (
            f"its process died by signal {-code}" if code < 0 else f"its process ended with code {code} and no result"
        )
    return task.failed("memory" if killed_for_memory else "infrastructure", words)
