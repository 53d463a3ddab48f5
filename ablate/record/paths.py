"""Where everything in a store lies. No other module spells a file name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_ATTEMPT = re.compile(
    r"^(?P<trial>[A-Za-z0-9_]+)-(?P<attempt>[0-9]+)\.(?:rows|audits\.jsonl|artifacts\.jsonl|sketches\.jsonl|trial\.json|log)$"
)
_SNAPSHOT = re.compile(r"^(?P<trial>[A-Za-z0-9_]+)-(?P<batches>[0-9]+)(?P<kind>\.pt|\.probe\.jsonl)$")
_TEMPORARY = ".tmp"


class AttemptKey(NamedTuple):
    """A trial's id and the number of one attempt at it (from 1)."""

    trial_id: str
    attempt: int


class SnapshotKey(NamedTuple):
    """A trial's id and the number of batches that its weights had been trained on when they were kept."""

    trial_id: str
    batches: int


def temporary(path: Path) -> Path:
    """Return the name beside ``path`` under which it is written before it is renamed into place."""
    return path.with_name(path.name + _TEMPORARY)


@dataclass(frozen=True)
class StorePaths:
    """The files of the store at ``root``, which is usually ``runs/<study>``."""

    root: Path

    @property
    def grid_yaml(self) -> Path:
        """The grid file, byte for byte as it was given."""
        return self.root / "grid.yaml"

    @property
    def spec_json(self) -> Path:
        """The resolved grid, with the schema version."""
        return self.root / "spec.json"

    @property
    def lock(self) -> Path:
        """Held by the one process that may write Parquet here."""
        return self.root / "lock"

    @property
    def initial(self) -> Path:
        """Folder of initial weights and buffers."""
        return self.root / "initial"

    def initial_weights(self, sha256: str) -> Path:
        """Initial weights, named by their hash."""
        return self.initial / f"{sha256}.safetensors"

    @property
    def journal(self) -> Path:
        """Folder that the trials' processes write into."""
        return self.root / "journal"

    def rows(self, trial_id: str, attempt: int) -> Path:
        """One attempt's batches, a checksummed record each."""
        return self.journal / f"{trial_id}-{attempt}.rows"

    def audit_lines(self, trial_id: str, attempt: int) -> Path:
        """One attempt's audits, a JSON line each."""
        return self.journal / f"{trial_id}-{attempt}.audits.jsonl"

    def artifact_lines(self, trial_id: str, attempt: int) -> Path:
        """One attempt's artifacts, a JSON line each."""
        return self.journal / f"{trial_id}-{attempt}.artifacts.jsonl"

    def sketch_lines(self, trial_id: str, attempt: int) -> Path:
        """One attempt's sketches of its parameters, a JSON line each."""
        return self.journal / f"{trial_id}-{attempt}.sketches.jsonl"

    def trial_json(self, trial_id: str, attempt: int) -> Path:
        """One attempt's end; its presence acknowledges the attempt as over."""
        return self.journal / f"{trial_id}-{attempt}.trial.json"

    def log(self, trial_id: str, attempt: int) -> Path:
        """What one attempt's process printed."""
        return self.journal / f"{trial_id}-{attempt}.log"

    def kept_log(self, trial_id: str, attempt: int) -> Path:
        """Where the log of a failed attempt is kept."""
        return self.attempts / f"{trial_id}-{attempt}.log"

    def damaged_rows(self, trial_id: str, attempt: int) -> Path:
        """Where a journal with a corrupt row is kept."""
        return self.attempts / f"{trial_id}-{attempt}.rows.damaged"

    def journal_files(self, trial_id: str, attempt: int) -> tuple[Path, ...]:
        """All files that one attempt may have in the journal."""
        return (
            self.rows(trial_id, attempt),
            self.audit_lines(trial_id, attempt),
            self.artifact_lines(trial_id, attempt),
            self.sketch_lines(trial_id, attempt),
            self.trial_json(trial_id, attempt),
            self.log(trial_id, attempt),
        )

    @property
    def checkpoints(self) -> Path:
        """Folder of what unfinished long trials go on from."""
        return self.root / "checkpoints"

    def checkpoint(self, trial_id: str) -> Path:
        """One trial's checkpoint, written aside and renamed; the journals it counts on are linked beside it."""
        return self.checkpoints / trial_id / "state.pt"

    def checkpoint_rows(self, trial_id: str, attempt: int) -> Path:
        """The journal of the attempt that a checkpoint was made by, kept from deletion by a hard link."""
        return self.checkpoints / trial_id / f"{attempt}.rows"

    def checkpoint_audits(self, trial_id: str, attempt: int) -> Path:
        """The audits of the attempt that a checkpoint was made by."""
        return self.checkpoints / trial_id / f"{attempt}.audits.jsonl"

    def checkpoint_artifacts(self, trial_id: str, attempt: int) -> Path:
        """The artifacts of the attempt that a checkpoint was made by."""
        return self.checkpoints / trial_id / f"{attempt}.artifacts.jsonl"

    def checkpoint_sketches(self, trial_id: str, attempt: int) -> Path:
        """The sketches of the attempt that a checkpoint was made by."""
        return self.checkpoints / trial_id / f"{attempt}.sketches.jsonl"

    @property
    def batches(self) -> Path:
        """Data set of batches: one row per trial and batch."""
        return self.root / "batches"

    @property
    def trials(self) -> Path:
        """The table of trials."""
        return self.root / "trials" / "trials.parquet"

    @property
    def audits(self) -> Path:
        """Data set of audits."""
        return self.root / "audits"

    @property
    def artifacts(self) -> Path:
        """Data set of artifacts: numbers and histograms, and in which file images and arrays are."""
        return self.root / "artifacts"

    @property
    def artifact_files(self) -> Path:
        """Folder of images and arrays: beside the data set and not in it, so that any tool can read that."""
        return self.root / "artifact_files"

    def artifact_file(self, trial_id: str, attempt: int, batch_index: int) -> Path:
        """Images and arrays of one batch of one attempt."""
        return self.artifact_files / f"{trial_id}-{attempt}-{batch_index}.npz"

    def artifact_files_of(self, trial_id: str) -> list[Path]:
        """All of a trial's files, of every attempt."""
        return sorted(self.artifact_files.glob(f"{trial_id}-*.npz"))

    @property
    def sketches(self) -> Path:
        """Data set of sketches: 256 numbers per trial and batch, from which distances of parameters are estimated."""
        return self.root / "sketches"

    @property
    def snapshots(self) -> Path:
        """Folder of weights kept for probes of the curvature, and of the directions that probes found."""
        return self.root / "snapshots"

    def snapshot(self, trial_id: str, batches: int) -> Path:
        """A trial's weights after so many batches (0: before the first), written aside and renamed."""
        return self.snapshots / f"{trial_id}-{batches}.pt"

    def directions(self, trial_id: str, batches: int) -> Path:
        """Extreme eigenvectors that the probe of that snapshot found."""
        return self.snapshots / f"{trial_id}-{batches}.directions.pt"

    def probe_lines(self, trial_id: str, batches: int) -> Path:
        """What the probe of a snapshot found, a JSON line a row; written aside and renamed: being there is done."""
        return self.journal / f"{trial_id}-{batches}.probe.jsonl"

    def probe_log(self, trial_id: str) -> Path:
        """What a trial's probe printed; deleted when it is done."""
        return self.journal / f"{trial_id}.probe.log"

    @property
    def probes(self) -> Path:
        """Data set of probes: one row for every named value of a snapshot's curvature."""
        return self.root / "probes"

    @property
    def attempts(self) -> Path:
        """Data set of batches from attempts that failed or were superseded, and their logs."""
        return self.root / "attempts"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Every folder a store has."""
        return (
            self.journal,
            self.initial,
            self.checkpoints,
            self.batches,
            self.trials.parent,
            self.audits,
            self.artifacts,
            self.artifact_files,
            self.sketches,
            self.snapshots,
            self.probes,
            self.attempts,
            self.diffs,
        )

    @property
    def diffs(self) -> Path:
        """Folder of what had been changed since the commit that trials ran from."""
        return self.root / "diffs"

    def diff(self, name: str) -> Path:
        """One such diff, named by its content."""
        return self.diffs / f"{name}.diff"

    @property
    def report(self) -> Path:
        """The page that ``ablate report`` writes: made from the data sets, part of none, safe to delete."""
        return self.root / "report.html"

    @property
    def reproductions(self) -> Path:
        """Folder of minimal reproductions of the faults that audits found."""
        return self.root / "reproductions"

    def reproductions_of(self, trial_id: str) -> list[Path]:
        """A trial's reproductions, of every attempt."""
        return sorted(self.reproductions.glob(f"*-{trial_id}-batch*.py"))

    @property
    def pictures(self) -> Path:
        """What ``ablate show`` drew: made from the data sets, part of none, safe to delete."""
        return self.root / "pictures"

    def picture(self, batch_index: int, block: int) -> Path:
        """The picture of one batch in one block."""
        return self.pictures / f"batch-{batch_index}-block-{block}.png"

    @property
    def names(self) -> frozenset[str]:
        """Everything that may lie directly in a store's folder."""
        files = (self.grid_yaml, self.spec_json, self.lock, self.report)
        folders = (*self.folders, self.pictures, self.reproductions)
        return frozenset(p.name for p in (*files, *folders)) | {temporary(p).name for p in files}

    def part(self, folder: Path, digest: str) -> Path:
        """A part of a data set, named by its content."""
        return folder / f"part-{digest}.parquet"

    def parts(self, folder: Path) -> list[Path]:
        """The parts of a data set, by name; none if the folder is not there."""
        return sorted(folder.glob("part-*.parquet"))

    def temporaries(self) -> list[Path]:
        """Files that a process which died was still writing aside."""
        return sorted(p for folder in (self.root, *self.folders) for p in folder.glob("*" + _TEMPORARY))

    def journal_attempts(self) -> list[AttemptKey]:
        """Attempts that have any file in the journal, a trial's attempts in order."""
        return self._attempts_in(self.journal)

    def logged_attempts(self) -> list[AttemptKey]:
        """Failed attempts whose log was kept."""
        return self._attempts_in(self.attempts)

    def _attempts_in(self, folder: Path) -> list[AttemptKey]:
        return self.attempts_named(p.name for p in folder.glob("*-*.*"))

    def kept_snapshots(self) -> set[SnapshotKey]:
        """Snapshots that lie here."""
        return self.snapshots_named(p.name for p in self.snapshots.glob("*-*.pt"))

    def journal_probes(self) -> list[SnapshotKey]:
        """Snapshots whose probe is done and still in the journal, a trial's in order."""
        return self.probes_named(p.name for p in self.journal.glob("*-*.probe.jsonl"))

    @staticmethod
    def snapshots_named(names: Iterable[str]) -> set[SnapshotKey]:
        """Return the snapshots that files of these names are."""
        matches = map(_SNAPSHOT.match, names)
        return {SnapshotKey(m["trial"], int(m["batches"])) for m in matches if m and m["kind"] == ".pt"}

    @staticmethod
    def probes_named(names: Iterable[str]) -> list[SnapshotKey]:
        """Return the snapshots whose probe's lines files of these names are, a trial's in order."""
        matches = map(_SNAPSHOT.match, names)
        return sorted({SnapshotKey(m["trial"], int(m["batches"])) for m in matches if m and m["kind"] != ".pt"})

    @staticmethod
    def attempts_named(names: Iterable[str]) -> list[AttemptKey]:
        """Return the attempts that journal files of these names belong to, a trial's attempts in order."""
        matches = map(_ATTEMPT.match, names)
        return sorted({AttemptKey(m["trial"], int(m["attempt"])) for m in matches if m})
