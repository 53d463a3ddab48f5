"""configs/cluster/onprem.yaml for real: three hosts with sshd, `ray up`, a study placed by tags, all of it stopped.

Run with ``-s`` it prints what a user at the desk would read.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ablate.cluster.config import check_cluster
from ablate.record.reader import Run
from tests.cluster import lab
from tests.conftest import DOUBLES, whole

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "a lab can be made"),
]

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "configs" / "cluster" / "onprem.yaml"
BIN = Path(sys.prefix) / "bin"
MACHINES = {"lab-i5": "10.77.3.11", "lab-i7": "10.77.3.12", "lab-ryzen": "10.77.3.13"}
TAGS = {"lab-i5": "i5_4590", "lab-i7": "i7_6800k", "lab-ryzen": "ryzen_5_3600"}
GRID = """
study: three_machines
question: Does every arm run on its own machine?
trainable: doubles:Structured
batches: 6
blocks: 2
outcome: {metric: loss, last: 3}
guard: {first: 1, every: 0}
audit: {first: 0}
arms:
  i5-4590: {resources: {i5_4590: 1}}
  i7-6800k: {resources: {i7_6800k: 1}}
  ryzen-5-3600: {threads: 2, resources: {ryzen_5_3600: 1}}
"""


def shipped_for(made: lab.Lab) -> Path:
    """Write the shipped file with this lab's addresses, key and tags.

    Packages cannot be fetched here, so that the installation is a link to this environment; all else is as it ships.
    """
    config = yaml.safe_load(SHIPPED.read_text())
    head, *workers = MACHINES.values()
    config["provider"] |= {"head_ip": head, "worker_ips": workers}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(made.key)}
    cores = {"lab-i5": 1, "lab-i7": 1, "lab-ryzen": 2}
    config["metadata"]["hosts"] = {MACHINES[name]: {"CPU": cores[name], TAGS[name]: 1} for name in MACHINES}
    path = made.shared / "onprem.yaml"
    config["file_mounts"]["~/ablate/configs/cluster/onprem.yaml"] = str(path)
    config["setup_commands"] = [f"ln -sfn {sys.prefix} ~/ablate/.venv"]
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def network() -> str:
    return subprocess.run(["ip", "-brief", "address"], capture_output=True, text=True, check=True).stdout


def typed(host: lab.Host, command: str, timeout_s: float = 240.0) -> str:
    """Run a command that must succeed, and show it as a terminal would."""
    began = time.monotonic()
    code, text = host.run(command, timeout_s=timeout_s)
    print(f"\n{host.name}$ {command}\n{text.rstrip()}\n[code {code}, {time.monotonic() - began:.0f} s]")
    assert code == 0, text
    return text


def test_a_study_runs_on_the_machines_its_tags_name_and_nothing_is_left():
    before = network()
    with lab.lab(MACHINES) as made:
        pids = [process for host in (made.desk, *made.hosts.values()) for process in host.processes()]
        assert len(pids) >= 4
        path = shipped_for(made)
        head = made.hosts["lab-i5"]
        check_cluster(path)
        up = f"RAY_UP_enable_autoscaler_v2=0 {BIN}/ray up --yes {path}"
        # twice, since a busy machine may take longer than the 30 s that Ray allows for a node's start
        typed(made.desk, f"cd {REPOSITORY} && ({up} || {up})", timeout_s=500)
        deadline = time.monotonic() + 300
        while not all(tag in (status := head.run(f"{BIN}/ray status")[1]) for tag in TAGS.values()):
            assert time.monotonic() < deadline, status + head.run("cat /tmp/ray/session_latest/logs/monitor.*")[1]
            time.sleep(1)
        typed(head, f"{BIN}/ray status")

        folder = made.shared / "study"
        folder.mkdir()
        (folder / "doubles.py").write_bytes(DOUBLES.read_bytes())
        (folder / "grid.yaml").write_text(GRID)
        typed(head, f"cd {folder} && {BIN}/ablate launch grid.yaml --address auto")
        root = folder / "runs" / "three_machines"
        assert whole(root) == 6
        trials = Run(root).trials().to_pylist()
        placed = {(row["arm"], row["host"]) for row in trials}
        assert placed == {("i5-4590", "lab-i5"), ("i7-6800k", "lab-i7"), ("ryzen-5-3600", "lab-ryzen")}
        # `ray up` exported OMP_NUM_THREADS=1 to every host; an arm's own number is what counts
        assert {(row["arm"], row["threads_set"]) for row in trials} == {
            ("i5-4590", 1),
            ("i7-6800k", 1),
            ("ryzen-5-3600", 2),
        }
        print("\narm, host:", *sorted(f"{arm} on {host}" for arm, host in placed), sep="\n  ")

        assert "not stopped" not in typed(made.desk, f"{BIN}/python -m ablate.cluster.stop_hosts {path}")
        pids += [process for host in (made.desk, *made.hosts.values()) for process in host.processes()]
        for host in made.hosts.values():
            left = [command for command in host.processes().values() if not command.startswith("sshd:")]
            assert [command for command in left if "[mux]" not in command] == []
    deadline = time.monotonic() + 5
    while [pid for pid in pids if Path(f"/proc/{pid}").exists()] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert network() == before
    assert not made.folder.exists()
