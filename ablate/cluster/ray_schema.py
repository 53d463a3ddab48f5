"""Ray's own schema of a `ray up` file, applied without importing Ray, and with lines and nearest names."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ablate.cluster.cluster_file import ClusterFile
from ablate.errors import Problem, nearest


def schema_problems(file: ClusterFile) -> list[Problem]:
    """Return where a file departs from the schema of the Ray that is installed."""
    validator = import_module("jsonschema").Draft7Validator(_schema())
    return [problem for error in validator.iter_errors(file.data) for problem in _problems(file, error)]


def _schema() -> dict[str, Any]:
    found = find_spec("ray")  # finds the package; nothing of it runs
    folders = found.submodule_search_locations if found else None
    if not folders:
        raise ModuleNotFoundError("ray")
    text = Path(folders[0], "autoscaler", "ray-schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _problems(file: ClusterFile, error: Any) -> list[Problem]:
    loc = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        known = sorted(error.schema["properties"])
        unknown = [key for key in error.instance if key not in known]
        return [
            file.problem((*loc, key), "no key that Ray knows here", ", ".join(known), nearest(str(key), known))
            for key in unknown
        ]
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        return [file.problem((*loc, key), "missing") for key in missing]
    return [file.problem(loc, error.message)]
