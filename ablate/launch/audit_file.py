"""One file with what an audit ran on and what it gave, for another machine or version to be held against.

A safetensors file: ``<trial>|weights`` (the bytes of the file of initial weights), ``<trial>|batch...`` and
``<trial>|value...`` for every trial, and in its metadata the study, the machine and a sha256 over all of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from ablate.design.spec import GridSpec
from ablate.errors import BadInput, Problem
from ablate.launch.inputs import Inputs
from ablate.record.disk import store_io

FORMAT = 1
MACHINE = ("host", "cpu_model", "capability", "gpu", "python", "torch", "numpy", "ablate")

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class AuditFile:
    """A file that was read and checked.

    Attributes:
        path: the file.
        trainable: import path of what was audited.
        settings: trial key -> settings of the trainable.
        batches: how many batches were audited.
        machine: column of ``trials`` -> value where it was made.
        values: trial key -> its values.
        inputs: what it ran on, unpacked.
    """

    path: Path
    trainable: str
    settings: Mapping[str, Any]
    batches: int
    machine: Mapping[str, Any]
    values: Mapping[str, Arrays]
    inputs: Inputs


def write_audit_file(
    path: Path,
    grid: GridSpec,
    settings: Mapping[str, Any],
    machine: Mapping[str, Any],
    kept: Mapping[str, Path],
    weights: Mapping[str, Path],
) -> None:
    """Write the file.

    Args:
        path: of the file; one that is there is replaced.
        grid: the study that was audited.
        settings: trial key -> settings of the trainable.
        machine: a row of ``trials``.
        kept: trial key -> file that the trial wrote.
        weights: trial key -> file of its initial weights, named by its sha256.

    Raises:
        StoreError: the disk is full or fails.
    """
    tensors: Arrays = {}
    for key, file in kept.items():
        tensors |= {f"{key}|{name}": array for name, array in load_file(file).items()}
    for key, file in weights.items():
        tensors[f"{key}|weights"] = np.frombuffer(file.read_bytes(), dtype=np.uint8)
    about = {
        "format": FORMAT,
        "study": grid.study,
        "trainable": grid.trainable,
        "batches": grid.batches,
        "settings": dict(settings),
        "machine": {name: machine.get(name) for name in MACHINE},
    }
    with store_io(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path, {"about": json.dumps(about, sort_keys=True), "sha256": _digest(about, tensors)})


def read_audit_file(path: Path, folder: Path) -> AuditFile:
    """Read a file, check its hash and unpack its inputs into ``folder``.

    Raises:
        BadInput: it is not there, none of ours, or damaged.
    """
    if not path.is_file():
        raise BadInput(
            Problem(str(path), "is not there", advice="Make it where the arithmetic is trusted: --save FILE")
        )
    try:
        with safe_open(path, "np") as opened:
            metadata = opened.metadata() or {}
        tensors = load_file(path)
    except SafetensorError as error:
        raise BadInput(Problem(str(path), f"is no file that --save wrote ({error})")) from error
    try:
        about = json.loads(metadata["about"])
        digest = metadata["sha256"]
    except (KeyError, ValueError) as error:
        raise BadInput(Problem(str(path), "is no file that --save wrote")) from error
    if about.get("format") != FORMAT:
        raise BadInput(Problem(str(path), f"has format {about.get('format')}", str(FORMAT)))
    if _digest(about, tensors) != digest:
        raise BadInput(Problem(str(path), "is damaged: its contents are not those it was written with"))
    by_key: dict[str, Arrays] = {key: {} for key in about["settings"]}
    for name, array in tensors.items():
        key, _, rest = name.rpartition("|")
        by_key[key][rest] = array
    return AuditFile(
        path=path,
        trainable=about["trainable"],
        settings=about["settings"],
        batches=about["batches"],
        machine=about["machine"],
        values={key: _under("value.", found) for key, found in by_key.items()},
        inputs=_unpacked(by_key, folder),
    )


def values_of(file: Path) -> Arrays:
    """Return the values in a file that a trial wrote."""
    return _under("value.", load_file(file))


def weights_named_in(file: Path) -> str:
    """Return the sha256 of the initial weights that a trial's file names; empty if it had none."""
    with safe_open(file, "np") as opened:
        return str((opened.metadata() or {}).get("weights", ""))


def _unpacked(by_key: Mapping[str, Arrays], folder: Path) -> Inputs:
    weights, batches = {}, {}
    for number, (key, found) in enumerate(by_key.items()):
        if "weights" in found:
            content = found["weights"].tobytes()
            weights[key] = folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
            weights[key].write_bytes(content)
        batches[key] = folder / f"batches-{number}.safetensors"
        save_file({name: array for name, array in found.items() if name.startswith("batch.")}, batches[key])
    return Inputs(weights, batches)


def _under(prefix: str, found: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in found.items() if name.startswith(prefix)}


def _digest(about: Mapping[str, Any], tensors: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name}|{array.dtype}|{array.shape}|".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
