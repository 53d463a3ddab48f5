"""Node types of the three kinds of cluster files, and what is said of a file that has none."""

from __future__ import annotations

import pytest

from ablate.cluster.cluster_file import read_cluster_file
from ablate.cluster.node_types import NodeType, most_workers, read_node_types
from tests.cluster.texts import AWS, LAB, PODS, refused, write


def test_a_ray_up_files_types_count_the_head_itself(tmp_path):
    assert read_node_types(write(tmp_path, AWS)) == (
        NodeType("head", {"CPU": 0.0}, 1, 1, "m7i.large", head=True),
        NodeType("fast", {"CPU": 4.0, "cpu_avx512": 4.0}, 1, 3, "m7i.xlarge"),
    )


def test_a_types_limit_is_the_clusters_where_it_has_none_or_a_higher_one(tmp_path):
    for text in ("", "    max_workers: 9\n"):
        assert read_node_types(write(tmp_path, AWS, "    max_workers: 3\n", text))[1].max_workers == 4
    assert most_workers(read_cluster_file(tmp_path / "cluster.yaml")) == 4
    path = write(tmp_path, AWS, "max_workers: 4\n", "")
    assert most_workers(read_cluster_file(path)) == 2  # Ray's own default
    assert read_node_types(path)[1].max_workers == 2


def test_a_labs_machines_are_a_type_each_the_head_first(tmp_path):
    assert read_node_types(write(tmp_path, LAB)) == (
        NodeType("10.0.0.10", {"CPU": 0.0}, 1, 1, None, head=True),
        NodeType("10.0.0.11", {"CPU": 4.0, "i5_4590": 1.0}, 1, 1),
        NodeType("10.0.0.12", {"CPU": 1.0, "GPU": 2.0, "gtx_970": 1.0}, 1, 1),
    )


def test_a_manifests_groups_are_types_with_quantities_rounded_up(tmp_path):
    path = write(tmp_path, PODS)
    assert read_node_types(path) == (
        NodeType("headgroup", {"CPU": 0.0}, 1, 1, None, head=True),
        NodeType("fast", {"CPU": 3.0, "GPU": 1.0, "cpu_avx512": 3.0}, 0, 3),
    )
    assert most_workers(read_cluster_file(path)) is None


def test_a_groups_own_resources_win_over_its_start_parameters(tmp_path):
    path = write(tmp_path, PODS, "      maxReplicas: 3\n", "      maxReplicas: 3\n      resources: {CPU: 7, a: 2}\n")
    assert read_node_types(path)[1].resources == {"CPU": 7.0, "a": 2.0}


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (AWS, "head_node_type: head", "head_node_type: heed", "cluster.yaml:4: head_node_type: 'heed' is no node type"),
        (AWS, "head_node_type: head", "head_node_type: heed", "did you mean 'head'?"),
        (AWS, "{CPU: 4, cpu", "{CPU: four, cpu", '11: available_node_types.fast.resources.CPU: found "four" (text)'),
        (AWS, "{CPU: 0}", "{}", "7: available_node_types.head.resources: no CPU: Ray would ask AWS for it"),
        (AWS, "max_workers: 3", "max_workers: -3", "13: available_node_types.fast.max_workers: found -3"),
        (PODS, "minReplicas: 0", "minReplicas: no", "10: spec.workerGroupSpecs[0].minReplicas: found false"),
        (PODS, '"{\\"cpu', "{cpu", "rayStartParams.resources: '{cpu_avx512"),
        (PODS, '"{\\"cpu', "{cpu", "cannot be read by Ray's autoscaler"),
        (PODS, '{num-cpus: "0"}', "{}", "spec.headGroupSpec.rayStartParams: no number of CPUs"),
        (PODS, "2500m", "many", "num-cpus: 'many' is no amount"),
        (PODS, "- groupName: fast", "- group: fast", "spec.workerGroupSpecs[0].groupName: missing or no text"),
        (PODS, "  workerGroupSpecs:", "  workers:", "spec.workerGroupSpecs: missing or no list"),
        (AWS, "max_workers: 4", "max_workers: 4\nmax_workers: 5", "3: max_workers: the key stands here and in line 2"),
        (AWS, "type: aws, ", "", "cluster.yaml:3: no `provider` with a `type`"),
        (PODS, "RayCluster", "RayJob", "cluster.yaml:1: the kind is RayJob"),
        (AWS, AWS, "arms: {}\n", "a grid, not a cluster's configuration"),
        (AWS, AWS, "- a\n", "holds no cluster's configuration"),
        (AWS, AWS, "a: [\n", "not YAML"),
        (AWS, AWS, "provider: !!python/name:os.system x\n", "not what Ray can read"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(tmp_path, text, old, new, said):
    assert said in refused(read_node_types, write(tmp_path, text, old, new))


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    assert "a folder, not a file" in refused(read_node_types, tmp_path)
    assert "no such file" in refused(read_node_types, tmp_path / "no.yaml")


def test_anchors_and_merges_are_read_as_ray_reads_them(tmp_path):
    text = AWS.replace("    min_workers: 1\n", "    <<: &few {min_workers: 1}\n")
    assert read_node_types(write(tmp_path, text))[1].min_workers == 1
