"""Versions that differ between a cluster's nodes: where that is an error, and where it is what a study asks."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest
from rich.console import Console

from ablate import cli_state
from ablate.errors import UnmetPlacement
from ablate.launch import cluster_doctor
from ablate.launch.cluster_doctor import PACKAGES, PROBE, NodeFacts, doctor_table, facts_of, problems, to_json

SAME = {"ablate": "1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "ray": "2.60.0", "python": "3.11.4"}


def node(host, versions=None, wrong=(), **resources):
    return NodeFacts(
        host, {"CPU": 4.0, **resources}, "a CPU", "AVX2", versions={**SAME, **(versions or {})}, wrong=wrong
    )


def test_equal_nodes_are_no_problem_and_a_build_is_no_version():
    assert problems([node("a"), node("b", {"torch": "2.13.0+cu128"}, GPU=1.0)]) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_any_version_that_differs_is_named_with_its_nodes(package):
    (found,) = problems([node("a"), node("b"), node("c", {package: "0.9"})], where="there")
    mine = SAME[package].partition("+")[0]
    assert found.where == "there"
    assert found.found == f"{package} differs between nodes: 0.9 on c; {mine} on a, b"
    assert f"{package}_0_9" in found.advice
    assert "--grid GRID" in found.advice


def test_what_does_not_import_or_answer_is_a_problem_of_its_node():
    (found,) = problems(
        [node("a"), node("b", wrong=("torch does not import: No module named 'torch'",))], where="there"
    )
    assert str(found).startswith("there: b: torch does not import")
    silent = facts_of("c", {}, "", "no answer in 60 s")
    assert silent.wrong == ("no answer in 60 s",)
    assert facts_of("c", {}, "{", "it died").wrong == ("it died",)
    assert facts_of("c", {}, '{"versions": 3}', "").wrong == ("""its probe printed '{"versions": 3}'""",)


MIXED = [node("a", old=1.0), node("b", {"torch": "2.12.1"}, new=1.0)]


def test_an_arm_may_not_land_on_two_versions():
    (found,) = problems(MIXED, {"free": {"CPU": 1}}, "there")
    assert found.found == "trials of arm free could land on nodes whose torch differs: 2.12.1 on b; 2.13.0 on a"


def test_workers_of_one_trial_may_land_on_two_versions(place, monkeypatch):
    monkeypatch.setattr(cluster_doctor, "ask", lambda address: MIXED)
    grid = place.grid("arms:\n  shared: {workers: 2, threads: 4}\n")  # 8 cores, of which each node has 4
    with pytest.raises(UnmetPlacement, match="trials of arm shared could land on nodes whose torch differs"):
        cli_state._doctor_of_cluster("there", grid, True)


def test_nodes_that_no_arm_can_land_on_do_not_matter():
    assert problems(MIXED, {"one": {"CPU": 1, "old": 1}, "two": {"CPU": 2, "old": 1}}) == []


def test_arms_may_differ_in_a_version_only_if_each_says_so_by_a_tag():
    (found,) = problems(MIXED, {"one": {"old": 1}, "two": {"new": 1}}, "there")
    assert found.found.startswith("arms would run under different torch: 2.12.1 for two; 2.13.0 for one")
    assert "torch_2_12_1: 1" in found.advice
    assert "which these do not: one, two." in found.advice
    tagged = [node("a", torch_2_13=1.0), node("b", {"torch": "2.12.1"}, torch_2_12=1.0)]
    arms = {"one": {"CPU": 1, "torch_2_13": 1}, "two": {"CPU": 1, "torch_2_12": 1}}
    assert problems(tagged, arms) == []
    (half,) = problems([*tagged, node("c")], {**arms, "two": {"CPU": 1}})
    assert "trials of arm two could land" in half.found


def test_the_table_and_the_json_hold_a_row_for_each_node():
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=200, file=nowhere)
        console.print(doctor_table([node("a", east=1.0), node("b", wrong=("numpy does not import",))]))
    text = console.export_text()
    assert "CPU 4, east 1" in text
    assert "2.13.0+cpu" in text
    assert "GPU" not in text
    assert "b: numpy does not import" in text
    written = json.loads(json.dumps(to_json(MIXED, problems(MIXED))))
    assert [one["host"] for one in written["nodes"]] == ["a", "b"]
    assert written["problems"][0]["found"].startswith("torch differs")


def test_the_probe_says_what_this_interpreter_has():
    done = subprocess.run([sys.executable, "-c", PROBE, "2.60.0"], capture_output=True, text=True, check=True)
    facts = facts_of("here", {}, done.stdout, "")
    import torch

    assert facts.wrong == ()
    assert facts.host == socket.gethostname()
    assert facts.versions["torch"] == torch.__version__
    assert set(facts.versions) == set(PACKAGES)
    assert facts.capability == torch.backends.cpu.get_cpu_capability()
    assert facts.cpu
