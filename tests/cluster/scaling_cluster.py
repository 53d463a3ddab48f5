"""A small cluster that scales: Ray's fake provider starts and ends raylets on this machine, its v1 autoscaler decides.

Ray's own `AutoscalingCluster` is of no use here: it begins with `ray stop --force`, which ends everybody's Ray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import yaml

from tests.cluster.small_cluster import Cluster, Node

IDLE_S = 6.0
INTERVAL_S = 1
TRIES = 4
"""Ray gives a head 30 s to start, which cannot be changed and is not enough on a machine with ten jobs a core."""

HEAD = "ray.head.default"  # what the fake provider calls its head's type


class ScalingCluster(Cluster):
    """A head without cores, and node types from zero. ``file`` is what the autoscaler was told."""

    def __init__(self, types: Mapping[str, tuple[Mapping[str, int], int]]) -> None:
        """Start the head.

        Args:
            types: name -> what a node offers, and how many there may be.
        """
        self._types = types
        for attempt in range(TRIES):
            try:
                super().__init__()
                return
            except RuntimeError as error:
                if "timed out during startup" not in str(error) or attempt == TRIES - 1:
                    raise

    @property
    def file(self) -> Path:
        return self._folder / "cluster.yaml"

    def processes(self) -> list[psutil.Process]:
        """Return every process of the cluster: the autoscaler, and with it its nodes, descends from the head's."""
        return [process for node in self.nodes for process in node.processes()]

    def _start(
        self, name: str, resources: Mapping[str, float], env: Mapping[str, str], *words: str, under: Sequence[str] = ()
    ) -> Node:
        kinds = {
            kind: {"resources": dict(offered), "node_config": {}, "min_workers": 0, "max_workers": most}
            for kind, (offered, most) in self._types.items()
        }
        config = {
            "cluster_name": "scaling",
            "max_workers": sum(most for _, most in self._types.values()),
            "idle_timeout_minutes": IDLE_S / 60,
            "provider": {
                "type": "fake_multinode",
                "gcs_address": self.address,
                "disable_node_updaters": True,  # its nodes are reached by no SSH
                "disable_launch_config_check": True,
                "launch_multiple": True,
                "use_node_id_as_ip": True,  # all have the same address
            },
            "available_node_types": {
                HEAD: {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
                **kinds,
            },
            "head_node_type": HEAD,
            "upscaling_speed": 1.0,
            **{key: {} for key in ("auth", "docker", "file_mounts", "head_node", "worker_nodes")},
            **{key: [] for key in ("cluster_synced_files", "rsync_exclude", "rsync_filter", "worker_setup_commands")},
            **{key: [] for key in ("initialization_commands", "setup_commands", "head_setup_commands")},
            **{key: [] for key in ("head_start_ray_commands", "worker_start_ray_commands")},
            "file_mounts_sync_continuously": False,
        }
        self.file.write_text(yaml.safe_dump(config, sort_keys=False))
        scaling = {"RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "0"}
        interval = {"AUTOSCALER_UPDATE_INTERVAL_S": str(INTERVAL_S)}
        extra = ("--autoscaling-config", str(self.file))
        return super()._start(name, resources, {**env, **scaling, **interval}, *words, *extra, under=under)
