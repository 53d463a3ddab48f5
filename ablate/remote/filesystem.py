"""The file system behind a URI, as pyarrow gives it, told to give up soon: waiting is ours (``patience``)."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

from ablate.errors import BadInput, Problem, StoreError
from ablate.remote.location import check_uri
from ablate.remote.refusal import refusal

CONNECT_S = 2.0
SILENT_S = 3.0
"""A server that sends nothing for so long is asked once more, then taken for away; waiting for it is ours."""
AT_EXIT_S = 15.0
"""How long the interpreter's end waits for requests under way: S3 may not be finalised below them."""


@cache
def connect(uri: str) -> tuple[Any, str]:
    """Return pyarrow's file system for ``uri`` and the path in it. S3 sends one request at most, for its region.

    Raises:
        BadInput: if it is no URI that pyarrow knows, or carries credentials.
        StoreError: if the region of a bucket cannot be found out.
    """
    from pyarrow import ArrowException, fs

    check_uri(uri)
    try:
        system, path = fs.FileSystem.from_uri(uri)
    except OSError as error:
        raise refusal(uri, error) from error
    except (ArrowException, ValueError, ImportError, NotImplementedError) as error:
        advice = "such as s3://bucket/runs?region=eu-west-1, gs://bucket/runs, file:///mnt/shared/runs"
        raise BadInput(Problem(uri, f"is no place for a store ({error})", advice=advice)) from error
    if system.type_name == "s3":
        options: Any = system.__reduce__()[1][0]  # what the URI said; timeouts cannot stand in it
        options |= {"connect_timeout": CONNECT_S, "request_timeout": SILENT_S, "allow_delayed_open": True}
        # two, since the first tells a clock that is wrong: the SDK signs the second by the server's
        system = fs.S3FileSystem(**options, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2))
    elif system.type_name == "gcs":
        options = system.__reduce__()[1][0]
        system = fs.GcsFileSystem(**{**options, "retry_time_limit": timedelta(seconds=SILENT_S)})
    atexit.register(_calls.end)  # after pyarrow registered its finaliser, so it runs before that
    return system, path.rstrip("/")


class _Calls:
    """Requests under way, of all threads: a daemon thread may be in one when the interpreter ends."""

    def __init__(self) -> None:
        self._count = 0
        self._ended = False
        self._change = threading.Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        with self._change:
            if self._ended:
                raise StoreError(Problem("store", "this process is ending"))
            self._count += 1
        try:
            yield
        finally:
            with self._change:
                self._count -= 1
                self._change.notify_all()

    def end(self) -> None:
        with self._change:
            self._ended = True
            self._change.wait_for(lambda: self._count == 0, AT_EXIT_S)


_calls = _Calls()


@contextmanager
def request(uri: str) -> Iterator[None]:
    """Make one request inside the block.

    Raises:
        FileNotFoundError: as it is.
        StoreError: for whatever else the store refused; ``Unreachable`` if it may come back.
    """
    with _calls.one():
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise refusal(uri, error) from error
