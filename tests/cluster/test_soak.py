"""Two minutes of random kills: trials, actors, and once a node's raylet; nothing is lost, doubled or changed."""

from __future__ import annotations

import os
import random
import signal
import time

import psutil
import pytest

from ablate.record.journal import read_identity
from ablate.record.paths import StorePaths
from tests.cluster.place import losses, rows_of, start, undisturbed
from tests.conftest import whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TRIALS = 300
BATCHES = 20
EVERY_S = 3.0
SEED = 20261201
KINDS = (*["trial"] * 7, "actor")
"""Ray takes 5 to 10 s of a core to start an actor anew: were every third kill one, 300 trials would take 12 minutes."""


def test_the_store_after_a_soak_is_the_undisturbed_one_loss_for_loss(place, cluster):
    victims = random.Random(SEED)
    for node in [cluster.add_node({"CPU": 1}, wait=False) for _ in range(2)]:
        cluster.wait_for(node)
    keys = {"settings": "{step_s: 0.02}", "checkpoint": "{batches: 5}"}
    process = start(place, cluster, "arms: {soaked: {}}\n", batches=BATCHES, blocks=TRIALS, **keys)
    killed = {"trial": 0, "actor": 0, "raylet": 0}
    done_s = time.monotonic()
    while process.poll() is None:
        assert time.monotonic() - done_s < 1200
        time.sleep(victims.uniform(0.5, 1.5) * EVERY_S)
        if any(key.attempt > 2 for key in StorePaths(place.root()).journal_attempts()):
            continue  # chance must not use up all of one trial's attempts
        what = victims.choice(KINDS) if killed["raylet"] or killed["trial"] < 5 else "raylet"
        if what == "raylet":
            lost = cluster.nodes[-1]
            cluster.kill_raylet(lost)
            cluster.add_node({"CPU": 1})
        killed[what] += {"trial": kill_a_trial, "actor": kill_an_actor, "raylet": lambda *_: 1}[what](
            place, cluster, victims
        )
    done = place.finish(process)
    assert done.code == 0, done.text
    assert whole(place.root(), batches=BATCHES) == TRIALS
    rows = rows_of(place).values()
    assert killed["raylet"] == 1
    assert killed["trial"] >= 5
    assert killed["actor"] >= 1
    assert sum(row["failures_infrastructure"] for row in rows) >= killed["trial"]
    assert sum(row["failures_code"] for row in rows) == 0
    assert done.words.count(": tried again as attempt ") == sum(row["failures_infrastructure"] for row in rows)

    beside = undisturbed(place)
    assert beside.code == 0, beside.text
    assert losses(place.root()) == losses(place.folder / "beside" / "doubles")
    print(f"killed {killed}")


def kill_a_trial(place, cluster, victims) -> int:
    """Kill one of the trials that record; return how many were."""
    paths = StorePaths(place.root())
    running = []
    for key in paths.journal_attempts() if paths.journal.is_dir() else ():
        try:
            pid = read_identity(paths.rows(*key)).get("pid")
        except Exception:  # it was taken in meanwhile
            continue
        if pid and not paths.trial_json(*key).exists() and os.path.exists(f"/proc/{pid}"):
            running.append(pid)
    if running:
        os.kill(victims.choice(running), signal.SIGKILL)
    return bool(running)


def kill_an_actor(place, cluster, victims) -> int:
    """Kill one of the processes that Tune's actors live in; return how many were."""
    actors = []
    for node in cluster.nodes:
        for process in node.processes():
            try:
                title = (process.cmdline() or [""])[0]
                if title.startswith("ray::") and "Trainable" in title:
                    actors.append(process)
            except psutil.Error:
                continue
    if actors:
        victims.choice(actors).kill()
    return bool(actors)
