"""What the guard keeps of a saved tensor: its contents' checksum once, and one entry for each time it was saved."""

from __future__ import annotations

import weakref

from torch import Tensor

from ablate.audit.nearby import Place


class Region:
    """Saved contents: a detached tensor, which keeps the memory alive, and what it was when it was saved.

    Attributes:
        tensor: the contents, detached: it shares memory and version counter with what was saved, and no graph.
        version: the version counter at the save.
        length: bytes of the gapless memory it covers; 0 if it has to be copied to be hashed.
        original: what was saved, if it was not computed by an operation; its ``.data`` may be replaced later.
        checksum: of the contents at the save; None if there are none to hash.
        kind: the tensor subclass to give back; None for a plain tensor.
        look: what is compared before another save of the same place may share this entry.
        checked: the guard's clock when the contents were last compared.
        changed: the outcome of that.
        replaced: whether ``tensor`` has become what ``.data`` of the original was set to.
        reported: whether a finding was made of it.
    """

    __slots__ = (
        "__weakref__",
        "changed",
        "checked",
        "checksum",
        "kind",
        "length",
        "look",
        "original",
        "replaced",
        "reported",
        "tensor",
        "version",
    )

    def __init__(self, tensor: Tensor, version: int, length: int, original: weakref.ref[Tensor] | None) -> None:
        self.tensor = tensor
        self.version = version
        self.length = length
        self.original = original
        self.checksum: int | None = None
        self.kind: type[Tensor] | None = None
        self.look = 0
        self.checked = -1
        self.changed = False
        self.replaced = False
        self.reported = False


class Saved:
    """What the graph holds in place of a saved tensor; it refers to no graph and no module, so no cycle can arise."""

    __slots__ = ("batch_index", "last_parameter", "place", "region", "used")

    def __init__(self, region: Region, place: Place, last_parameter: int, batch_index: int) -> None:
        self.region = region
        self.place = place
        self.last_parameter = last_parameter
        self.batch_index = batch_index
        self.used = False
