"""Small cluster files of each kind, for tests that change one thing in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.errors import BadInput

AWS = """\
cluster_name: small
max_workers: 4
provider: {type: aws, region: us-west-2}
head_node_type: head
available_node_types:
  head:
    resources: {CPU: 0}
    max_workers: 0
    node_config: {InstanceType: m7i.large}
  fast:
    resources: {CPU: 4, cpu_avx512: 4}
    min_workers: 1
    max_workers: 3
    node_config: {InstanceType: m7i.xlarge, ImageId: ami-1}
"""

LAB = """\
cluster_name: lab
provider:
  type: local
  head_ip: 10.0.0.10
  worker_ips: [10.0.0.11, 10.0.0.12]
metadata:
  hosts:
    10.0.0.10: {CPU: 0}
    10.0.0.11: {CPU: 4, i5_4590: 1}
    10.0.0.12: {CPU: 1, GPU: 2, gtx_970: 1}
file_mounts: {~/lab.yaml: cluster.yaml}
head_start_ray_commands: [flags=$(python -m ablate.cluster.host_flags ~/lab.yaml) && ray start --head $flags]
worker_start_ray_commands: [flags=$(python -m ablate.cluster.host_flags ~/lab.yaml) && ray start $flags]
"""

PODS = """\
kind: RayCluster
metadata: {name: small, namespace: default}
spec:
  enableInTreeAutoscaling: true
  headGroupSpec:
    rayStartParams: {num-cpus: "0"}
    template: {spec: {containers: [{name: head}]}}
  workerGroupSpecs:
    - groupName: fast
      minReplicas: 0
      maxReplicas: 3
      rayStartParams: {resources: '"{\\"cpu_avx512\\": 3}"'}
      template: {spec: {containers: [{name: worker, resources: {limits: {cpu: 2500m, nvidia.com/gpu: "1"}}}]}}
"""


def write(folder: Path, text: str, old: str = "", new: str = "") -> Path:
    """Write a cluster file with one part replaced; the part must be there."""
    assert old in text
    path = folder / "cluster.yaml"
    path.write_text(text.replace(old, new, 1) if old else text)
    return path


def refused(act, path: Path) -> str:
    """Return the message of BadInput, with the file's folder left out and on one line per problem."""
    with pytest.raises(BadInput) as caught:
        act(path)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{path.parent}/", "")
