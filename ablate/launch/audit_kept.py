"""What an audit's trials kept of their inputs and values: compared arm with arm, and with a file from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ablate.design.spec import Contrast
from ablate.design.trial_spec import TrialSpec
from ablate.errors import BadInput, Problem, nearest
from ablate.launch.audit_against import Compared, compare, same_bits
from ablate.launch.audit_difference import first_difference
from ablate.launch.audit_file import AuditFile, values_of, weights_named_in, write_audit_file
from ablate.launch.inputs import trial_key
from ablate.launch.study import Study
from ablate.record.reader import Run
from ablate.trial.task import TrialEnd


class KeptFiles:
    """The files of one audit.

    Args:
        study: as it was audited.
        folder: where the trials wrote them.
        run: the store.
    """

    def __init__(self, study: Study, folder: Path, run: Run) -> None:
        self._study = study
        self._run = run
        files = {trial_key(spec): folder / f"{spec.trial_id}.safetensors" for spec in study.specs}
        self._files = {key: file for key, file in files.items() if file.exists()}

    def differs(self, contrast: Contrast) -> str:
        """Return the first element of weights or data in which two arms differ, in words; empty if there is none."""

        def look(names: tuple[str, str], one: Path, two: Path) -> str:
            return first_difference(names, (one, two), (self._weights(one), self._weights(two)))

        return self._first(contrast, look)

    def unequal(self, contrast: Contrast) -> str:
        """Return a value of the first batch whose bits differ between two arms, in words; empty if there is none."""

        def look(names: tuple[str, str], one: Path, two: Path) -> str:
            a, b = values_of(one), values_of(two)
            differing = (
                name for name in a if name.endswith(".arm") and not (name in b and same_bits(a[name], b[name]))
            )
            quantity, _, name = next(differing, "").removesuffix(".arm").partition(".")
            return f"the {quantity} of {name}" if quantity else ""

        return self._first(contrast, look)

    def against(self, file: AuditFile) -> list[Compared]:
        """Compare every trial with the same one of a file, by arm."""
        return [
            compare(_name(spec), values_of(self._files[key]), file.values[key])
            for spec in sorted(self._study.specs, key=lambda spec: spec.arm)
            if (key := trial_key(spec)) in self._files and key in file.values
        ]

    def save(self, path: Path) -> None:
        """Write the file for another machine.

        Raises:
            StoreError: the disk is full or fails.
        """
        weights = {key: found for key, file in self._files.items() if (found := self._weights(file))}
        settings = {trial_key(spec): spec.settings for spec in self._study.specs if trial_key(spec) in self._files}
        machine = self._run.trials().to_pylist()[0]
        write_audit_file(path, self._study.grid, settings, machine, self._files, weights)

    def _first(self, contrast: Contrast, look: Callable[[tuple[str, str], Path, Path], str]) -> str:
        return next(filter(None, (look(*pair) for pair in self._pairs(contrast))), "")

    def _pairs(self, contrast: Contrast) -> Iterator[tuple[tuple[str, str], Path, Path]]:
        """Yield the names and files of two arms under each combination of levels that both have."""
        if contrast.arms is None:
            return
        reference, other = contrast.arms
        for spec in self._study.specs:
            one, two = (trial_key(spec.model_copy(update={"arm": arm})) for arm in contrast.arms)
            if spec.arm == reference and one in self._files and two in self._files:
                yield (reference, other), self._files[one], self._files[two]

    def _weights(self, file: Path) -> Path | None:
        sha = weights_named_in(file)
        return self._run.paths.initial_weights(sha) if sha else None


def check_same_study(study: Study, file: AuditFile) -> None:
    """Refuse a file of something else.

    Raises:
        BadInput: another trainable or number of batches, no arm in common, or one with other settings.
    """
    where, keys = str(file.path), {trial_key(spec): spec for spec in study.specs}
    if study.grid.trainable != file.trainable:
        raise BadInput(Problem(where, f"is of {file.trainable}, the grid of {study.grid.trainable}"))
    if study.grid.batches != file.batches:
        advice = "give the grid the same `audit:` as when the file was written"
        raise BadInput(
            Problem(where, f"holds {file.batches} batches, the grid audits {study.grid.batches}", advice=advice)
        )
    if missing := [key for key in keys if key not in file.settings]:
        known = ", ".join(file.settings)
        advice = "write the file anew, or leave this arm out of the grid"
        raise BadInput(Problem(where, f"has no trial {missing[0]}", known, nearest(missing[0], file.settings), advice))
    for key, spec in keys.items():
        if json.dumps(spec.settings, sort_keys=True) != json.dumps(file.settings[key], sort_keys=True):
            raise BadInput(Problem(where, f"trial {key} had settings {file.settings[key]}, now {spec.settings}"))


def in_the_study(failed: Sequence[TrialEnd], small: Study, study: Study) -> list[TrialEnd]:
    """Return failures under the ids of the study's own trials, which `ablate trial` knows: an audit's are shorter."""
    block = min(study.grid.blocks)
    own = {trial_key(spec): spec.trial_id for spec in study.specs if spec.block == block}
    ids = {spec.trial_id: own[trial_key(spec)] for spec in small.specs}
    return [end.model_copy(update={"trial_id": ids[end.trial_id]}) for end in failed]


def _name(spec: TrialSpec) -> str:
    return ", ".join([spec.arm, *(f"{name} {level}" for name, level in spec.factors.items())])
