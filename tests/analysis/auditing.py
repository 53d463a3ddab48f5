"""Rows of audits, and trials that they belong to, for tests that need no store."""

import pyarrow as pa

from ablate.record.schema import audits_schema
from analysis.folded_audits import audit_rows
from analysis.pairing import Match
from analysis.trials import Trial

GRADIENT = {"check": "distance", "quantity": "gradient", "name": "conv1.weight", "batch_index": 0}


def rows(columns, trial="t1", arm="a", block=0, attempt=1):
    return list(audit_rows(*tables(who(columns, trial, arm, block, attempt))))


def who(columns, trial="t1", arm="a", block=0, attempt=1):
    return [{"trial_id": trial, "arm": arm, "block": block, "attempt": attempt} | row for row in columns]


def tables(found):
    """Return the two tables that ``audit_rows`` takes: what was quiet, and the rest."""
    schema = audits_schema({})
    quiet = [row for row in found if (row["check"], row.get("verdict")) == ("saved_tensors", "clean")]
    others = [row for row in found if row not in quiet]
    return [pa.Table.from_pylist(some, schema=schema) for some in (quiet, others)]


def trial(name="t1", arm="a", block=0, status="done", **hashes):
    return Trial(name, arm, block, status=status, hashes={"initial_hash": "w", **hashes})


def pair(mine, theirs, **hashes):
    matches = [Match(0, trial(), trial("t2", "b", **hashes))]
    return matches, {"t1": rows(mine), "t2": rows(theirs, "t2", "b")}
