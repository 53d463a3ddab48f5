"""A cluster whose nodes share no disk: each has a cache of its own, and only the store at the URI is common."""

from __future__ import annotations

import pytest

from ablate.record.check import check
from ablate.record.journal import rows_written
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from tests.cluster.small_cluster import Cluster
from tests.conftest import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TWO = "arms:\n  one: {}\n  two: {settings: {at: 4}}\n"
BATCHES = 200
"""Of 0.1 s: both trials are to be under way at once, on a busy machine too."""


def losses(root):
    rows = Run(root).batches(["trial_id", "batch_index", "loss"]).to_pylist()
    return sorted((row["trial_id"], row["batch_index"], row["loss"].hex()) for row in rows)


def test_a_lost_node_s_trial_goes_on_at_its_last_uploaded_checkpoint(place, bucket, tmp_path):
    uri = bucket.uri("runs/doubles")
    with Cluster() as cluster:
        caches = {name: tmp_path / name for name in ("east", "west")}
        for name, cache in caches.items():
            cluster.add_node({"CPU": 1, name: 1}, {"ABLATE_CACHE": str(cache)}, host=name, wait=False)
        for node in cluster.nodes:
            cluster.wait_for(node)
        place.grid(TWO, batches=BATCHES, settings="{step_s: 0.1}", blocks=1, checkpoint="{batches: 5}")
        environment = {"RAY_AUTH_MODE": "disabled"}
        process = place.start(
            "launch", "grid.yaml", "--address", cluster.address, "--runs", bucket.uri(), env=environment
        )

        def spools():
            assert process.poll() is None, process.communicate()
            found = {}
            for name, cache in caches.items():
                for root in cache.glob("stores/*-doubles"):
                    paths = StorePaths(root)
                    found |= {key: name for key in paths.journal_attempts() if rows_written(paths.rows(*key))}
            return found

        saved = "runs/doubles/checkpoints/"
        wait_for(lambda: len(spools()) == 2 and sum(n.endswith("/state.pt") for n in bucket.names(saved)) == 2, 200)
        running = spools()
        assert sorted(running.values()) == ["east", "west"]
        lost = next(key.trial_id for key, name in running.items() if name == "east")
        cluster.kill(next(node for node in cluster.nodes if node.name == "east"))
        done = place.finish(process, 300)
    assert done.code == 0, done.text
    rows = {row["trial_id"]: row for row in Run(uri).trials().to_pylist()}
    assert {row["host"] for row in rows.values()} == {"west"}
    assert (rows[lost]["attempt"], rows[lost]["failures_infrastructure"]) == (2, 1)
    assert rows[lost]["resumed_at"] >= 5
    assert rows[lost]["moved_from"].startswith("east (")
    assert [finding.code for finding in check(Run(uri))] == ["C12"]
    [west] = caches["west"].glob("stores/*-doubles")
    assert not list((west / "journal").iterdir())  # what was uploaded is not kept on the node
    assert not [name for name in bucket.names() if "/journal/" in name or "/checkpoints/" in name]
    beside = place.ablate("launch", "grid.yaml", "--local", "--runs", "beside", env={"DOUBLES_WELL": "1"})
    assert beside.code == 0, beside.text
    assert losses(uri) == losses(place.folder / "beside" / "doubles")
