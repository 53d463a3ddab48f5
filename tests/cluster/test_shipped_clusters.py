"""The cluster files that ship: sound by Ray's functions and ours, true to AWS's machines, enough for the grids."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from ablate.cluster.config import check_cluster
from ablate.cluster.node_types import read_node_types
from ablate.launch import placement
from ablate.launch.study import read_study

REPOSITORY = Path(__file__).parents[2]
AWS = REPOSITORY / "cluster.yaml"
LAB = REPOSITORY / "configs" / "cluster" / "onprem.yaml"
PODS = REPOSITORY / "configs" / "cluster" / "kuberay.yaml"
FILES = [AWS, LAB, PODS]
GRIDS = sorted((REPOSITORY / "configs").glob("*.yaml"))
DEAR = {"gpu_a100", "gpu_h100"}
"""Types that are not started until somebody says so."""
THE_PAPERS = {"paper_matrix", "paper_matrix_autoencoder"}

RAY = """
import json, logging, sys, yaml
logging.disable(logging.WARNING)
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import prepare_config, validate_config
found = []
for path in sys.argv[1:3]:
    config = prepare_config(yaml.safe_load(open(path)))
    validate_config(config)
    found.append(config)
found.append(_derive_autoscaling_config_from_ray_cr(yaml.safe_load(open(sys.argv[3]))))  # validates it too
print("FOUND" + json.dumps([{key: one[key] for key in ("available_node_types", "max_workers")} for one in found]))
"""


@pytest.fixture(scope="module")
def ray_says():
    """What Ray's own functions make of the three files, in a process of its own: these tests import no Ray."""
    words = [sys.executable, "-c", RAY, *map(str, FILES)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPOSITORY, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.partition("FOUND")[2])


def described():
    (folder,) = find_spec("moto").submodule_search_locations
    return Path(folder) / "ec2" / "resources"


