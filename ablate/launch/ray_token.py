"""Whether to show Ray's token to a cluster.

An embedded Ray leaves a token in the user's home, and from then on `ray start --head` on this machine asks for it; but
`ray.init(address=...)` shows it only where RAY_AUTH_MODE says so. A cluster that asks for none ignores it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def has_token(environment: Mapping[str, str]) -> bool:
    """Say whether there is a token to show, unless RAY_AUTH_MODE has decided already."""
    if "RAY_AUTH_MODE" in environment:
        return False
    named = environment.get("RAY_AUTH_TOKEN") or environment.get("RAY_AUTH_TOKEN_PATH")
    return bool(named) or (Path.home() / ".ray" / "auth_token").exists()


def shown() -> dict[str, str]:
    """Return what has Ray show the token, if there is one: for the environment, before ray is imported.

    Ray reads the mode then. Later it would reach only what this process starts: a Ray that asks for a token, from a
    driver that shows none.
    """
    return {"RAY_AUTH_MODE": "token"} if "ray" not in sys.modules and has_token(os.environ) else {}
