"""Rows of audits, trials that they belong to, and arms whose trials record them."""

import pyarrow as pa
from synthetic import Told, arm, audit, block_losses, clean, generator

from ablate.record.schema import audits_schema
from analysis.folded_audits import audit_rows
from analysis.pairing import Match
from analysis.trials import Trial

ARMS = {"plain": arm(), "changed": arm(way=2), "again": arm(2, "plain"), "nudged": arm(6, "plain", "one-ulp")}
GRADIENT = {"check": "distance", "quantity": "gradient", "name": "conv1.weight", "batch_index": 0}
BUG = {"verdict": "bug", "error": 0.02, "own_error": 0.02, "own_bound": 1e-14}


def rows(columns, trial="t1", arm="a", block=0, attempt=1):
    return list(audit_rows([table(who(columns, trial, arm, block, attempt))]))


def who(columns, trial="t1", arm="a", block=0, attempt=1):
    return [{"trial_id": trial, "arm": arm, "block": block, "attempt": attempt} | row for row in columns]


def table(found):
    """Return rows of ``audits`` as a table."""
    return pa.Table.from_pylist(found, schema=audits_schema({}))


def trial(name="t1", arm="a", block=0, status="done", **hashes):
    return Trial(name, arm, block, status=status, hashes={"initial_hash": "w", **hashes})


def pair(mine, theirs, **hashes):
    matches = [Match(0, trial(), trial("t2", "b", **hashes))]
    return matches, {"t1": rows(mine), "t2": rows(theirs, "t2", "b")}


def parted(trial, size=1e-3):
    """Losses of a trial: those of its block, and for an arm that differs by noise from batch 3 on."""
    losses = block_losses(trial.block)
    if trial.arm not in ("plain", "again"):
        losses[3:] *= (
            1 + (1e-4 if trial.arm == "nudged" else size) * generator(trial.arm, trial.block).standard_normal()
        )
    return losses


def teller(rows=None, losses=parted, **hashes):
    """Tell trials of which the changed arm's audit is ``rows``; all others are audited and clean."""

    def tell(trial):
        own = audit() if rows is None or trial.arm != "changed" else rows
        told = hashes if trial.arm == "changed" else {}
        return Told(losses(trial), audits=[*(clean(batch) for batch in (0, 1, 2, 50)), *own], hashes=told)

    return tell
