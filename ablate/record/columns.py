"""Names and types of the columns that a trial's process fills in.

Without pyarrow: importing it starts a thread (its allocator's), and a trial's process is forked from a server that must
have only one. ``schema`` turns the types into Arrow's.
"""

from __future__ import annotations

from typing import Literal, get_args

Status = Literal["done", "diverged", "failed"]
FailureKind = Literal["code", "infrastructure", "memory", "interrupted"]
STATUSES: tuple[str, ...] = get_args(Status)
FAILURE_KINDS: tuple[str, ...] = get_args(FailureKind)

TRIAL_COLUMNS: dict[str, str] = {
    "failure_kind": "string",
    "error": "string",
    "initial_hash": "string",
    "perturbation_hash": "string",
    "data_hash": "string",
    "order_hash": "string",
    "draw_hash": "string",
    "resumed_at": "int64",
    "moved_from": "string",
    "started_utc": "timestamp_utc",
    "wall_s": "float64",
    "cpu_s": "float64",
    "host": "string",
    "cpu_model": "string",
    "capability": "string",
    "threads_set": "int64",
    "threads_used": "int64",
    "onednn": "bool",
    "precision": "string",
    "deterministic": "bool",
    "device": "string",
    "workers": "int64",
    "worker_hosts": "string",
    "gpu": "string",
    "gpu_driver": "string",
    "cuda": "string",
    "cudnn": "bool",
    "cudnn_version": "string",
    "cudnn_benchmark": "bool",
    "tf32_matmul": "bool",
    "tf32_conv": "bool",
    "compiled_graphs": "int64",
    "graph_breaks": "int64",
    "python": "string",
    "torch": "string",
    "numpy": "string",
    "ablate": "string",
    "source_hash": "string",
    "git_commit": "string",
    "git_dirty": "bool",
    "git_diff": "string",
    "env": "string",
    "peak_memory_bytes": "int64",
    "gpu_peak_memory_bytes": "int64",
    "gpu_busy": "float64",
    "sketch_every": "int64",
}
"""Columns that an attempt's end may carry; ``env`` is JSON text. ``moved_from`` says which other machines computed the
batches before ``resumed_at``; none if one machine computed them all. Of several ``workers``, ``worker_hosts`` says in
order where each was, and ``cpu_s`` is what all of them used in a trial that is done; every other column of machine,
time and memory is the first one's."""

AUDIT_COLUMNS: dict[str, str] = {
    "batch_index": "int64",
    "check": "string",
    "verdict": "string",
    "count": "int64",
    "shape": "list_int64",
    "dtype": "string",
    "version_moved": "bool",
    "role": "string",
    "near": "string",
    "source": "string",
    "quantity": "string",
    "name": "string",
    "reference": "string",
    "error": "float64",
    "scale": "float64",
    "bound": "float64",
    "noise": "float64",
    "own_error": "float64",
    "own_bound": "float64",
    "roundoff": "float64",
    "anchor": "float64",
    "detail": "string",
}
"""Columns that one audit may carry. Distances (``error`` to ``anchor``) are Euclidean norms: see ``ablate.audit``."""

ArtifactKind = Literal["image", "map", "array", "histogram", "number"]

ARTIFACT_COLUMNS: dict[str, str] = {
    "batch_index": "int64",
    "name": "string",
    "kind": "string",
    "shape": "list_int64",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "counts": "list_int64",
    "file": "string",
    "sha256": "string",
}
"""Columns that one artifact may carry: a number its value, a histogram its range and counts, the others their file."""

SKETCH_COLUMNS: dict[str, str] = {"batch_index": "int64", "parameters": "int64", "values": "list_float64"}
"""Columns of one sketch: after which batch (-1: the initial weights), of how many numbers, and its 256 values, null
where a parameter was not finite. See ``ablate.record.sketch``."""

PROBE_COLUMNS: dict[str, str] = {
    "batches": "int64",
    "player": "string",
    "name": "string",
    "position": "int64",
    "value": "float64",
    "unit": "string",
    "bound": "float64",
    "converged": "bool",
    "method": "string",
    "text": "string",
    "points": "list_float64",
    "masses": "list_float64",
    "dtype": "string",
    "device": "string",
    "mode": "string",
    "seed": "int64",
    "products": "int64",
    "samples": "int64",
    "probe_hash": "string",
    "plan": "string",
}
"""Columns of one value that a probe of the curvature found. ``batches`` says after how many the snapshot was taken (0:
the initial weights), ``bound`` is a bound or a standard error as ``method`` says, ``points`` and ``masses`` are a
density or a surface, ``products`` the Hessian products of the whole probe, ``probe_hash`` names the data looked at,
``plan`` is how the grid asked to look, as JSON; null in rows from before it was recorded."""
