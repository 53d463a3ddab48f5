"""Where a store is, written as a URI, and which folder of this machine holds its files meanwhile."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from ablate.errors import BadInput, Problem

_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_BROKEN = re.compile(r"^(s3|gs|gcs|hdfs|abfss?|file):/[^/]")


def is_uri(text: object) -> bool:
    """Say whether ``text`` names a place by a URI such as ``s3://bucket/runs``, and not a folder of this machine."""
    return bool(_URI.match(str(text)))


def check_uri(uri: str) -> str:
    """Return ``uri`` if it may be written into tasks and messages.

    Raises:
        BadInput: if it carries credentials.
    """
    parts = urlsplit(uri)
    if parts.username or parts.password:
        shown = f"{parts.scheme}://...@{parts.netloc.rpartition('@')[2]}{parts.path}"
        advice = "give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile, on every node"
        found = "holds credentials, which would be printed and sent to every node"
        raise BadInput(Problem(shown, found, advice=advice))
    return uri


def refuse_uri(path: Path) -> Path:
    """Return ``path``, unless it is what is left of a URI after it was taken for a path.

    Raises:
        BadInput: for ``s3:/bucket`` and its like.
    """
    if _BROKEN.match(str(path)):
        advice = "only `ablate launch` and commands that read one run take a URI"
        raise BadInput(Problem(str(path).replace(":/", "://", 1), "is no folder of this machine", advice=advice))
    return path


def child(uri: str, name: str) -> str:
    """Return the URI of ``name`` below ``uri``; options after ``?`` stay at the end."""
    base, mark, options = uri.partition("?")
    return f"{base.rstrip('/')}/{name}{mark}{options}"


def within(runs: str, study: str) -> Path | str:
    """Return where a study's store is: a folder, or a URI if ``runs`` is one."""
    return child(runs, study) if is_uri(runs) else Path(runs) / study


def name_of(uri: str) -> str:
    """Return the last name of a URI's path: a store's study."""
    return uri.partition("?")[0].rstrip("/").rpartition("/")[2]


def parent(uri: str) -> str:
    """Return the URI of the folder that ``uri`` lies in."""
    base, mark, options = uri.partition("?")
    return f"{base.rstrip('/').rpartition('/')[0]}{mark}{options}"


def working_copy(uri: str) -> Path:
    """Return the folder of the files that a launch, or a node's trials, write for the store at ``uri``."""
    return _cache() / "stores" / _key(uri)


def reading_copy(uri: str) -> Path:
    """Return the folder that readers of the store at ``uri`` fetch into; a launch never writes there."""
    return _cache() / "reading" / _key(uri)


def _key(uri: str) -> str:
    base, _, options = uri.partition("?")
    text = "?".join([base.rstrip("/"), *sorted(options.split("&"))])
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}-{name_of(uri)}"


def _cache() -> Path:
    """Return the folder that the trainables' data are cached in too (``trainables/cache.py``)."""
    if given := os.environ.get("ABLATE_CACHE"):
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ablate"
