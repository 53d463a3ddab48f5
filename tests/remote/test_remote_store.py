"""A store at a URI: whole at any moment, taken over after a crash on any machine, with one writer."""

from __future__ import annotations

import errno
import json

import pyarrow.parquet as pq
import pytest

from ablate.errors import StoreError
from ablate.record.check import check
from ablate.record.manifest import read_manifest
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.remote_store import RemoteStore, open_store
from ablate.record.store import Store
from ablate.remote import growing, lease, patience
from ablate.remote.growing import segments
from ablate.remote.lease import NAME as LEASE
from ablate.remote.location import reading_copy, working_copy
from ablate.remote.objects import Objects
from tests.conftest import wait_for
from tests.record.conftest import make_spec, run_trial
from tests.remote.stores import FAST, GRID, SLOW, crash, elsewhere, losses, opened, upload_journal

pytestmark = pytest.mark.usefixtures("soon")


def test_a_folder_stays_a_folder(tmp_path):
    with open_store(tmp_path / "runs" / "demo", GRID, b"grid", "one", print) as store:
        assert type(store) is Store
        assert store.remote is None
        store.publish()
        store.collect("t", 1)


def test_what_is_recorded_is_read_by_uri(uri, bucket):
    with opened(uri) as store:
        assert isinstance(store, RemoteStore)
        assert store.remote == uri
        for spec in (FAST, SLOW):
            attempt = run_trial(store, spec)
            upload_journal(store, spec, attempt)
            assert store.absorb(spec.trial_id, attempt) == "done"
    here, there = Run(working_copy(uri)), Run(uri)
    assert there.paths.root == reading_copy(uri) != here.paths.root
    assert losses(there) == losses(here) != []
    assert there.trials().equals(here.trials())
    assert there.sketches().equals(here.sketches())
    assert check(there) == []
    assert (there.paths.root / "grid.yaml").read_bytes() == b"grid"
    left = bucket.names("runs/demo/")
    assert not [name for name in left if "/journal/" in name or "nonce" in name]
    assert sum("/batches/" in name for name in left) == 1
    assert json.loads(Objects(uri).read(LEASE))["released"] is True


def test_other_tools_find_the_table_of_trials_under_its_own_name(uri):
    with opened(uri) as store:
        store.absorb(FAST.trial_id, run_trial(store, FAST))
    objects = Objects(uri)
    manifest = read_manifest(objects)
    assert objects.read("trials/trials.parquet") == objects.read(manifest.changing["trials/trials.parquet"])
    for name in manifest.files:
        assert name in objects.names()


def test_reading_again_fetches_only_what_is_new(uri, monkeypatch):
    with opened(uri) as store:
        store.absorb(FAST.trial_id, run_trial(store, FAST))
    Run(uri)
    fetched = []
    plain = Objects.fetch

    def watched(self, name, path):
        fetched.append(name)
        plain(self, name, path)

    monkeypatch.setattr(Objects, "fetch", watched)
    Run(uri)
    assert fetched == []
    with opened(uri, "two") as store:
        store.absorb(SLOW.trial_id, run_trial(store, SLOW))
    fetched.clear()
    run = Run(uri)
    assert {row["trial_id"] for row in losses(run)} == {FAST.trial_id, SLOW.trial_id}
    assert {row["arm"] for row in run.trials().to_pylist()} == {"fast", "slow"}
    assert len([name for name in fetched if "batches/part-" in name]) == 1


def test_a_reader_fetches_the_manifest_once(uri, monkeypatch):
    with opened(uri) as store:
        store.absorb(FAST.trial_id, run_trial(store, FAST))
    read = []
    plain = Objects.read
    monkeypatch.setattr(Objects, "read", lambda self, name: read.append(name) or plain(self, name))
    assert len(losses(Run(uri))) == 4
    assert read.count("manifest.json") == 1


def test_a_store_copied_there_by_other_tools_is_read(uri, bucket):
    with opened(uri) as store:
        store.absorb(FAST.trial_id, run_trial(store, FAST))
    root = working_copy(uri)
    for path in root.rglob("*"):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            bucket.client().upload_file(str(path), bucket.name, f"copied/demo/{name}")
    run = Run(bucket.uri("copied/demo"))
    assert losses(run) == losses(Run(uri))


def test_a_crashed_launch_is_gone_on_from_on_its_own_machine(uri):
    store = opened(uri)
    attempt = run_trial(store, FAST)
    upload_journal(store, FAST, attempt)
    store._mirror._stop.set()  # it dies before it uploads what it flushed
    store.absorb(FAST.trial_id, attempt)
    store.flush()
    crash(store)
    assert Run(uri).batches().num_rows == 0
    told = []
    with opened(uri, "two", told.append) as again:
        assert again.done() == {FAST.trial_id}
    assert any("taking the store over from a launch that is gone: process" in words for words in told)
    assert any("which is ahead of the store" in words for words in told)
    assert losses(Run(uri)) == losses(Run(working_copy(uri))) != []


