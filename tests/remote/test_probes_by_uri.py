"""Probes of a store at a URI: snapshots lie there, not in the manifest; what was found travels as journals do."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from ablate.record.manifest import read_manifest
from ablate.record.paths import StorePaths
from ablate.record.probe_intake import to_look_again
from ablate.record.reader import Run
from ablate.record.remote_store import open_store
from ablate.remote.location import working_copy
from ablate.remote.objects import Objects
from tests.conftest import wait_for
from tests.record.conftest import make_grid, make_spec, run_trial
from tests.record.test_probe_rows import probe
from tests.remote.stores import crash, elsewhere, upload_journal

pytestmark = pytest.mark.usefixtures("soon")

SPEC = make_spec()
TWO = """\
arms:
  one: {}
  two: {settings: {at: 4}}
probes: {curvature: {at: [0, 3, last], steps: 10}}
"""


def opened(uri, launch="one"):
    return open_store(uri, make_grid(), b"grid", launch, lambda _: None)


def on_a_node(store, tmp_path, *batches):
    """Write what a probe on another machine uploads."""
    far = StorePaths(tmp_path / "node")
    for folder in far.folders:
        folder.mkdir(parents=True, exist_ok=True)

    class Node:
        paths = far

    objects = Objects(store.remote)
    for at in batches:
        probe(Node, at)
        path = far.probe_lines(SPEC.trial_id, at)
        objects.send(path.relative_to(far.root).as_posix(), path)


def trained(store):
    attempt = run_trial(store, SPEC)
    upload_journal(store, SPEC, attempt)
    store.absorb(SPEC.trial_id, attempt)
    objects = Objects(store.remote)
    for at in (0, 4):
        objects.write(f"snapshots/{SPEC.trial_id}-{at}.pt", b"weights")
        objects.write(f"snapshots/{SPEC.trial_id}-{at}.directions.pt", b"directions")


def lines_left(bucket):
    return [name for name in bucket.names("runs/demo/") if "/journal/" in name]


def test_snapshots_are_known_by_the_uri_and_probes_are_collected(bucket, tmp_path):
    uri = bucket.uri("runs/demo")
    with opened(uri) as store:
        trained(store)
        assert store.snapshots() == {(SPEC.trial_id, 0), (SPEC.trial_id, 4)}
        on_a_node(store, tmp_path, 0)
        store.collect_probes(SPEC.trial_id)
        assert store.take_probe(SPEC.trial_id, 0)
        assert not store.take_probe(SPEC.trial_id, 4)
    assert lines_left(bucket) == []
    assert Run(uri).probes().num_rows == 4
    manifest = read_manifest(Objects(uri))
    assert [name for name in manifest.files if name.startswith("probes/")]
    assert not [name for name in manifest.files if name.startswith("snapshots/")]
    assert len([name for name in bucket.names("runs/demo/") if "/snapshots/" in name]) == 4
    assert not list(Run(uri).paths.root.glob("snapshots/*.pt"))  # a reader needs none of them


def test_what_was_uploaded_when_a_launch_died_is_taken_in_on_another_machine(bucket, tmp_path, monkeypatch):
    uri = bucket.uri("runs/demo")
    store = opened(uri)
    trained(store)
    store.flush()
    store._mirror.commit()
    on_a_node(store, tmp_path, 0, 4)
    crash(store)
    elsewhere(monkeypatch, tmp_path)
    with opened(uri, "two") as again:
        assert again.probed() == {(SPEC.trial_id, 0), (SPEC.trial_id, 4)}
        assert [words for words in again.recovered if "probe" in words] == [
            f"trial {SPEC.trial_id}: what the probe after {at} batches found" for at in (0, 4)
        ]
        assert again.snapshots() == {(SPEC.trial_id, 0), (SPEC.trial_id, 4)}
    assert lines_left(bucket) == []
    assert Run(uri).probes().num_rows == 8


@pytest.mark.parametrize("machine", ["the same", "another"])
def test_what_it_says_to_delete_is_looked_at_again(bucket, tmp_path, monkeypatch, machine):
    """Without the parts alone a store would miss objects that its manifest names; a working copy follows the URI."""
    uri = bucket.uri("runs/demo")
    with opened(uri) as store:
        trained(store)
        on_a_node(store, tmp_path, 0, 4)
        store.collect_probes(SPEC.trial_id)
        assert all(store.take_probe(SPEC.trial_id, at) for at in (0, 4))
    assert to_look_again(uri) == (
        f"delete manifest.json and the folder probes/ of the store, both at {uri}, and run `ablate probe`"
    )
    objects = Objects(uri)
    for name in ["manifest.json", *objects.names("probes")]:
        objects.delete(name)
    if machine == "another":
        elsewhere(monkeypatch, tmp_path)
    with opened(uri, "two") as again:
        assert again.probed() == set()
        assert again.snapshots() == {(SPEC.trial_id, 0), (SPEC.trial_id, 4)}
        assert again.done() == {SPEC.trial_id}
    assert (Run(uri).probes().num_rows, Run(uri).batches().num_rows) == (0, 4)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_launch_that_is_killed_is_probed_on_another_machine(place, bucket, tmp_path):
    """Its trials are done, its snapshots uploaded; the rows are those of a launch into a folder."""
    uri = bucket.uri("runs/doubles")
    place.grid(TWO, blocks=1, settings="{step_s: 0.4}")
    process = place.start("launch", "grid.yaml", "--local", "--runs", bucket.uri())
    journal = "runs/doubles/journal/"
    wait_for(lambda: process.poll() is not None or any("probe.jsonl" in n for n in bucket.names(journal)), 400)
    assert process.poll() is None, process.communicate()
    os.kill(process.pid, signal.SIGINT)
    assert place.finish(process).code == 130
    before = set(zip(*(Run(uri).probes()[name].to_pylist() for name in ("trial_id", "batches")), strict=True))
    assert 1 <= len(before) < 6
    shutil.rmtree(working_copy(uri))
    env = {"ABLATE_CACHE": str(tmp_path / "another machine"), "DOUBLES_WELL": "1"}
    done = place.ablate("probe", uri, "--local", env=env)
    assert done.code == 0, done.text
    assert f"looked at {6 - len(before)} snapshots" in done.out
    assert not [name for name in bucket.names("runs/doubles/") if "/journal/" in name]
    beside = place.ablate("launch", "grid.yaml", "--local", "--runs", "beside", env={"DOUBLES_WELL": "1"})
    assert beside.code == 0, beside.text
    order = [("trial_id", "ascending"), ("batches", "ascending")]
    assert Run(uri).probes().sort_by(order).equals(Run(place.folder / "beside" / "doubles").probes().sort_by(order))
    assert place.left_running() == {}
