"""What the saved-tensor guard found, in words."""

from __future__ import annotations

from analysis.digits import plural
from analysis.guard_findings import Fault


def overwritten(fault: Fault) -> str:
    """Return ``this tensor was overwritten between forward and backward``, which it is, where, and how many are."""
    where = f"in arm {', '.join(fault.arms)} at batch {fault.batch}"
    stopped = " (torch refused to go on)" if fault.refused else ""
    count = f"({plural(fault.per_batch, 'tensor')} a batch)"
    return f"this tensor was overwritten between forward and backward: {_tensor(fault)}, {where} {count}{stopped}"


def _tensor(fault: Fault) -> str:
    saved = f", saved at {fault.source}" if fault.source else ""
    near = f" ({fault.near})" if fault.near else ""
    role = f"{fault.role}, " if fault.role else ""
    return f"{role}shape {fault.shape}{saved}{near}"
