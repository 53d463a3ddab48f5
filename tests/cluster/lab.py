"""A lab of machines inside this one: hosts with their own network, processes, name, /tmp and home, reached over SSH.

Each host is a set of Linux namespaces made by ``unshare``; a desk (where a user sits and types ``ray up``) holds the
bridge that joins them. Nothing outside is touched: the bridge lives in the desk's own network namespace. Every
namespace ends with its first process, and those are children of the test that die with it, so nothing can be left.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

TOOLS = ("unshare", "nsenter", "setpriv", "ip", "ssh", "ssh-keygen", "rsync", "mount")
SSHD = "/usr/sbin/sshd"
ENTER = (
    *("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child"),
    *("--mount-proc", "--mount", "--uts"),
)
"""A new machine: it ends with the thread that started it, and everything in it with its first process."""
DESK = "10.77.3.1"
HOME = Path(pwd.getpwuid(os.geteuid()).pw_dir)
"""Where sshd logs in, whatever $HOME says: it reads the user database too."""
REPOSITORY = Path(__file__).parents[2]


def missing() -> str:
    """Return why no lab can be made here, or nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux, to make network namespaces"
    tools = [tool for tool in TOOLS if shutil.which(tool) is None] + ([] if Path(SSHD).exists() else ["sshd"])
    if tools:
        return f"needs {', '.join(tools)}: apt-get install openssh-server rsync iproute2 util-linux"
    if any(path.is_relative_to("/tmp") for path in (REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))):
        return "needs the repository and Python outside /tmp, which every host has for itself"
    probe = subprocess.run(["unshare", "--net", "ip", "link", "add", "probe", "type", "bridge"], capture_output=True)
    return "" if probe.returncode == 0 else f"no network namespaces here: {probe.stderr.decode().strip()}"


class Host:
    """A machine of the lab: ``pid`` is its first process, seen from outside."""

    def __init__(self, lab: Path, name: str, address: str, serve: bool) -> None:
        self.name, self.address = name, address
        self.folder = lab / name
        self._log = (lab / f"{name}.log").open("w+")
        self._began = time.monotonic()
        script = _first_process(lab, self.folder, name, serve)
        self._process = subprocess.Popen(
            [*ENTER, "bash", "-euc", script],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._first(lab / name / "ready")

    def _first(self, ready: Path) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while time.monotonic() - self._began < 10:
            # setpriv becomes unshare by exec, and unshare's only child is the namespace's first process
            if ready.exists():
                return int(children.read_text().split()[0])
            time.sleep(0.02)
        raise AssertionError(f"{self.name} did not start: {self.log()}")

    def log(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    def processes(self) -> dict[int, str]:
        """Return what runs in this host's process namespace: pid as seen from outside -> command line."""
        try:
            own = os.readlink(f"/proc/{self.pid}/ns/pid")
        except OSError:
            return {}
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "ns/pid") == own:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if command:
                        found[int(entry.name)] = command
        return found

    def run(self, command: str, env: Mapping[str, str] | None = None, timeout_s: float = 120) -> tuple[int, str]:
        """Run a shell command as if typed on this host; return its exit code and both streams together."""
        words = ["nsenter", "-t", str(self.pid), "-n", "-m", "-u", "-p", "bash", "-c", command]
        done = subprocess.run(
            words,
            env={"PATH": os.environ["PATH"], "HOME": str(HOME), "TERM": "dumb", **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout

    def stop(self) -> None:
        """End the host: the kernel ends every process of its namespace with the first."""
        self._process.kill()
        self._process.wait(10)
        self._log.close()


class Lab:
    """Hosts on one network. ``key`` opens them all; ``shared`` is a folder that all of them see."""

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self.folder = folder
        self.key = folder / "key"
        self.shared = folder / "shared"
        self.shared.mkdir()
        for key in (self.key, folder / "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        self.hosts: dict[str, Host] = {}
        self.desk = Host(folder, "desk", DESK, serve=False)
        _must(self.desk, "ip link add bridge0 type bridge && ip link set bridge0 up && ip link set lo up")
        _must(self.desk, f"ip address add {DESK}/24 dev bridge0")
        for name, address in names.items():
            host = self.hosts[name] = Host(folder, name, address, serve=True)
            number = len(self.hosts)
            _must(self.desk, f"ip link add v{number} type veth peer name wire{number}")
            # the peer moves by pid, which only means something outside the desk's process namespace
            move = ["nsenter", "-t", str(self.desk.pid), "-n", "ip", "link", "set", f"wire{number}"]
            subprocess.run([*move, "netns", str(host.pid)], check=True)
            _must(self.desk, f"ip link set v{number} master bridge0 up")
            _must(host, f"ip link set lo up && ip link set wire{number} name eth0 && ip link set eth0 up")
            # Ray finds its own address by the route to a far one, which need not exist
            _must(host, f"ip address add {address}/24 dev eth0 && ip route add default via {DESK}")

    def stop(self) -> None:
        for host in (*self.hosts.values(), self.desk):
            host.stop()


@contextlib.contextmanager
def lab(names: Mapping[str, str]) -> Iterator[Lab]:
    """Make a lab of hosts (name -> address in 10.77.3.0/24), and end it whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="ablate-lab-", dir="/var/tmp"))
    made = Lab.__new__(Lab)
    try:
        made.__init__(folder, names)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def _must(host: Host, command: str) -> None:
    code, text = host.run(command)
    assert code == 0, f"{host.name}: {command}: {text}"


def _first_process(lab: Path, folder: Path, name: str, serve: bool) -> str:
    """Return the shell script of a host's first process: its name, its own folders, then sshd (or nothing)."""
    (folder / "home").mkdir(parents=True)
    (folder / "home" / ".bashrc").touch()
    (folder / "tmp").mkdir(mode=0o1777)
    lines = [f"hostname {name}", "mount --make-rprivate /", "mount -t sysfs sysfs /sys"]
    # what lies under the home that every host needs: the interpreter, the checkout
    tops = {HOME / path.relative_to(HOME).parts[0] for path in _needed() if path.is_relative_to(HOME)}
    for top in sorted(tops):
        inside = folder / "home" / top.name
        inside.mkdir()
        lines.append(f"mount --bind {shlex.quote(str(top))} {inside}")
    lines += [f"mount --rbind {folder}/home {HOME}", f"mount --bind {folder}/tmp /tmp"]
    lines += ["mount -t tmpfs tmpfs /run", "mkdir /run/sshd", f"touch {folder}/ready"]
    options = f"-o AuthorizedKeysFile={lab}/authorized_keys -o StrictModes=no -o UsePAM=no -o PidFile=none"
    if serve:
        lines.append(f"exec {SSHD} -D -e -f /dev/null -h {lab}/host_key -o PermitRootLogin=prohibit-password {options}")
    else:
        lines.append("exec sleep infinity")
    return "\n".join(lines)


def _needed() -> list[Path]:
    return [Path(sys.prefix), Path(sys.base_prefix), REPOSITORY]
