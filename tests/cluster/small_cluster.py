"""A Ray cluster of several nodes on this one machine: each a `ray start --block` of its own, ended by its own pids.

A node may have a host name and a clock of its own (``Named``): every Python process of it then believes in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

RAY = Path(sys.executable).with_name("ray")
START_S = 150.0
STORE_BYTES = 80 * 2**20
ELSEWHERE = """
    import os, socket, sys, time
    if host := os.environ.get("PRETEND_HOST"):
        socket.gethostname = lambda: host
    if ahead := float(os.environ.get("PRETEND_AHEAD_S", "0")):
        import datetime as dates
        true, true_ns = time.time, time.time_ns
        time.time = lambda: true() + ahead
        time.time_ns = lambda: true_ns() + int(ahead * 1e9)
        if "ablate.trial.server" in sys.orig_argv:  # pandas, which Ray's workers import, dies of another datetime
            class Ahead(dates.datetime):
                @classmethod
                def now(cls, tz=None):
                    return super().now(tz) + dates.timedelta(seconds=ahead)
            dates.datetime = Ahead
"""
"""Read by every Python that starts with it on its path, before anything else: the name and the clock of a machine."""


@dataclass(frozen=True)
class Node:
    """One `ray start --block`: its main process, and the folder that is its TMPDIR, so that nodes share no sockets."""

    name: str
    process: subprocess.Popen[bytes]
    folder: Path

    def processes(self) -> list[psutil.Process]:
        """Return the main process and all that descends from it: head, raylet, agents, workers."""
        try:
            main = psutil.Process(self.process.pid)
            return [main, *main.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


class Cluster:
    """Made without a node; ``add_node`` starts the first as the head. A context manager that ends what it started."""

    def __init__(self, head: Mapping[str, float] | None = None, dashboard: bool = False, token: bool = False) -> None:
        """Start the head.

        Args:
            head: what trials may use of it; by default nothing.
            dashboard: whether it serves Ray's dashboard, and with it jobs, at ``dashboard_url``.
            token: whether it asks for a token, which lies in ``home``, where Ray looks for it.
        """
        # not pytest's folder: Ray's sockets have room for 107 letters
        self._folder = Path(tempfile.mkdtemp(prefix="ab-", dir="/tmp"))
        (self._folder / "pretend").mkdir()
        (self._folder / "pretend" / "sitecustomize.py").write_text(textwrap.dedent(ELSEWHERE))
        self.home = self._folder / "home"
        (self.home / ".ray").mkdir(parents=True)
        (self.home / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
        # without a mode of its own the head would ask for the token of this user's embedded Rays
        self._auth = {"RAY_AUTH_MODE": "token", "HOME": str(self.home)} if token else {"RAY_AUTH_MODE": "disabled"}
        self.nodes: list[Node] = []
        self.address = f"127.0.0.1:{_free_port()}"
        self.dashboard_url = f"http://127.0.0.1:{(port := _free_port())}"
        words = (
            *("--head", "--port", self.address.rpartition(":")[2], "--ray-client-server-port", str(_free_port())),
            *("--include-dashboard", str(dashboard).lower(), "--dashboard-port", str(port)),
        )
        self.head = self._start("head", {"CPU": 0.0, **(head or {})}, {}, *words)
        self.wait_for(self.head)

    def add_node(
        self,
        resources: Mapping[str, float],
        env: Mapping[str, str] | None = None,
        host: str = "",
        ahead_s: float = 0.0,
        wait: bool = True,
        under: Sequence[str] = (),
    ) -> Node:
        """Start a node.

        Args:
            resources: what it offers: CPU, GPU, tags.
            env: further variables of all its processes.
            host: the name its Python processes take their machine to have; empty for the real one.
            ahead_s: by how much their clocks are ahead.
            wait: whether to wait until the cluster knows it; else ``wait_for`` does.
            under: words of a command that starts it, such as ``unshare --mount``.
        """
        name = host or f"node-{len(self.nodes)}"
        node = self._start(
            name, resources, {**(env or {}), **self._pretend(host, ahead_s)}, "--address", self.address, under=under
        )
        if wait:
            self.wait_for(node)
        return node

    def kill(self, node: Node) -> None:
        """Kill every process of a node at once, by signal 9, as the loss of its machine would."""
        dying = node.processes()
        for process in dying:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        node.process.wait()
        while any(map(runs, dying)):
            time.sleep(0.02)
        self.nodes.remove(node)

    def kill_raylet(self, node: Node) -> None:
        """Kill a node's raylet alone; what depended on it is to end by itself."""
        next(process for process in node.processes() if process.name() == "raylet").kill()

    def cut_off(self, node: Node) -> None:
        """Stop all of Ray on a node, so that neither hears of the other; fork servers and trials run on beside it."""
        for process in node.processes():
            process.suspend()

    def close(self) -> None:
        """End all nodes, the head last, and remove their folder."""
        for node in reversed(list(self.nodes)):
            self.kill(node)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _pretend(self, host: str, ahead_s: float) -> dict[str, str]:
        if not host and not ahead_s:
            return {}
        path = os.pathsep.join(filter(None, [str(self._folder / "pretend"), os.environ.get("PYTHONPATH", "")]))
        return {"PYTHONPATH": path, "PRETEND_HOST": host, "PRETEND_AHEAD_S": str(ahead_s)}

    def _start(
        self, name: str, resources: Mapping[str, float], env: Mapping[str, str], *words: str, under: Sequence[str] = ()
    ) -> Node:
        folder = self._folder / f"n{len(list(self._folder.iterdir()))}"
        folder.mkdir()
        tags = {key: value for key, value in resources.items() if key not in ("CPU", "GPU")}
        command = [
            *(*under, str(RAY), "start", "--block", "--disable-usage-stats", *words),
            *("--node-ip-address", "127.0.0.1", "--temp-dir", str(folder / "r"), "--include-log-monitor", "false"),
            *("--num-cpus", f"{resources.get('CPU', 0):g}", "--num-gpus", f"{resources.get('GPU', 0):g}"),
            *("--object-store-memory", str(STORE_BYTES), "--dashboard-agent-listen-port", str(_free_port())),
            *("--min-worker-port", "0", "--max-worker-port", "0", "--resources", json.dumps(tags)),
        ]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_ADDRESS", "PYTEST_"))}
        settings = {
            # a dead machine is known as such within seconds, not Ray's 25
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "8",  # of 1 s each: fewer, and a busy machine's nodes count as dead
            "RAY_health_check_initial_delay_ms": "0",
            "RAY_health_check_timeout_ms": "2000",  # of one that connects and says nothing: 24 s in all, not Ray's 65
            # how long a dashboard and its parts may take to come up, where the machine is busy
            "RAY_DASHBOARD_STARTUP_TIMEOUT_S": f"{START_S:.0f}",
            "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": f"{START_S:.0f}",
        }
        with open(folder / "start.log", "wb") as log:
            process = subprocess.Popen(
                command,
                env={**kept, **settings, **self._auth, "TMPDIR": str(folder), **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        node = Node(name, process, folder)
        self.nodes.append(node)
        return node

    def wait_for(self, node: Node) -> None:
        """Wait until the cluster knows a node.

        Raises:
            RuntimeError: with what it printed, if it did not start.
        """
        log = node.folder / "start.log"
        deadline = time.monotonic() + START_S
        while b"Ray runtime started" not in log.read_bytes():
            if node.process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")
                self.close()
                raise RuntimeError(f"node {node.name} did not start:\n{said[-2000:]}")
            time.sleep(0.05)


def runs(process: psutil.Process) -> bool:
    """Say whether a process runs: one that has ended and was not asked for its code does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
