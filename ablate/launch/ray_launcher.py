"""Ray at arm's length: imported when it is first needed, which for a launch that runs nothing is never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.cluster.node_types import NodeType
from ablate.design.trial_spec import Numerics
from ablate.launch.after import After
from ablate.launch.placement import Node, this_machine
from ablate.trial.isolation import Isolation
from ablate.trial.task import TrialTask

if TYPE_CHECKING:
    from ablate.launch.ray_code import Code
    from ablate.launch.tune import TuneLauncher
    from ablate.launch.waiting import Waiting


class RayLauncher:
    """Runs trials by Ray Tune. The import alone takes 1.5 s, so a launch that is refused or complete does without."""

    def __init__(
        self,
        launch_id: str,
        address: str | None,
        offered: Mapping[str, float] | None = None,
        code: Code | None = None,
        store: Path | None = None,
        leave_at_once: int | None = None,
    ) -> None:
        """Remember what will be needed.

        Args:
            launch_id: names the launch.
            address: of a cluster; None for an embedded Ray.
            offered: tags of this machine, for an embedded Ray.
            code: what a cluster's nodes need of the user's code; None if they have it.
            store: that a cluster's nodes have to reach; None for one at a URI, which they reach otherwise.
            leave_at_once: idle nodes that may leave a cluster at a time; None for as many as there are.
        """
        self._launch_id = launch_id
        self._address = address
        self._offered = dict(offered or {})
        self._code = code
        self._store = store
        self._leave_at_once = leave_at_once
        self._servers = Isolation(launch_id)

    @cached_property
    def _tune(self) -> TuneLauncher:
        from ablate.launch.tune import TuneLauncher

        return TuneLauncher(self._launch_id, self._address, self._offered, self._code, self._leave_at_once)

    def nodes(self) -> list[Node]:
        """Return the cluster's live nodes; without a cluster this machine, which needs no Ray to be asked."""
        return self._tune.nodes() if self._address else [this_machine(self._offered)]

    def node_types(self) -> tuple[NodeType, ...]:
        """Return what the cluster's autoscaler can add, as far as it can be seen."""
        if not self._address:
            return ()
        from ablate.launch.ray_node_types import autoscaled_types

        return autoscaled_types()

    @property
    def if_unmet(self) -> str:
        """What to do about an arm that fits on no node, where no node types are known."""
        return "If the cluster adds nodes, name the file that says which: --cluster FILE." if self._address else ""

    def start(self, first: Numerics | None = None) -> None:
        """Start an embedded Ray, or reach the cluster.

        Args:
            first: how the first trial computes. Beside an embedded Ray its fork server is started meanwhile, so that
                torch is imported once Ray has an actor for the trial; a cluster's nodes start theirs themselves.

        Raises:
            UnmetPlacement: no cluster answers at the address.
            StoreError: a node of the cluster writes elsewhere than this process reads.
        """
        if first and not self._address:
            self._servers.start(first)
        self._tune.start()
        if self._address and self._store:
            from ablate.launch.ray_nonce import check_shared

            check_shared(self._store)

    def run(self, tasks: Sequence[TrialTask], after: After, waiting: Waiting | None = None) -> None:
        """Run every task, and what ``after`` wants in its place; ``waiting`` hears of trials that no node can run."""
        self._tune.run(tasks, after, waiting if self._address else None)

    def close(self) -> None:
        """Leave Ray, if it was needed."""
        self._servers.close()
        if "_tune" in self.__dict__:
            self._tune.close()