def test_a_crashed_launch_is_gone_on_from_elsewhere(uri, bucket, monkeypatch, tmp_path):
    store = opened(uri)
    attempt = run_trial(store, FAST)
    upload_journal(store, FAST, attempt)
    with Recorder(store.paths, SLOW, 1) as recorder:
        recorder.record(0, 1.0, 0.01, {})
    upload_journal(store, SLOW, 1)
    crash(store)
    elsewhere(monkeypatch, tmp_path)
    with opened(uri, "two") as again:
        assert again.done() == {FAST.trial_id}
        assert again.failures(SLOW.trial_id).infrastructure == 1
        assert again.next_attempt(SLOW.trial_id) == 2
        assert again.absorb(SLOW.trial_id, run_trial(again, SLOW)) == "done"
    run = Run(uri)
    assert check(run) == []
    assert len(losses(run)) == 8
    kept = run.attempts(["trial_id", "attempt", "batch_index", "loss"]).to_pylist()
    assert kept == [{"trial_id": SLOW.trial_id, "attempt": 1, "batch_index": 0, "loss": 1.0}]
    assert not [name for name in bucket.names() if "/journal/" in name]


def test_a_copy_that_another_machine_overtook_is_kept_aside(uri, monkeypatch, tmp_path):
    store = opened(uri)
    store._mirror._stop.set()  # nothing of this trial is ever uploaded
    store.absorb(FAST.trial_id, run_trial(store, FAST))
    store.flush()
    crash(store)
    home = working_copy(uri)
    with monkeypatch.context() as away:
        away.setenv("ABLATE_CACHE", str(tmp_path / "another machine"))
        with opened(uri, "two") as other:
            other.absorb(FAST.trial_id, run_trial(other, FAST, loss=lambda k: 7.0))
    told = []
    with opened(uri, "three", told.append) as again:
        assert again.done() == {FAST.trial_id}
    assert {row["loss"] for row in losses(Run(home))} == {7.0}
    [words] = [words for words in told if "kept in" in words]
    aside = words.rpartition(" ")[2]
    assert len(losses(Run(aside))) == 4
    assert {row["loss"] for row in losses(Run(uri))} == {7.0}


def test_a_trial_of_another_node_is_collected(uri, bucket, monkeypatch, tmp_path):
    with opened(uri) as store:
        spool = StorePaths(tmp_path / "node")
        for folder in spool.folders:
            folder.mkdir(parents=True)
        here, there = store.paths, Store.__new__(Store)
        there.paths, there.remote = spool, uri
        run_trial(there, FAST, attempt=1)
        upload_journal(there, FAST, 1)
        assert store.absorb(FAST.trial_id, 1) is None
        assert store.rows_written(FAST.trial_id, 1) is None
        wait_for(lambda: store.rows_written(FAST.trial_id, 1) == 4)  # for the display, before it is collected
        assert store.all_rows_written() == {(FAST.trial_id, 1): 4}
        assert not here.rows(FAST.trial_id, 1).exists()
        store.collect(FAST.trial_id, 1)
        assert here.rows(FAST.trial_id, 1).read_bytes() == spool.rows(FAST.trial_id, 1).read_bytes()
        assert store.absorb(FAST.trial_id, 1) == "done"
    assert len(losses(Run(uri))) == 4


