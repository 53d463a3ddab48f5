"""The fork server: a small process per (node, environment) that preloaded torch and forks one pristine process a trial.

``python -m ablate.trial.server SOCKET``. Each connection carries one JSON line in and JSON lines out:

- ``{"hold": true}``: keeps the server alive while the connection is open (a launcher holds one);
- ``{"task": {...}}``: forks a process that runs the task; it writes its ``{"end": {...}}`` itself, and when it is gone
  the server writes ``{"exit": code}`` (negative: the signal) and closes. If the peer goes away first, however it
  died, the process group of the trial is killed.

SIGTERM, which a machine's end sends to everything on it, is passed on to the trials as their notice to leave.

Why not Python's own forkserver: it is one per process, so it cannot serve two environments, and its children outlive a
killed owner. The server itself runs no torch operation, holds no CUDA context and has one thread; otherwise it refuses
to fork, since a forked OpenMP pool or CUDA context is broken.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from ablate.trial.notice import NOTICE

LINGER_S = 1.0
"""How long the server waits without any connection before it ends."""

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


PRELOADED = ("torch", "torch._dynamo", "safetensors.torch", "ablate.trial.follower")
"""What every trial needs, so that a fork has it. Making an optimiser imports torch._dynamo: 0.9 s, most of it sympy."""


def preload() -> None:
    """Import what every trial needs; run no operation."""
    for name in PRELOADED:
        importlib.import_module(name)


def unfit_to_fork() -> str:
    """Return why a fork would not be pristine; empty if it would."""
    import torch

    tasks = Path("/proc/self/task")
    if tasks.exists() and len(names := list(tasks.iterdir())) > 1:
        return f"the fork server has {len(names)} threads; something started a pool at import"
    if torch.cuda.is_initialized() or _driver_open():  # type: ignore[no-untyped-call]
        return "the fork server holds a CUDA context; something touched the GPU at import"
    return ""


def _driver_open(descriptors: Path = Path("/proc/self/fd")) -> bool:
    """Whether CUDA's driver was started, by whatever library; torch knows of its own use only.

    Starting it opens ``/dev/nvidia-uvm``; merely counting GPUs does too (``cuInit``), and a fork is broken after that.
    """
    for descriptor in descriptors.iterdir() if descriptors.exists() else ():
        with contextlib.suppress(OSError):  # the one that lists the folder is gone by now
            if os.readlink(descriptor).startswith("/dev/nvidia-uvm"):
                return True
    return False


def _run_child(connection: socket.socket, request: dict[str, Any]) -> int:
    """Everything the forked process does; returns its exit code."""
    from ablate.record.paths import StorePaths
    from ablate.trial.follower import run_follower
    from ablate.trial.runner import run_trial
    from ablate.trial.task import TrialTask

    task = TrialTask.model_validate_json(json.dumps(request["task"]))
    paths, trial_id = StorePaths(Path(task.root)), task.spec.trial_id
    log = paths.probe_log(trial_id) if task.probe else paths.log(trial_id, task.attempt)
    log.parent.mkdir(parents=True, exist_ok=True)
    os.chdir(task.cwd)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if task.probe:
        from ablate.trial.probe_run import run_probe  # scipy, which no trial needs

        end = run_probe(task)
    elif task.follows:
        end = run_follower(task)
    else:
        end = run_trial(task, lambda message: connection.sendall(json.dumps(message).encode() + b"\n"))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):  # the trainable has closed it
            stream.flush()
    if task.probe and end.status == "done":
        log.unlink(missing_ok=True)  # no attempt's, so nothing else would
    connection.sendall(json.dumps({"end": end.model_dump()}).encode() + b"\n")
    return 0


class Server:
    """The loop: accepts, forks, reaps, and kills what lost its owner."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, "accept")
        self._connections: dict[socket.socket, int | None] = {}  # connection -> pid of its trial
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._pass_notice())
        self._selector.register(self._wake_read, selectors.EVENT_READ, "signal")

    def serve(self) -> None:
        """Serve until nobody is connected any more."""
        alone_since = time.monotonic()
        while True:
            for key, _ in self._selector.select(timeout=LINGER_S / 4):
                if key.data == "accept":
                    connection, _ = self._listener.accept()
                    self._connections[connection] = None
                    self._selector.register(connection, selectors.EVENT_READ, "peer")
                elif key.data == "signal":
                    os.read(self._wake_read, 4096)
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._connections:
                    self._hear(key.fileobj)
            self._reap()
            if self._connections:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > LINGER_S:
                return

    def _pass_notice(self) -> None:
        for pid in filter(None, self._connections.values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _hear(self, connection: socket.socket) -> None:
        try:
            data = connection.makefile("rb").readline()  # a request is one write of a few kB on a local socket
        except ConnectionError:
            data = b""
        if not data.endswith(b"\n"):
            self._drop(connection)
            return
        request = json.loads(data)
        if "task" in request:
            self._fork(connection, request)

    def _fork(self, connection: socket.socket, request: dict[str, Any]) -> None:
        if reason := unfit_to_fork():
            connection.sendall(json.dumps({"refused": reason}).encode() + b"\n")
            self._drop(connection)
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # a notice waits until both can take it
        pid = os.fork()
        if pid:
            self._connections[connection] = pid
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            return
        code = 1
        try:
            NOTICE.listen()
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the launcher, which decides
            os.setsid()  # a group of its own, so that what a trial starts is killed with it
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the server's death is the trial's
            self._listener.close()
            for other in self._connections:
                if other is not connection:
                    other.close()
            code = _run_child(connection, request)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        for connection, pid in list(self._connections.items()):
            if pid is None:
                continue
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                self._connections[connection] = None
                with contextlib.suppress(OSError):  # the peer is gone too
                    connection.sendall(json.dumps({"exit": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
                self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        pid = self._connections.pop(connection)
        self._selector.unregister(connection)
        connection.close()
        if pid is not None:
            kill_group(pid)
            os.waitpid(pid, 0)


def kill_group(pid: int) -> None:
    """Kill a trial and what it started; quiet if it is gone already."""
    for kill in (os.killpg, os.kill):  # the group exists once the child has called setsid
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def main(path: str) -> None:
    """Leave the caller's process tree, preload, listen at ``path``, say ``ready`` on standard output, serve."""
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload()
    try:
        server = Server(path)
        print("ready", flush=True)
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        server.serve()
    finally:
        Path(path).unlink(missing_ok=True)
    os._exit(0)  # taking torch's modules apart one by one costs 1.5 s


if __name__ == "__main__":
    main(sys.argv[1])
