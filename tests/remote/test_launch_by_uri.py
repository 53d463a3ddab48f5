"""Whole launches into a store at a URI, by the command line and the local launcher, over a real S3 protocol server."""

from __future__ import annotations

import http.server
import json
import os
import shlex
import signal
import threading
import time

import pytest

from ablate.record.check import check
from ablate.record.journal import rows_written
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from ablate.remote.location import working_copy
from ablate.remote.objects import Objects
from tests.conftest import wait_for

TWO = "arms:\n  one: {}\n  two: {settings: {at: 4}}\n"
REFUSED_S = 10.0
BATCHES = 150
START_S = 200.0
"""A launch starts within 5 s on an idle machine; tests run beside others."""
LONG = 900
"""Batches of trials that outlast two commands on a busy machine; they are killed, and end without their sleeps."""


def losses(root):
    rows = Run(root).batches(["trial_id", "batch_index", "loss"]).to_pylist()
    return sorted((row["trial_id"], row["batch_index"], row["loss"].hex()) for row in rows)


def equal_to_a_local_launch(place, uri):
    """The same grid beside, into a folder and without its sleeps: the same losses, bit for bit."""
    beside = place.ablate("launch", "grid.yaml", "--local", "--runs", "beside", env={"DOUBLES_WELL": "1"})
    assert beside.code == 0, beside.text
    assert losses(uri) == losses(place.folder / "beside" / "doubles")


@pytest.mark.slow
def test_a_launch_by_uri_has_a_folder_s_losses_bit_for_bit(place, bucket):
    place.grid(TWO, blocks=1)
    done = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri())
    assert done.code == 0, done.text
    uri = bucket.uri("runs/doubles")
    assert f"stored in {uri}; to print this again: ablate gap {shlex.quote(uri)};" in done.words
    equal_to_a_local_launch(place, uri)
    assert check(Run(uri)) == []
    left = bucket.names("runs/doubles/")
    assert not [name for name in left if "/journal/" in name or "/checkpoints/" in name or "nonce" in name]

    gap = place.ablate("gap", uri)
    assert gap.code == 0
    assert gap.out.splitlines()[0] == done.out.splitlines()[0]
    assert place.left_running() == {}
    before = set(bucket.names("runs/doubles/"))
    again = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri())
    assert again.code == 0, again.text
    assert set(bucket.names("runs/doubles/")) == before


def test_a_missing_bucket_is_refused_before_the_first_trial(place, bucket):
    place.grid(TWO)
    done = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri().replace(bucket.name, "no-bucket"))
    assert done.code == 6
    assert "there is no bucket 'no-bucket'" in done.words
    assert "make it, or correct --runs" in done.words
    assert done.seconds < REFUSED_S
    assert "Traceback" not in done.text


class Forbids(http.server.BaseHTTPRequestHandler):
    """Answers as S3 does to a key that it does not know."""

    def refuse(self) -> None:
        body = (
            b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist in our records.</Message></Error>"
        )
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = refuse

    def log_message(self, *_: object) -> None:
        pass


def test_wrong_credentials_are_refused_before_the_first_trial(place, bucket):
    place.grid(TWO)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forbids) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uri = bucket.uri().replace(f":{bucket.port}", f":{server.server_port}")
        done = place.ablate("launch", "grid.yaml", "--local", "--runs", uri)
        server.shutdown()
    assert done.code == 6
    assert f"s3://{bucket.name}/runs/doubles: access is refused" in done.words
    assert "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or the profile" in done.words
    assert done.seconds < REFUSED_S


def test_a_server_that_is_away_is_told_before_the_first_trial(place, bucket):
    place.grid(TWO)
    bucket.wire().cut()
    done = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri())
    assert done.code == 6
    assert "does not answer" in done.words
    assert done.seconds < REFUSED_S


def test_commands_that_take_no_uri_say_so(place):
    place.grid(TWO)
    for words in (["runs"], ["trial", "grid.yaml", "one/0"], ["audit", "grid.yaml"], ["doctor"]):
        done = place.ablate(*words, "--runs", "s3://bucket/runs")
        assert done.code == 2, done.text
        assert "s3://bucket/runs: is no folder of this machine" in done.words
        assert "only `ablate launch` and commands that read one run take a URI" in done.words


