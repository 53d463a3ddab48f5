"""A lab's machines: their entries, the flags of each, and stopping them over SSH."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from ablate.cluster import stop_hosts
from ablate.cluster.cluster_file import read_cluster_file
from ablate.cluster.host_flags import host_flags, own_names
from ablate.cluster.node_types import read_node_types
from ablate.errors import BadInput
from tests.cluster.texts import LAB, refused, write


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    10.0.0.12: {", "    10.0.0.13: {", "5: provider.worker_ips[1]: 10.0.0.12 has no entry in metadata.hosts"),
        (
            "    10.0.0.12: {",
            "    10.0.0.13: {",
            "10.0.0.13 is neither the head nor a worker, so Ray will not start it",
        ),
        ("[10.0.0.11, 10.0.0.12]", "[10.0.0.11, 10.0.0.11]", "worker_ips[1]: 10.0.0.11 is listed twice"),
        ("{CPU: 4, i5_4590: 1}", "{i5_4590: 1}", "9: metadata.hosts.10.0.0.11: no CPU"),
        ("i5_4590: 1", "i5_4590: one", 'metadata.hosts.10.0.0.11.i5_4590: found "one" (text)'),
        ("  head_ip: 10.0.0.10\n", "", "provider.head_ip: missing or no text"),
        ("  worker_ips: [10.0.0.11, 10.0.0.12]\n", "", "provider.worker_ips: missing or no list"),
        ("  hosts:", "  machines:", "metadata.hosts: missing"),
    ],
)
def test_an_entry_that_does_not_fit_is_said_with_its_line(tmp_path, old, new, said):
    assert said in refused(read_node_types, write(tmp_path, LAB, old, new))


def test_a_machine_gets_the_flags_of_its_own_entry_without_spaces_inside(tmp_path):
    file = read_cluster_file(write(tmp_path, LAB))
    assert host_flags(file, {"10.0.0.12", "lab2"}, cores=4, gpus=2).split() == [
        "--num-cpus=1",
        "--num-gpus=2",
        '--resources={"gtx_970":1}',
    ]
    assert host_flags(file, {"10.0.0.10"}, cores=1, gpus=0) == "--num-cpus=0 --num-gpus=0 --resources={}"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"10.0.0.12"}, "metadata.hosts.10.0.0.12.GPU: promises 2, this machine has 1 GPUs"),
        ({"10.0.0.11"}, "metadata.hosts.10.0.0.11.CPU: promises 4, this machine has 2 cores"),
        ({"10.0.0.99"}, "no entry is this machine's"),
        ({"10.0.0.11", "10.0.0.12"}, "10.0.0.11, 10.0.0.12 are all this machine's"),
    ],
)
def test_a_machine_that_lacks_what_is_promised_gets_no_flags(tmp_path, names, said):
    file = read_cluster_file(write(tmp_path, LAB))
    with pytest.raises(BadInput, match=said):
        host_flags(file, names, cores=2, gpus=1)


def test_the_module_prints_this_machines_flags_or_why_not(tmp_path):
    here = sorted(own_names() - {"localhost"})
    assert socket.gethostname() in here
    path = write(tmp_path, LAB, "10.0.0.11, 10.0.0.12]", f"10.0.0.11, {socket.gethostname()}]")
    path.write_text(path.read_text().replace("10.0.0.12: {CPU: 1, GPU: 2", f"{socket.gethostname()}: {{CPU: 1"))
    command = [sys.executable, "-m", "ablate.cluster.host_flags"]
    done = subprocess.run([*command, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, '--num-cpus=1 --num-gpus=0 --resources={"gtx_970":1}\n')
    done = subprocess.run([*command, write(tmp_path, LAB)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no entry is this machine's" in done.stderr
    assert "usage:" in subprocess.run(command, capture_output=True, text=True).stderr


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """An ssh that writes down what it is asked and does not reach 10.0.0.12."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncase "$*" in *10.0.0.12*) echo no route; exit 255;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "asked"


def test_every_machine_is_stopped_the_head_first_and_one_that_was_not_is_said(tmp_path, ssh, monkeypatch, capsys):
    text = LAB + "auth: {ssh_user: me, ssh_private_key: ~/key}\n"
    monkeypatch.setattr(sys, "argv", ["stop_hosts", str(write(tmp_path, text))])
    assert stop_hosts.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert said == ["10.0.0.10: stopped", "10.0.0.11: stopped", "10.0.0.12: not stopped: no route"]
    asked = ssh.read_text().splitlines()
    assert [line.split("me@")[1].split()[0] for line in asked] == ["10.0.0.10", "10.0.0.11", "10.0.0.12"]
    assert all(
        f"-i {os.path.expanduser('~/key')}" in line and line.endswith("ray stop --grace-period 10") for line in asked
    )


def test_stopping_needs_a_file_with_hosts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stop_hosts", str(write(tmp_path, LAB, "  hosts:", "  machines:"))])
    assert stop_hosts.main() == 2
    assert "metadata.hosts: missing" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["stop_hosts"])
    assert stop_hosts.main() == 2
    assert "usage:" in capsys.readouterr().err
