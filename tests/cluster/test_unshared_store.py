"""A node that has another disk at the store's path: a mount namespace of its own stands for another machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import pytest

from ablate.record.reader import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def can_mount() -> bool:
    if os.name != "posix" or os.geteuid() or not shutil.which("unshare"):
        return False
    words = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs root and mount namespaces")
@pytest.mark.parametrize("there", ["nothing", "another disk"])
def test_a_launch_is_refused_before_its_first_trial(place, cluster, there):
    place.grid("arms: {one: {}, two: {settings: {at: 4}}}\n", blocks=1)
    inner = place.root() if there == "another disk" else place.folder
    hide = f"mount -t tmpfs none {shlex.quote(str(place.folder))} && mkdir -p {shlex.quote(str(inner))}"
    cluster.add_node({"CPU": 1}, under=("unshare", "--mount", "sh", "-c", f'{hide} && exec "$@"', "sh"))
    env = {"RAY_AUTH_MODE": "disabled"}
    done = place.finish(place.start("launch", "grid.yaml", "--address", cluster.address, env=env), 400)
    assert done.code == 6, done.text
    assert "does not write into this store" in done.words
    assert ("No such file or directory" if there == "nothing" else "the same path is another folder") in done.words
    assert "--runs a folder that all of them mount at the same path, or a URI" in done.words
    assert Run(place.root()).trials().num_rows == 0
    assert not list(place.root().glob("nonce*"))
