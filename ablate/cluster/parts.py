"""Parts of a cluster's configuration that must be mappings or counts, read with a problem where they are not."""

from __future__ import annotations

from typing import Any

from ablate.cluster.cluster_file import ClusterFile
from ablate.design.validation import describe
from ablate.design.yaml_source import Loc
from ablate.errors import Problem

_MISSING: Any = object()


def find(file: ClusterFile, loc: Loc) -> Any:
    """Return what stands at a key path, or None."""
    found = _look_up(file.data, loc)
    return None if found is _MISSING else found


def mapping(file: ClusterFile, loc: Loc, problems: list[Problem], of: str) -> dict[str, Any]:
    """Return the mapping at a key path; an empty one, and a problem, where there is none.

    Args:
        file: the file.
        loc: the key path.
        problems: what is wrong is added here.
        of: what the mapping holds, for the message.
    """
    value = _look_up(file.data, loc)
    if isinstance(value, dict):
        return {str(key): part for key, part in value.items()}
    problems.append(
        file.problem(loc, "missing" if value is _MISSING else f"found {describe(value)}", f"a mapping of {of}")
    )
    return {}


def whole(file: ClusterFile, loc: Loc, problems: list[Problem], default: int | None = None) -> int:
    """Return the count at a key path, or the default where nothing stands; 0, and a problem, for anything else."""
    value = _look_up(file.data, loc)
    if value is _MISSING and default is not None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    problems.append(
        file.problem(loc, "missing" if value is _MISSING else f"found {describe(value)}", "a whole number from 0 on")
    )
    return 0


def _look_up(data: Any, loc: Loc) -> Any:
    for part in loc:
        if isinstance(data, dict):
            data = data.get(part, _MISSING)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return _MISSING
    return data
