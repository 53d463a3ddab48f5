"""Integrity checks of a store, by stable codes."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.errors import StoreError
from ablate.record.check_artifacts import artifacts
from ablate.record.check_pairing import mixed_code, moved, pairing
from ablate.record.check_probes import probes
from ablate.record.check_rows import duplicates_and_gaps, repeated_attempts, trials_and_batches
from ablate.record.check_sketches import sketches
from ablate.record.finding import Finding
from ablate.record.lock import holder, is_held
from ablate.record.parquet import read_head
from ablate.record.reader import Run
from ablate.record.schema import SCHEMA_VERSION, SPEC_KEY, VERSION_KEY

CODES = {
    "C0": "a file cannot be read",
    "C1": "a batch is recorded twice",
    "C2": "a batch is missing",
    "C3": "a trial has another number of batches than recorded or planned",
    "C4": "batches belong to no finished trial",
    "C5": "arms of a block differ before any arithmetic",
    "C6": "attempts at one trial differ bit for bit",
    "C7": "files of an unfinished attempt or write",
    "C8": "a file belongs to another grid or schema",
    "C9": "trials were run by different code",
    "C10": "an artifact is missing, damaged or there twice",
    "C11": "a sketch of the parameters is missing, damaged or there twice",
    "C12": "a trial was continued on another machine",
    "C13": "a value that a probe found is there twice or belongs to no trial",
    "C14": "probes looked at different data, or at the model in different modes",
}


def check(run: Run) -> list[Finding]:
    """Look for everything in a store that could make a conclusion wrong.

    Returns:
        Errors first, then notes, each by code; empty if all is well.
    """
    writing = is_held(run.paths.lock)
    findings: list[Finding] = []
    try:
        findings += leftovers(run, writing=writing)
        findings += foreign_files(run)
        findings += duplicates_and_gaps(run)
        trials = {row["trial_id"]: row for row in run.trials().to_pylist()}
        findings += trials_and_batches(run, trials, writing=writing)
        findings += repeated_attempts(run)
        findings += pairing(run, trials)
        findings += mixed_code(trials)
        findings += moved(trials)
        findings += artifacts(run)
        findings += sketches(run, trials)
        findings += probes(run, trials, writing=writing)
    except StoreError as error:
        for problem in error.problems:
            findings.append(Finding("C0", "error", problem.where, problem.found, problem.advice))
    return sorted(findings, key=lambda finding: (finding.severity, finding.code, finding.where))


def leftovers(run: Run, *, writing: bool) -> Iterator[Finding]:
    """C7: temporary or journal files although nobody is writing."""
    if writing:
        yield Finding("C7", "note", str(run.paths.root), f"is being written by {holder(run.paths.lock)}")
        return
    for path in run.paths.temporaries():
        yield Finding("C7", "note", str(path), "left by a write that broke off", "`ablate launch` removes it")
    for trial_id, attempt in run.paths.journal_attempts():
        where = f"trial {trial_id}, attempt {attempt}"
        yield Finding("C7", "note", where, "is still in the journal", "`ablate launch` takes it in or runs it again")
    for trial_id, batches in run.paths.journal_probes():
        where = f"trial {trial_id}, probe after {batches} batches"
        yield Finding("C7", "note", where, "is still in the journal", "`ablate launch` takes it in or does it again")


def foreign_files(run: Run) -> Iterator[Finding]:
    """C8: a file of another schema, or of a grid that this store never belonged to."""
    known = {run.spec.hash, *run.spec.history}
    paths = run.paths
    folders = (paths.batches, paths.attempts, paths.audits, paths.artifacts, paths.sketches, paths.probes)
    heads = {part.path: part.metadata for folder in folders for part in run.parts(folder)}
    if run.paths.trials.exists():
        heads[run.paths.trials] = read_head(run.paths.trials)[1]
    for path, metadata in heads.items():
        version, spec = metadata.get(VERSION_KEY, b"").decode(), metadata.get(SPEC_KEY, b"").decode()
        if version != str(SCHEMA_VERSION):
            found = f"has store schema {version or 'none'}, not {SCHEMA_VERSION}"
            yield Finding("C8", "error", str(path), found, "was it copied here from another store?")
        elif spec not in known:
            found = f"belongs to another grid (hash {spec or 'none'}; this store's is {run.spec.hash})"
            yield Finding("C8", "error", str(path), found, "was it copied here from another store?")
