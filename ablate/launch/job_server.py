"""Whether anything answers where a cluster is said to be: asked without Ray, whose import takes seconds.

Ray itself would try a dead address for minutes.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ablate.errors import Problem, UnmetPlacement

if TYPE_CHECKING:
    from ablate.launch.ray_jobs import Jobs

ANSWER_S = 4.0
"""How long a cluster may take to accept a connection."""


def connect(address: str) -> None:
    """Connect to an address once, if it names a port.

    Raises:
        OSError, ValueError: nothing accepts the connection, or it is no address.
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    if parts.hostname and port:
        socket.create_connection((parts.hostname, port), timeout=ANSWER_S).close()


def reach_jobs(address: str) -> Jobs:
    """Return the job server at an address; Ray is imported only where something answers.

    Raises:
        UnmetPlacement: nothing does, or no job server.
        BadInput: this installation cannot submit jobs.
    """
    try:
        connect(address)
    except (OSError, ValueError) as error:
        raise no_server(address, error) from None
    from ablate.launch.ray_jobs import Jobs

    return Jobs(address)


def no_server(address: str, error: Exception) -> UnmetPlacement:
    """Return the refusal of an address without a job server."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    advice = (
        "Give the dashboard's address (http://HEAD:8265; from outside through `ssh -L 8265:localhost:8265 HEAD`). "
        "The head serves jobs if Ray was installed there as ray[default]."
    )
    return UnmetPlacement(Problem(f"--address {address}", f"no job server answers: {said}", advice=advice))
