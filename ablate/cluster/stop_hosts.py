"""Stops Ray on every one of a lab's machines: `ray down` forgets them and leaves it running.

``python -m ablate.cluster.stop_hosts configs/cluster/onprem.yaml`` runs the file's own `ray stop` on each over SSH, the
head first, so that its autoscaler does not start the others again. It ends with code 1 if a machine was not reached.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ablate.cluster.cluster_file import ClusterFile, read_cluster_file
from ablate.cluster.hosts import hosts
from ablate.cluster.parts import find
from ablate.errors import BadInput

STOP = "~/ablate/.venv/bin/ray stop --grace-period 10"
REACH_S = 10
END_S = 60


def ssh_command(file: ClusterFile, host: str) -> list[str]:
    """Return the words that reach a machine as `ray up` does: the file's user and key, no question asked."""
    user, key = find(file, ("auth", "ssh_user")), find(file, ("auth", "ssh_private_key"))
    words = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", f"ConnectTimeout={REACH_S}"]
    words += ["-i", os.path.expanduser(str(key))] if key else []
    return [*words, f"{user}@{host}" if user else host]


def main() -> int:
    """Stop every machine of the file named on the command line; return the exit code."""
    if len(sys.argv) != 2:
        print("usage: python -m ablate.cluster.stop_hosts CLUSTER_FILE", file=sys.stderr)
        return 2
    try:
        file = read_cluster_file(Path(sys.argv[1]))
        names = [name for name, _, _ in hosts(file)]
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    failed = 0
    for name in names:
        try:
            done = subprocess.run([*ssh_command(file, name), STOP], capture_output=True, text=True, timeout=END_S)
            said = (done.stdout + done.stderr).strip().splitlines()
            code = done.returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            said, code = [str(error)], 1
        failed += code != 0
        print(f"{name}: {'stopped' if code == 0 else 'not stopped: ' + (said[-1] if said else f'code {code}')}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
