"""A real S3 protocol server on loopback, and a wire to it that can be cut and mended."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import boto3
import pytest
from moto.server import ThreadedMotoServer

from ablate.record import mirror
from ablate.remote import lease

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}


class Wire:
    """Forwards a port of its own to a server's; ``cut`` breaks every connection and refuses new ones."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._accept()

    def cut(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends.clear()

    def mend(self) -> None:
        self._listener = self._listen(self.port)
        self._accept()

    @staticmethod
    def _listen(port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        return listener

    def _accept(self) -> None:
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            self._ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    @staticmethod
    def _pump(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@dataclass
class Bucket:
    """One test's bucket. ``uri`` names folders in it, through the wire if there is one."""

    name: str
    port: int
    wires: list[Wire] = field(default_factory=list)

    def uri(self, path: str = "runs") -> str:
        port = self.wires[-1].port if self.wires else self.port
        return f"s3://{self.name}/{path}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"

    def wire(self) -> Wire:
        self.wires.append(Wire(self.port))
        return self.wires[-1]

    def client(self):
        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1")

    def names(self, prefix: str = "") -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", []) if not one["Key"].endswith("/")]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[int]:
    """The port of the server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def bucket(s3_server: int, monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[Bucket]:
    """A new bucket, with credentials and a cache folder of this test in the environment."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    made = Bucket(f"bucket-{uuid.uuid4().hex[:12]}", s3_server)
    made.client().create_bucket(Bucket=made.name)
    yield made
    for wire in made.wires:
        with contextlib.suppress(OSError):
            wire.cut()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and uploads that need not be waited for."""
    monkeypatch.setattr(lease, "SETTLE_S", 0.05)
    monkeypatch.setattr(lease, "BEAT_S", 0.2)
    monkeypatch.setattr(mirror, "LOOK_S", 0.2)


@pytest.fixture
def uri(bucket: Bucket) -> str:
    """Where a store may be."""
    return bucket.uri("runs/demo")
