"""Objects below a URI: what is written is read back, whole or not at all, and a refusal is told in words, soon."""

from __future__ import annotations

import socket
import time

import pytest

from ablate.errors import BadInput, StoreError
from ablate.remote.objects import Objects
from ablate.remote.refusal import Unreachable

SOON_S = 10.0


def test_objects_come_back_bit_for_bit(bucket, tmp_path):
    objects = Objects(bucket.uri("runs/study"))
    large = bytes(range(256)) * 40_000  # more than one chunk
    (tmp_path / "large").write_bytes(large)
    objects.write("a/one", b"1")
    objects.write("a/none", b"")
    assert objects.send("b/large", tmp_path / "large") == len(large)
    assert objects.names() == {"a/one": 1, "a/none": 0, "b/large": len(large)}
    assert objects.names("a") == {"a/one": 1, "a/none": 0}
    assert objects.names("nowhere") == {}
    assert objects.read("a/one") == b"1"
    assert objects.read("a/none") == b""
    assert objects.read("a/two") is None
    objects.fetch("b/large", tmp_path / "there" / "copy")
    assert (tmp_path / "there" / "copy").read_bytes() == large
    objects.fetch_joined(["a/one", "b/large"], tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == b"1" + large
    with pytest.raises(FileNotFoundError):
        objects.fetch("a/two", tmp_path / "two")
    assert not list(tmp_path.glob("**/*.tmp"))
    objects.delete("a/one")
    objects.delete("a/one")
    assert objects.names() == {"a/none": 0, "b/large": len(large)}


def test_a_folder_shared_by_file_uri_is_a_store_too(tmp_path):
    (tmp_path / "shared").mkdir()
    objects = Objects(f"file://{tmp_path}/shared/runs/study")
    objects.check_usable()
    objects.write("a/one", b"1")
    assert objects.names() == {"a/one": 1}
    assert objects.read("a/one") == b"1"
    assert abs(objects.now() - time.time()) < 5
    missing = Objects(f"file://{tmp_path}/misspelt/runs/study")
    with pytest.raises(StoreError, match=r"misspelt/runs: is missing\n    is the shared disk mounted\?"):
        missing.check_usable()


def test_what_is_written_for_the_check_is_deleted(bucket):
    Objects(bucket.uri()).check_usable()
    assert bucket.names() == []


def test_a_missing_bucket_is_told(bucket):
    uri = bucket.uri().replace(bucket.name, "no-such-bucket")
    began = time.monotonic()
    with pytest.raises(StoreError) as caught:
        Objects(uri).check_usable()
    assert str(caught.value) == (
        "s3://no-such-bucket/runs: there is no bucket 'no-such-bucket'\n    make it, or correct --runs"
    )
    assert not isinstance(caught.value, Unreachable)
    assert time.monotonic() - began < SOON_S


def test_a_refused_connection_is_told(bucket):
    bucket.wire().cut()
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"does not answer .*Could not connect") as caught:
        Objects(bucket.uri()).check_usable()
    assert "check the network, the endpoint and the region, then run the same command again" in str(caught.value)
    assert time.monotonic() - began < SOON_S


def test_a_server_that_stays_silent_is_told(bucket):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        uri = bucket.uri().replace(f":{bucket.port}", f":{silent.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            Objects(uri).check_usable()
        assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://key:secret@bkt/runs?region=x", "s3://...@bkt/runs: holds credentials, which would be printed"),
        ("bogus://bkt/runs", "is no place for a store (Unrecognized filesystem type in URI"),
        ("s3://bkt/runs?region=x&colour=red", "Unexpected query parameter in S3 URI: 'colour'"),
    ],
)
def test_a_bad_uri_is_bad_input(uri, said):
    with pytest.raises(BadInput) as caught:
        Objects(uri)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
