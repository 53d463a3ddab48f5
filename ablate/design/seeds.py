"""Seeds of the named random streams: a function of study, block and stream, never of the arm."""

from __future__ import annotations

import hashlib


def stream_key(study: str, block: int, stream: str) -> int:
    """Return the 128-bit Philox key of a stream.

    Philox (Salmon et al. 2011) is counter-based, so streams with different keys are independent and equal keys
    give equal numbers on every machine.
    """
    return int.from_bytes(hashlib.sha256(f"{study}\x1f{block}\x1f{stream}".encode()).digest()[:16], "big")