def test_a_disk_that_fails_under_the_uploads_ends_the_launch_with_its_words(uri, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    store = opened(uri)
    with monkeypatch.context() as disk:
        disk.setattr(store._mirror._publisher, "push", fails)
        store.absorb(FAST.trial_id, run_trial(store, FAST))
        store.flush()
        wait_for(lambda: store._mirror._failure)
        with pytest.raises(StoreError, match="Input/output error"):
            store.collect(SLOW.trial_id, 1)
    store.close()


def test_a_store_that_is_away_is_caught_up_with(bucket):
    wire = bucket.wire()
    uri = bucket.uri("runs/demo")
    told = []
    with opened(uri, told=told.append) as store:
        wire.cut()
        for spec in (FAST, SLOW):
            store.absorb(spec.trial_id, run_trial(store, spec))
        store.flush()
        assert store.done() == {FAST.trial_id, SLOW.trial_id}
        wire.mend()
    assert len(losses(Run(uri))) == 8


def test_a_store_that_stays_away_leaves_everything_in_the_working_copy(bucket, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE_S", 3.0)
    wire = bucket.wire()
    uri = bucket.uri("runs/demo")
    told = []
    store = opened(uri, told=told.append)
    store.absorb(FAST.trial_id, run_trial(store, FAST))
    wire.cut()
    with pytest.raises(StoreError) as caught:
        store.close()
    assert "the last results are not uploaded" in str(caught.value)
    assert f"everything is in {working_copy(uri)}: launch again on this machine" in str(caught.value)
    assert any("waiting for it, at most 0 min" in words for words in told)
    wire.mend()
    assert len(losses(Run(working_copy(uri)))) == 4
    told.clear()
    monkeypatch.setattr(lease, "STALE_S", -1.0)  # this process lives on
    with opened(uri, "two", told.append) as again:
        assert again.done() == {FAST.trial_id}
    assert any("which is ahead of the store" in words for words in told)
    assert len(losses(Run(uri))) == 4


def test_every_commit_is_a_whole_store(uri):
    """Whatever is uploaded between two commits, a reader sees a trial of the table with all its batches, once."""
    specs = [make_spec(block=block) for block in range(2)] + [make_spec("slow", block) for block in range(2)]
    with opened(uri) as store:
        for n, spec in enumerate(specs, 1):
            store.absorb(spec.trial_id, run_trial(store, spec))
            store.flush()
            if n == 3:
                store._batches.merge()
            store._mirror.commit()
            run = Run(uri)
            assert run.trials().num_rows == n
            rows = [(row["trial_id"], row["batch_index"]) for row in losses(run)]
            assert len(rows) == len(set(rows)) == 4 * n


def test_images_and_arrays_that_a_node_has_uploaded_are_committed_and_not_sent_again(uri, monkeypatch):
    """As where trials run on the launching machine: the files are in its working copy before it hears of them."""
    sent = []

    def send(objects, name, path):
        sent.append(name)
        with path.open("rb") as file:
            return Objects.send_open(objects, name, file)

    with opened(uri) as store:
        whole, torn = (store.paths.artifact_files / f"{FAST.trial_id}-1-{batch}.npz" for batch in (0, 1))
        whole.write_bytes(b"whole")
        torn.write_bytes(b"another one")
        objects = Objects(uri)
        names = [path.relative_to(store.paths.root).as_posix() for path in (whole, torn)]
        objects.write(names[0], b"whole")
        objects.write(names[1], b"anoth")
        monkeypatch.setattr(Objects, "send", send)
        store.absorb(FAST.trial_id, run_trial(store, FAST))
        store.publish()
        assert names[0] not in sent
        assert sent.count(names[1]) == 1
        assert {name: read_manifest(objects).files[name] for name in names} == {names[0]: 5, names[1]: 11}
        assert objects.read(names[1]) == b"another one"


def test_an_absorbed_journal_in_segments_is_whole_for_whoever_lists_it_meanwhile(uri, monkeypatch):
    """Else a launch that collects another trial just then, or `ablate status`, would take a segment for lost."""
    monkeypatch.setattr(growing, "SEGMENT", 100)
    seen = []
    plain = Objects.delete

    def watched(self, name):
        plain(self, name)
        if name.startswith("journal/"):
            seen.append(segments(self.names("journal")))

    with opened(uri) as store:
        attempt = run_trial(store, FAST)
        upload_journal(store, FAST, attempt)
        assert len(segments(Objects(uri).names("journal"))[f"journal/{FAST.trial_id}-1.rows"]) > 2
        store.absorb(FAST.trial_id, attempt)
        monkeypatch.setattr(Objects, "delete", watched)
    assert len(seen) > 10
    assert seen[-1] == {}


def test_a_run_that_is_not_there_names_the_nearest(uri, bucket):
    with opened(uri):
        pass
    from ablate.errors import BadInput

    with pytest.raises(BadInput) as caught:
        Run(bucket.uri("runs/dmeo"))
    said = str(caught.value)
    assert "runs/dmeo" in said
    assert "there is no run" in said
    assert f"did you mean '{uri}'?" in said
    assert "runs there: demo" in said


def test_a_manifest_that_leads_out_of_the_store_is_refused(uri, bucket, tmp_path):
    objects = Objects(uri)
    objects.write("spec.json", b"{}")
    objects.write("manifest.json", json.dumps({"files": {"../../evil": 1}, "changing": {}}).encode())
    with pytest.raises(StoreError, match=r"names a file outside of the store: '../../evil'"):
        Run(uri)
    objects.write("manifest.json", b"{")
    with pytest.raises(StoreError, match=r"manifest\.json: is damaged"):
        Run(uri)


def test_a_missing_part_is_told(uri):
    with opened(uri) as store:
        store.absorb(FAST.trial_id, run_trial(store, FAST))
    objects = Objects(uri)
    [part] = list(objects.names("batches"))
    objects.delete(part)
    with pytest.raises(StoreError, match=r"an object that its manifest names is not there .*batches/part-"):
        Run(uri)
    assert pq.read_table(working_copy(uri) / part).num_rows == 4
