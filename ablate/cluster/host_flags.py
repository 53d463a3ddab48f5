"""The flags that `ray start` gets on one of a lab's machines, from the cluster file's entry for it.

Run on the machine itself: ``python -m ablate.cluster.host_flags configs/cluster/onprem.yaml`` prints them on one line.
It ends with code 2 and says why where the machine has no entry, or lacks the cores or GPUs that its entry promises:
Ray would believe a promise, and trials would be placed on hardware that is not there.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Collection
from pathlib import Path

import psutil

from ablate.cluster.cluster_file import ClusterFile, read_cluster_file
from ablate.cluster.hosts import HOSTS, hosts
from ablate.errors import BadInput
from ablate.trial.nvml import visible_gpus


def own_names() -> set[str]:
    """Return this machine's addresses and names."""
    links = [address for link in psutil.net_if_addrs().values() for address in link]
    addresses = {link.address for link in links if link.family in (socket.AF_INET, socket.AF_INET6)}
    name = socket.gethostname()
    return addresses | {name, name.partition(".")[0], socket.getfqdn()}


def host_flags(file: ClusterFile, names: Collection[str], cores: int, gpus: int) -> str:
    """Return ``--num-cpus=4 --num-gpus=0 --resources={"i5_4590":1}`` for the machine of one of these names.

    The text has no spaces but between flags, so that a shell may split it.

    Args:
        file: the cluster's configuration.
        names: the machine's addresses and names.
        cores: how many cores it has.
        gpus: how many GPUs its driver lists.

    Raises:
        BadInput: it has no entry, more than one, or one that promises more than there is.
    """
    offers = {name: offered for name, offered, _ in hosts(file)}
    own = [name for name in offers if name in names]
    if len(own) != 1:
        found = f"{'no entry is' if not own else ', '.join(own) + ' are all'} this machine's ({socket.gethostname()})"
        told = ", ".join(sorted(name for name in names if not name.startswith(("127.", "::1", "fe80:"))))
        raise BadInput(file.problem(HOSTS, found, f"one of {told}"))
    offered = dict(offers[own[0]])
    counted = {"CPU": (offered.pop("CPU"), cores, "cores"), "GPU": (offered.pop("GPU", 0.0), gpus, "GPUs")}
    short = [
        file.problem((*HOSTS, own[0], kind), f"promises {promised:g}, this machine has {there} {words}")
        for kind, (promised, there, words) in counted.items()
        if promised > there
    ]
    if short:
        raise BadInput(*short)
    tags = json.dumps({tag: int(amount) for tag, amount in offered.items()}, separators=(",", ":"))
    return f"--num-cpus={counted['CPU'][0]:g} --num-gpus={counted['GPU'][0]:g} --resources={tags}"


def main() -> int:
    """Print this machine's flags; return the exit code."""
    if len(sys.argv) != 2:
        print("usage: python -m ablate.cluster.host_flags CLUSTER_FILE", file=sys.stderr)
        return 2
    try:
        cores = os.cpu_count() or 1
        print(host_flags(read_cluster_file(Path(sys.argv[1])), own_names(), cores, len(visible_gpus(os.environ))))
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
