"""cluster.yaml against moto's EC2 and IAM: bootstrapped, one node of each type made, all of them ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ablate.cluster.node_types import read_node_types

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "cluster.yaml"

AWS = """
import json, os, sys, time, yaml
sleep, time.sleep = time.sleep, lambda s: sleep(min(s, 0.01))  # Ray waits 15 s twice for IAM to take note
from moto import mock_aws
with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
    import boto3
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider as Provider
    from ray.autoscaler._private.util import prepare_config, validate_config
    from ray.autoscaler.tags import NODE_KIND_WORKER, TAG_RAY_NODE_KIND, TAG_RAY_USER_NODE_TYPE

    config = prepare_config(yaml.safe_load(open(sys.argv[1])))
    validate_config(config)
    config = Provider.bootstrap_config(Provider.fillout_available_node_types_resources(config))
    provider = Provider(config["provider"], config["cluster_name"])
    types = config["available_node_types"]
    for name, part in types.items():
        tags = {TAG_RAY_NODE_KIND: NODE_KIND_WORKER, TAG_RAY_USER_NODE_TYPE: name}
        provider.create_node_with_resources_and_labels(part["node_config"], tags, 1, part["resources"], {})
    made = provider.non_terminated_nodes({})
    region = config["provider"]["region"]
    ec2, iam = boto3.client("ec2", region_name=region), boto3.client("iam", region_name=region)

    def instances():
        return [one for found in ec2.describe_instances()["Reservations"] for one in found["Instances"]]

    running = instances()
    disks = len(ec2.describe_volumes()["Volumes"])
    policies = iam.list_attached_role_policies(RoleName="ray-autoscaler-v1")["AttachedPolicies"]
    groups = [group["IpPermissions"] for group in ec2.describe_security_groups()["SecurityGroups"]
              if group["GroupName"].startswith("ray-autoscaler")]
    provider.terminate_nodes(made)
    print("FOUND" + json.dumps({
        "resources": {name: part["resources"] for name, part in types.items()},
        "running": running,
        "disks": disks,
        "policies": [one["PolicyArn"].rpartition("/")[2] for one in policies],
        "rules": groups,
        "left": provider.non_terminated_nodes({}),
        "states": [one["State"]["Name"] for one in instances()],
        "disks left": len(ec2.describe_volumes()["Volumes"]),
    }, default=str))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a made-up AWS holds, in a process whose home is empty: Ray writes the key it makes there."""
    keys = {f"AWS_{name}": "made-up" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", AWS, str(SHIPPED)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**kept, **keys, "HOME": str(tmp_path_factory.mktemp("home"))},
        timeout=230,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.partition("FOUND")[2])


def test_every_type_starts_as_the_machine_it_names(found):
    config = yaml.safe_load(SHIPPED.read_text())
    running = {
        next(tag["Value"] for tag in one["Tags"] if tag["Key"] == "ray-user-node-type"): one for one in found["running"]
    }
    assert running.keys() == config["available_node_types"].keys()
    for name, one in running.items():
        node = config["available_node_types"][name]["node_config"]
        assert (one["InstanceType"], one["ImageId"]) == (node["InstanceType"], node["ImageId"])
        assert one.get("InstanceLifecycle") == ("spot" if "InstanceMarketOptions" in node else None)
        assert one["KeyName"].startswith("ray-autoscaler")
        assert one["State"]["Name"] == "running"


def test_what_ray_asks_aws_for_agrees_with_what_the_file_says(found):
    for one in read_node_types(SHIPPED):
        theirs = found["resources"][one.name]
        assert {name: theirs[name] for name in one.resources} == one.resources
        # beside what the file says Ray adds memory and the GPU's name
        assert {name.partition(":")[0] for name in theirs.keys() - one.resources.keys()} <= {
            "memory",
            "accelerator_type",
        }


def test_the_heads_role_cannot_read_parameters_as_the_file_says(found):
    assert set(found["policies"]) == {"AmazonEC2FullAccess", "AmazonS3FullAccess"}
    assert "AmazonSSMReadOnlyAccess" in SHIPPED.read_text()


def test_only_ssh_is_open_to_the_world(found):
    (rules,) = found["rules"]
    open_to_all = [rule for rule in rules if any(part["CidrIp"] == "0.0.0.0/0" for part in rule["IpRanges"])]
    assert [(rule["FromPort"], rule["ToPort"]) for rule in open_to_all] == [(22, 22)]


def test_all_nodes_and_their_disks_end(found):
    assert found["left"] == []
    assert set(found["states"]) == {"terminated"}
    assert found["disks"] == len(found["running"])
    assert found["disks left"] == 0
