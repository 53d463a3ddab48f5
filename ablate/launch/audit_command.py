"""What ``ablate audit`` does from grid to exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from ablate.design.trial_spec import TrialSpec
from ablate.errors import BadInput, Problem, TrialsFailed, nearest
from ablate.launch.audit import audit, cut_down
from ablate.launch.audit_against import Compared, compare
from ablate.launch.audit_difference import first_difference
from ablate.launch.audit_file import AuditFile, read_audit_file, values_of, weights_named_in, write_audit_file
from ablate.launch.failures import problems
from ablate.launch.inputs import trial_key
from ablate.launch.study import Study, read_study
from ablate.record.reader import Run
from ablate.terminal import emit, make_console
from ablate.trial.task import TrialEnd

FAULT = 5
"""Exit code for BUG and CONFOUNDED."""


def run_audit(grid: Path, runs: Path, save: Path | None, against: Path | None, as_json: bool) -> int:
    """Audit a grid on this machine, print what was found and return the exit code.

    Args:
        grid: the grid file.
        runs: folder of all runs; the audit is recorded in ``<study>.audit`` there.
        save: file to write inputs and values to.
        against: file to take inputs from and to compare values with.
        as_json: print JSON.

    Raises:
        BadInput, UnmetPlacement, StoreError: as a launch, or for the file.
        TrialsFailed: an arm could not be run.
    """
    study = read_study(grid)
    root = runs / f"{study.grid.study}.audit"
    with TemporaryDirectory(prefix="ablate-audit-") as folder:
        file = read_audit_file(against, Path(folder)) if against else None
        keep = Path(folder) / "kept"
        keep.mkdir()
        small = cut_down(study, file.inputs if file else None, keep)
        if file:
            _same_study(small, file)
        launched = audit(small, root, make_console(stderr=True))
        if launched.failed:
            failed = _in_the_study(launched.failed, small, study)
            raise TrialsFailed(*problems(failed, launched.ran, str(root), f"ablate trial {grid}"))
        kept = {
            trial_key(spec): path for spec in small.specs if (path := keep / f"{spec.trial_id}.safetensors").exists()
        }
        compared = _compare(small, file, kept) if file else []
        if save:
            _save(save, small, Run(root), kept)
        return _told(Run(root), compared, file, _differences(small, kept, Run(root)), as_json)


def _in_the_study(failed: Sequence[TrialEnd], small: Study, study: Study) -> list[TrialEnd]:
    """Return failures under the ids of the study's own trials, which `ablate trial` knows: an audit's are shorter."""
    block = min(study.grid.blocks)
    own = {trial_key(spec): spec.trial_id for spec in study.specs if spec.block == block}
    ids = {spec.trial_id: own[trial_key(spec)] for spec in small.specs}
    return [end.model_copy(update={"trial_id": ids[end.trial_id]}) for end in failed]


def _told(
    run: Run, compared: list[Compared], file: AuditFile | None, differences: dict[str, str], as_json: bool
) -> int:
    from analysis.audit_report import FAULTS, audit_report
    from analysis.audit_text import print_audit

    report = audit_report(run, differences)
    lines = [f"{one.trial}: {one.cause}: {one.detail}" for one in compared]
    if file:
        elsewhere = ", ".join(str(value) for value in file.machine.values() if value)
        lines.insert(0, f"made on {elsewhere}")
        lines += [f"own data differ: {row['detail']}" for row in _own_inputs(run)]
    content = {**report.to_json(), "against": [asdict(one) for one in compared] if file else None}
    emit(content, as_json, lambda console: print_audit(report, console, lines))
    causes = {report.cause, *(one.cause for one in compared), *(one.cause for one in report.arms)}
    causes |= {one.cause for one in report.contrasts}
    return FAULT if causes & set(FAULTS) or (file and _own_inputs(run)) else 0


def _same_study(study: Study, file: AuditFile) -> None:
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


def _differences(study: Study, kept: dict[str, Path], run: Run) -> dict[str, str]:
    """Return the label of each contrast of two arms whose inputs differ, with the first difference."""
    found: dict[str, str] = {}
    by_cell = {(spec.arm, json.dumps(spec.factors, sort_keys=True)): trial_key(spec) for spec in study.specs}
    for contrast in study.grid.contrasts:
        for cell in sorted({cell for _, cell in by_cell}):
            keys = [by_cell.get((arm, cell), "") for arm in contrast.arms or ()]
            if len(keys) == 2 and all(key in kept for key in keys):
                files = kept[keys[0]], kept[keys[1]]
                one, two = (
                    run.paths.initial_weights(sha) if (sha := weights_named_in(file)) else None for file in files
                )
                assert contrast.arms is not None, "it has two keys"
                if words := first_difference(contrast.arms, files, (one, two)):
                    found.setdefault(contrast.label, words)
    return found


def _own_inputs(run: Run) -> list[dict[str, str]]:
    return [row for row in run.audits().to_pylist() if row["check"] == "inputs"]


def _compare(study: Study, file: AuditFile, kept: dict[str, Path]) -> list[Compared]:
    return [
        compare(_name(spec), values_of(kept[key]), file.values[key])
        for spec in sorted(study.specs, key=lambda spec: spec.arm)
        if (key := trial_key(spec)) in kept and key in file.values
    ]


def _name(spec: TrialSpec) -> str:
    return ", ".join([spec.arm, *(f"{name} {level}" for name, level in spec.factors.items())])


def _save(path: Path, study: Study, run: Run, kept: dict[str, Path]) -> None:
    weights = {key: run.paths.initial_weights(sha) for key, file in kept.items() if (sha := weights_named_in(file))}
    settings = {trial_key(spec): spec.settings for spec in study.specs if trial_key(spec) in kept}
    write_audit_file(path, study.grid, settings, run.trials().to_pylist()[0], kept, weights)
