"""The guard's finding, and torch's refusal, in words."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ablate.audit.nearby import near, source
from ablate.audit.role import Role
from ablate.audit.saved import Saved


@dataclass(frozen=True)
class Overwritten:
    """A tensor that autograd saved and that was overwritten before backward used it.

    Attributes:
        batch_index: the batch whose forward saved it.
        shape: its shape.
        dtype: its element type, ``float32``.
        version_moved: whether autograd's version counter saw the write (torch then refuses the backward).
        role: what it is to the operation whose backward needs it, ``target of MseLossBackward0``; empty if unknown.
        near: the parameter it is, or the module or parameter nearby, in words; empty if unknown.
        source: the user's line that saved it, ``file.py:123 in function``; empty if unknown.
        detail: what happened, in words.
    """

    batch_index: int
    shape: tuple[int, ...]
    dtype: str
    version_moved: bool
    role: str
    near: str
    source: str
    detail: str


def unseen_write(saved: Saved, use: Role, model: nn.Module | None) -> Overwritten:
    """Return the finding for contents that changed although the version counter did not move."""
    how = "its .data was replaced" if saved.region.replaced else "a write through NumPy, .data or another library"
    what = f"contents changed between forward and backward, unseen by torch's version counter ({how})"
    return _finding(saved, use, model, what, moved=False)


def seen_write(saved: Saved, use: Role, model: nn.Module | None) -> Overwritten:
    """Return the finding for a tensor whose version counter moved."""
    what = f"changed in place: at version {saved.region.tensor._version}, saved at {saved.region.version}"
    return _finding(saved, use, model, what, moved=True)


def refusal(saved: Saved, finding: Overwritten) -> RuntimeError:
    """Return torch's own error for a tensor whose version counter moved, with the place where it was saved."""
    t = saved.region.tensor
    where = "; ".join(word for word in (finding.near, finding.source) if word)
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{t.type()} {list(t.shape)}] is at version {t._version}; expected version {saved.region.version} instead. "
        + (f"It was saved in batch {saved.batch_index}" if saved.batch_index >= 0 else "It was saved")
        + (f" ({where})." if where else ".")
    )


def _finding(saved: Saved, use: Role, model: nn.Module | None, what: str, moved: bool) -> Overwritten:
    t = saved.region.tensor
    detail = [what]
    if saved.region.original is not None:
        detail.append("not computed in the forward pass (data, target or parameter)")
    return Overwritten(
        batch_index=saved.batch_index,
        shape=tuple(t.shape),
        dtype=str(t.dtype).removeprefix("torch."),
        version_moved=moved,
        role=f"{use.name or 'a tensor'} of {use.operation}" if use.operation else "",
        near=near(t, saved.place, saved.last_parameter, model),
        source=source(saved.place),
        detail="; ".join(detail),
    )