def slow_launch(place, bucket, uri, batches=BATCHES):
    """Start a launch of two trials of 0.1 s a batch; return it when both have uploaded a checkpoint."""
    place.grid(TWO, batches=batches, settings="{step_s: 0.1}", blocks=1, checkpoint="{batches: 5}")
    process = place.start("launch", "grid.yaml", "--local", "--runs", uri)

    def saved():
        assert process.poll() is None, process.communicate()
        return sum(name.endswith("/state.pt") for name in bucket.names("runs/doubles/checkpoints/")) == 2

    wait_for(saved, START_S)
    return process


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_launch_outlives_the_server_s_absence(place, bucket):
    wire = bucket.wire()
    process = slow_launch(place, bucket, bucket.uri())
    wire.cut()
    paths = StorePaths(working_copy(bucket.uri("runs/doubles")))

    def over():
        return sum(paths.trial_json(*key).exists() for key in paths.journal_attempts()) == 2

    wait_for(over, START_S)
    time.sleep(2)  # both trials are over, and their ends wait for the server
    assert process.poll() is None
    wire.mend()
    done = place.finish(process)
    assert done.code == 0, done.text
    assert "does not answer" in done.words
    assert "waiting for it, at most 10 min" in done.words
    assert "the store answers again" in done.words
    uri = bucket.uri("runs/doubles")
    equal_to_a_local_launch(place, uri)
    assert check(Run(uri)) == []
    assert not [name for name in bucket.names() if "/journal/" in name or "/checkpoints/" in name]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_lost_machine_s_trials_go_on_elsewhere_at_their_last_uploaded_checkpoint(place, bucket, tmp_path):
    process = slow_launch(place, bucket, bucket.uri(), LONG)
    elsewhere = {"ABLATE_CACHE": str(tmp_path / "another machine")}
    second = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri(), env=elsewhere)
    assert second.code == 6
    assert f"the store is being written by process {process.pid} of" in second.words
    assert "wait until that launch is over, or stop it" in second.words
    here = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri())
    assert here.code == 6
    assert f"the store is being written by process {process.pid} on" in here.words

    objects = Objects(bucket.uri("runs/doubles"))
    os.kill(process.pid, signal.SIGKILL)
    place.finish(process)
    assert place.left_running() == {}
    uploaded = [name for name in objects.names("checkpoints") if name.endswith("/state.pt")]
    assert len(uploaded) == 2
    done = place.ablate(
        "launch", "grid.yaml", "--local", "--runs", bucket.uri(), env={**elsewhere, "DOUBLES_WELL": "1"}
    )
    assert done.code == 0, done.text
    assert "taking the store over from a launch that is gone: process" in done.words
    uri = bucket.uri("runs/doubles")
    for row in Run(uri).trials().to_pylist():
        assert row["resumed_at"] >= 5
        assert row["batches"] == LONG
    equal_to_a_local_launch(place, uri)
    assert check(Run(uri)) == []
    assert not [name for name in bucket.names() if "/journal/" in name or "/checkpoints/" in name]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_acknowledged_row_is_lost_when_the_launch_is_killed_and_goes_on_here(place, bucket):
    place.grid(TWO, batches=LONG, settings="{step_s: 0.1}", blocks=1)
    process = place.start("launch", "grid.yaml", "--local", "--runs", bucket.uri())
    paths = StorePaths(working_copy(bucket.uri("runs/doubles")))

    def rows():
        return {key: rows_written(paths.rows(*key)) or 0 for key in paths.journal_attempts()}

    wait_for(lambda: len([n for n in rows().values() if n >= 5]) == 2, START_S)
    os.kill(process.pid, signal.SIGKILL)
    before = rows()
    place.finish(process)
    done = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri(), env={"DOUBLES_WELL": "1"})
    assert done.code == 0, done.text
    uri = bucket.uri("runs/doubles")
    kept = Run(uri).attempts(["trial_id", "attempt", "batch_index"]).to_pylist()
    for key, count in before.items():
        found = [row["batch_index"] for row in kept if (row["trial_id"], row["attempt"]) == key]
        assert found[:count] == list(range(count))
    equal_to_a_local_launch(place, uri)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_gives_the_store_back(place, bucket):
    process = slow_launch(place, bucket, bucket.uri(), LONG)
    wait_for(lambda: sum(name.endswith(".rows") for name in bucket.names("runs/doubles/journal/")) == 2)
    status = place.ablate("status", bucket.uri("runs/doubles"), "--json")
    assert status.code == 0, status.text
    now = json.loads(status.out)
    assert now["writer"].startswith(f"process {process.pid} of ")
    assert [arm["running"] for arm in now["arms"]] == [1, 1]
    os.killpg(process.pid, signal.SIGINT)
    done = place.finish(process)
    assert done.code == 130, done.text
    assert "Traceback" not in done.text
    assert done.seconds < 20
    uri = bucket.uri("runs/doubles")
    assert len(Run(uri).attempts(["trial_id"])) >= 10
    again = place.ablate("launch", "grid.yaml", "--local", "--runs", bucket.uri(), env={"DOUBLES_WELL": "1"})
    assert again.code == 0, again.text
    assert "taking the store over" not in again.words
    equal_to_a_local_launch(place, uri)
