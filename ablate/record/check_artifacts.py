"""Integrity of artifacts: each is there once, and its file holds what the trial wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ablate.record.artifact_file import file_digest
from ablate.record.finding import Finding
from ablate.record.reader import Run

_ADVICE = "restore it from a copy; without it `ablate show` lacks a picture, and no loss or verdict changes"


def artifacts(run: Run) -> Iterator[Finding]:
    """C10: a file of images or arrays is missing or damaged, or an artifact is there twice."""
    rows = run.artifacts(["trial_id", "batch_index", "name", "file", "sha256"]).to_pylist()
    for (trial_id, batch, name), count in Counter((r["trial_id"], r["batch_index"], r["name"]) for r in rows).items():
        if count > 1:
            where = f"trial {trial_id}, batch {batch}, artifact {name}"
            yield Finding("C10", "error", where, f"is there {count} times", "restore the data set from a copy")
    for file, digest in {row["file"]: row["sha256"] for row in rows if row["file"] is not None}.items():
        path = run.paths.artifact_files / file
        try:
            found = "" if file_digest(path) == digest else "is damaged: its content is not what the trial wrote"
        except FileNotFoundError:
            found = "is missing"
        except OSError as error:
            found = f"cannot be read ({error.strerror})"
        if found:
            yield Finding("C10", "error", str(path), found, _ADVICE)