def unpacked(path):
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_wrong_with_it(path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    check_cluster(path)


def test_ray_reads_the_same_node_types_from_cluster_yaml(ray_says):
    prepared = ray_says[0]
    for one in read_node_types(AWS):
        theirs = prepared["available_node_types"][one.name]
        assert theirs["resources"] == one.resources
        assert (theirs["min_workers"], theirs["max_workers"]) == (
            one.min_workers - one.head,
            one.max_workers - one.head,
        )
    assert len(prepared["available_node_types"]) == len(read_node_types(AWS))
    # no type is kept from its own limit by the cluster's
    assert prepared["max_workers"] == sum(one.max_workers for one in read_node_types(AWS) if not one.head)


def test_ray_keeps_all_of_the_labs_machines(ray_says):
    (theirs,) = ray_says[1]["available_node_types"].values()
    workers = len(read_node_types(LAB)) - 1
    assert (theirs["min_workers"], theirs["max_workers"], ray_says[1]["max_workers"]) == (workers, workers, workers)


def test_ray_derives_the_same_groups_from_the_manifest(ray_says):
    derived = ray_says[2]["available_node_types"]
    assert derived.keys() == {one.name for one in read_node_types(PODS)}
    for one in read_node_types(PODS):
        theirs = {key: value for key, value in derived[one.name]["resources"].items() if key != "memory"}
        assert theirs == one.resources
        assert derived[one.name]["max_workers"] == one.max_workers - one.head


def test_the_manifest_has_the_groups_of_cluster_yaml_on_the_same_machines():
    def tags(path):
        return {
            frozenset(one.resources.keys() - {"CPU", "GPU"}): one.max_workers
            for one in read_node_types(path)
            if not one.head
        }

    assert tags(PODS) == tags(AWS)
    types = {one.name: one for one in read_node_types(AWS)}
    for group in yaml.safe_load(PODS.read_text())["spec"]["workerGroupSpecs"]:
        machine = types[group["groupName"].replace("-", "_")]
        pod = group["template"]["spec"]
        assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": machine.instance}
        limits = pod["containers"][0]["resources"]["limits"]
        assert int(limits["cpu"]) < machine.resources["CPU"]  # Kubernetes keeps some for itself
        assert limits.get("nvidia.com/gpu", "0") == f"{machine.resources.get('GPU', 0):g}"


@pytest.mark.parametrize("path", [AWS, PODS], ids=lambda path: path.stem)
def test_a_type_starts_from_zero_and_the_head_runs_no_trials(path):
    head, *others = read_node_types(path)
    assert head.head
    assert head.resources == {"CPU": 0}
    assert all(one.min_workers == 0 for one in others)
    assert {one.name.replace("-", "_") for one in others if not one.max_workers} == DEAR
    for one in others:
        (tag,) = one.resources.keys() - {"CPU", "GPU"}
        assert one.resources[tag] == one.resources.get("GPU", one.resources["CPU"])
        assert tag.startswith("gpu_" if "GPU" in one.resources else "cpu_")


def test_cluster_yaml_is_true_to_awss_description_of_its_machines():
    types = unpacked(described() / "instance_types.json.gz")
    config = yaml.safe_load(AWS.read_text())
    region = config["provider"]["region"]
    offered = unpacked(described() / "instance_type_offerings" / "region" / f"{region}.json.gz")
    there = {entry["InstanceType"] for entry in offered}
    for one in read_node_types(AWS):
        entry = types[one.instance]
        gpus = entry.get("GpuInfo", {}).get("Gpus", [])
        if not one.head:
            assert one.resources["CPU"] == entry["VCpuInfo"]["DefaultVCpus"]
        assert one.resources.get("GPU", 0) == sum(gpu["Count"] for gpu in gpus)
        assert [f"gpu_{gpu['Name'].lower()}" for gpu in gpus] == [
            tag for tag in one.resources if tag.startswith("gpu_")
        ]
        node = config["available_node_types"][one.name]["node_config"]
        architecture = "arm64" if "/arm64/" in node["ImageId"] else "x86_64"
        assert entry["ProcessorInfo"]["SupportedArchitectures"] == [architecture]
        assert one.instance in there
        if "InstanceMarketOptions" in node:
            assert "spot" in entry["SupportedUsageClasses"]
        assert ("InstanceMarketOptions" in node) == (one.name not in {"head", *DEAR})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("grid", GRIDS, ids=lambda path: path.stem)
def test_every_arm_of_a_shipped_grid_is_served(grid, path, monkeypatch):
    monkeypatch.setattr(placement, "available_cores", lambda: 2)
    arms = read_study(grid).grid.arms
    types = [one for one in read_node_types(path) if one.max_workers > one.head or path == LAB]
    nodes = [placement.Node(one.name, one.resources) for one in types]
    unserved = placement.unmet({name: arm.resources for name, arm in arms.items()}, nodes)
    if grid.stem in THE_PAPERS and path != LAB:
        tagged = [name for name, arm in arms.items() if arm.resources.keys() - {"CPU", "GPU"}]
        assert unserved == tagged == list(arms)  # the paper's machines are a lab's, and no cloud has them
    else:
        assert unserved == []


def test_the_labs_tags_are_those_of_the_papers_matrix(monkeypatch):
    monkeypatch.setattr(placement, "available_cores", lambda: 2)
    offered = {tag for one in read_node_types(LAB) for tag in one.resources} - {"CPU", "GPU"}
    for name in THE_PAPERS:
        arms = read_study(REPOSITORY / "configs" / f"{name}.yaml").grid.arms.values()
        assert {tag for arm in arms for tag in arm.resources} - {"CPU", "GPU"} == offered


@pytest.mark.parametrize("path", [AWS, LAB], ids=lambda path: path.stem)
def test_a_node_installs_the_pinned_torch_and_needs_no_file_that_is_not_mounted(path):
    config = yaml.safe_load(path.read_text())
    script = (REPOSITORY / "configs" / "cluster" / "install.sh").read_text()
    pin = next(line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    assert f" {pin}\n" in script
    assert "--constraint constraints.txt" in script
    mounted = {target.removeprefix("~/ablate/") for target in config["file_mounts"]}
    assert mounted == set(config["file_mounts"].values())
    assert {"ablate", "trainables", "analysis", "configs", "pyproject.toml", "constraints.txt", "README.md"} == mounted


def test_the_installation_is_a_script_that_bash_accepts():
    subprocess.run(["bash", "-n", REPOSITORY / "configs" / "cluster" / "install.sh"], check=True)
