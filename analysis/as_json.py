"""A report as plain values, for ``--json``."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


def as_json(report: Any) -> dict[str, Any]:
    """Return a dataclass as plain dicts, lists, text and finite numbers, ready for ``json.dumps``.

    Raises:
        ValueError: a number in it is not finite.
    """
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(report), allow_nan=False))
    return plain
