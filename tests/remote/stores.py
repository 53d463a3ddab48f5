"""Stores at a URI: opened, crashed as by kill -9, and seen from another machine."""

from __future__ import annotations

import json
import subprocess

from ablate.record.remote_store import open_store
from ablate.remote.growing import Growing
from ablate.remote.lease import NAME as LEASE
from ablate.remote.objects import Objects
from tests.record.conftest import make_grid, make_spec

GRID = make_grid()
FAST, SLOW = make_spec(), make_spec("slow")


def opened(uri, launch="one", told=lambda _: None):
    return open_store(uri, GRID, b"grid", launch, told)


def crash(store, dead=True):
    """Stop as kill -9 would: nothing more is written, locks are free, the lease stays as it was."""
    kept = store._mirror
    kept._stop.set()
    kept._wake.set()
    kept._lease._stop.set()
    for thread in (*kept._threads, kept._lease._thread):
        thread.join()
    store._lock.release()
    kept._lock.release()
    if dead:
        process = subprocess.Popen(["true"])
        process.wait()
        objects = Objects(store.remote)
        owner = {**json.loads(objects.read(LEASE)), "pid": process.pid}
        objects.write(LEASE, json.dumps(owner).encode())


def upload_journal(store, spec, attempt):
    """What ``ablate.trial.uploads`` does on a node."""
    objects = Objects(store.remote)
    for path in store.paths.journal_files(spec.trial_id, attempt):
        Growing(path, path.relative_to(store.paths.root).as_posix()).send(objects)


def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "another machine"))


def losses(run):
    return run.batches(["trial_id", "batch_index", "loss", "duration_s"]).to_pylist()
