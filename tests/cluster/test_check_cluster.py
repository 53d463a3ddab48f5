"""What is found in a cluster's file before a machine is paid for: each fault with its line, key path and advice."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from ablate.cluster import aws
from ablate.cluster.config import check_cluster
from tests.cluster.texts import AWS, LAB, PODS, refused, write

FAST = "available_node_types.fast"


@pytest.mark.parametrize("text", [AWS, LAB, PODS])
def test_a_file_without_a_fault_passes(tmp_path, text):
    check_cluster(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        # Ray's own schema, with lines
        (AWS, "max_workers: 4", "max_wokers: 4", "cluster.yaml:2: max_wokers: no key that Ray knows here"),
        (AWS, "max_workers: 4", "max_wokers: 4", "did you mean 'max_workers'?"),
        (AWS, "    min_workers: 1", "    min_worker: 1", f"12: {FAST}.min_worker: no key that Ray knows here"),
        (AWS, "cluster_name: small\n", "", "cluster_name: missing"),
        (AWS, "min_workers: 1", "min_workers: some", f"12: {FAST}.min_workers: 'some' is not of type 'integer'"),
        # what Ray's functions miss
        (
            AWS,
            "min_workers: 1",
            "min_workers: 4",
            f"12: {FAST}.min_workers: min_workers is 4, above max_workers, which is 3",
        ),
        (AWS, "max_workers: 4\n", "", "max_workers: missing: Ray then allows 2 workers of all types together"),
        (AWS, "max_workers: 4", "max_workers: 0", "2: max_workers: is 0, less than the min_workers of all types"),
        (
            AWS,
            "m7i.xlarge",
            "m7j.xlarge",
            f"14: {FAST}.node_config.InstanceType: m7j.xlarge is no instance type of AWS",
        ),
        (AWS, "m7i.xlarge", "m7i.xxlarge", "did you mean 'm7i.xlarge'?"),
        (AWS, "ImageId:", "ImageID:", f"{FAST}.node_config.ImageID: no parameter of EC2's RunInstances"),
        (AWS, "ImageId:", "ImageID:", "did you mean 'ImageId'?"),
        (
            AWS,
            "{InstanceType: m7i.xlarge, ImageId: ami-1}",
            "{ImageId: ami-1}",
            f"{FAST}.node_config.InstanceType: missing",
        ),
        (
            AWS,
            "m7i.xlarge, ImageId: ami-1",
            "m7g.xlarge",
            f"{FAST}.node_config.ImageId: left to Ray, whose own image is for x86",
        ),
        (
            AWS,
            "m7i.xlarge, ImageId: ami-1",
            "m7g.xlarge, ImageId: resolve:ssm:/ubuntu/amd64/ami-id",
            "an image for x86, and m7g.xlarge has arm64 processors; it would not start",
        ),
        (AWS, "ami-1", "resolve:ssm:/ubuntu/arm64/ami-id", "an image for arm64, and m7i.xlarge has x86 processors"),
        (AWS, AWS, AWS + "file_mounts: {~/a: nowhere}\n", "cluster.yaml:15: file_mounts.~/a: nowhere does not exist"),
        (LAB, "{~/lab.yaml: ", "{~/a: nowhere, ~/lab.yaml: ", "file_mounts.~/a: nowhere does not exist"),
        # a lab's machines
        (
            LAB,
            LAB,
            LAB + "head_node_type: x\n",
            "head_node_type: is refused by Ray for machines that are already there",
        ),
        (
            LAB,
            "worker_start_ray_commands:",
            "setup_commands:",
            "worker_start_ray_commands: does not ask `ablate.cluster",
        ),
        (
            LAB,
            "~/lab.yaml)",
            "~/copy.yaml)",
            "head_start_ray_commands: reads ~/copy.yaml on each machine, where this file",
        ),
        (LAB, "10.0.0.12: {", "10.0.0.13: {", "10.0.0.12 has no entry in metadata.hosts"),
        # a manifest
        (PODS, "minReplicas: 0", "minReplicas: 4", "minReplicas: minReplicas is 4, above maxReplicas, which is 3"),
        (
            PODS,
            "groupName: fast",
            "groupName: cpu_fast",
            "9: spec.workerGroupSpecs[0].groupName: 'cpu_fast' cannot be part of",
        ),
        (PODS, "groupName: fast", "groupName: cpu_fast", "did you mean 'cpu-fast'?"),
        (PODS, "  enableInTreeAutoscaling: true\n", "", "spec.enableInTreeAutoscaling: is not true"),
        (
            PODS,
            'num-cpus: "0"',
            "num-cpus: 0",
            "rayStartParams.num-cpus: 0 (a whole number), and Kubernetes takes text only",
        ),
        (PODS, ", namespace: default", "", "metadata.namespace: missing"),
        (
            PODS,
            "  headGroupSpec:",
            "  autoscalerOptions: {idleTimeoutSeconds: long}\n  headGroupSpec:",
            '5: spec.autoscalerOptions.idleTimeoutSeconds: found "long" (text)',
        ),
    ],
)
def test_a_fault_is_said_with_its_line(tmp_path, text, old, new, said):
    assert said in refused(check_cluster, write(tmp_path, text, old, new))


def test_two_groups_of_one_name_are_refused(tmp_path):
    group = PODS[PODS.index("    - groupName") :]
    assert "workerGroupSpecs[1].groupName: fast is another group's name too" in refused(
        check_cluster, write(tmp_path, PODS + group)
    )


def test_everything_that_is_wrong_is_said_at_once_and_once(tmp_path):
    text = AWS.replace("m7i.xlarge", "m7j.xlarge").replace("min_workers: 1", "min_workers: many")
    said = refused(check_cluster, write(tmp_path, text, "CPU: 4, ", ""))
    assert said.count("min_workers") == 1
    assert "m7j.xlarge" in said
    assert "no CPU" in said


def test_a_source_is_looked_for_here_and_above_the_file(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    path = write(tmp_path / "deep", AWS + "file_mounts: {~/a: here}\n")
    assert f"it is not in {Path.cwd()} or above the file" in refused(check_cluster, path)
    (tmp_path / "here").mkdir()
    check_cluster(path)
    (tmp_path / "here").rmdir()
    (tmp_path / "elsewhere" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    check_cluster(path)


def test_a_labs_machines_read_this_file_and_no_copy_of_it(tmp_path):
    text = LAB.replace("~/lab.yaml", "~/lab/labs/cluster.yaml").replace(
        "{~/lab/labs/cluster.yaml: cluster.yaml}", "{~/lab: .}"
    )
    (tmp_path / "labs").mkdir()
    path = write(tmp_path / "labs", text)
    check_cluster(path)  # by the folder that holds it
    other = tmp_path / "mine.yaml"
    other.write_text(text)
    said = refused(check_cluster, other)
    assert (
        "worker_start_ray_commands: reads ~/lab/labs/cluster.yaml on each machine, where this file is not mounted"
        in said
    )
    assert "add `~/lab/labs/cluster.yaml: mine.yaml` to file_mounts" in said
    other.write_text(text.replace("{~/lab: .}", "{~/lab: ., ~/lab/labs/cluster.yaml: mine.yaml}"))
    check_cluster(other)


def test_without_botocore_an_instance_type_is_held_against_its_pattern(tmp_path, monkeypatch):
    monkeypatch.setattr(aws, "_known", lambda: (frozenset(), frozenset()))
    check_cluster(write(tmp_path, AWS, "m7i.xlarge", "m99zz.huge"))
    said = refused(check_cluster, write(tmp_path, AWS, "m7i.xlarge", "xlarge"))
    assert "xlarge is no instance type of AWS" in said
    assert "with botocore installed names are checked one by one" in said


def test_the_rule_for_arm_families_holds_for_every_type_that_aws_describes():
    (folder,) = find_spec("moto").submodule_search_locations
    types = json.loads(gzip.decompress((Path(folder) / "ec2" / "resources" / "instance_types.json.gz").read_bytes()))
    linux = {name: entry for name, entry in types.items() if not name.startswith("mac")}
    arm = {name for name, entry in linux.items() if "arm64" in entry["ProcessorInfo"]["SupportedArchitectures"]}
    assert len(arm) > 300
    assert {name for name in linux if aws.ARM.match(name)} == arm
    assert all(aws.PATTERN.fullmatch(name) for name in linux)
