"""Nodes that write elsewhere than the launch reads are refused before the first trial."""

from __future__ import annotations

import re
import socket

import pytest

from ablate.errors import StoreError
from ablate.launch import ray_nonce
from ablate.launch.ray_nodes import Answer
from ablate.launch.ray_nonce import judge, runs_trials, without_store
from ablate.trial.task import TrialTask
from tests.trial.spec_factory import make_spec


def test_a_node_whose_file_is_here_is_well(tmp_path):
    (tmp_path / "nonce-1").write_text("secret")
    judge(tmp_path, [Answer("a", {"CPU": 1}, ("nonce-1", "secret", ""))], patience_s=0)


def test_a_node_with_a_disk_of_its_own_is_named_and_what_to_do(tmp_path):
    (tmp_path / "nonce-1").write_text("secret")
    answers = [
        Answer("a", {"CPU": 1}, ("nonce-1", "secret", "")),
        Answer("b", {"CPU": 1}, ("nonce-2", "other", "")),
        Answer("c", {"CPU": 1}, ("nonce-3", "third", "No such file or directory: /runs/s")),
        Answer("d", {"CPU": 1}, error="no answer in 60 s"),
    ]
    with pytest.raises(StoreError) as refused:
        judge(tmp_path, answers, patience_s=0)
    words = str(refused.value)
    assert "node a" not in words
    assert "node b does not write into this store: there the same path is another folder" in words
    assert "node c does not write into this store: No such file or directory: /runs/s" in words
    assert "node d counts as live, and does not say what it writes: no answer in 60 s" in words
    assert "Look at it (`ablate doctor --address`), and launch again once it answers or Ray has missed it" in words
    assert re.search(r"--runs a folder that all of them mount at the same path, or a URI", words)
    assert refused.value.exit_code == 6


def test_a_file_of_the_same_name_with_another_text_is_not_the_nodes(tmp_path):
    (tmp_path / "nonce-1").write_text("an old one")
    with pytest.raises(StoreError, match="another folder"):
        judge(tmp_path, [Answer("a", {"CPU": 1}, ("nonce-1", "secret", ""))], patience_s=0)


def test_a_trial_that_lands_on_a_later_node_without_the_store_is_not_begun(tmp_path):
    task = TrialTask(spec=make_spec("m:f"), root=str(tmp_path), attempt=1, cwd="/", search=())
    end = without_store(task)
    assert (end.kind, end.status) == ("store", "failed")
    assert f"node {socket.gethostname()} does not have this store" in end.error
    assert "mount at the same path, or a URI" in end.error
    (tmp_path / "spec.json").touch()
    assert without_store(task) is None
    assert without_store(task.model_copy(update={"root": "/nowhere", "remote": "s3://b/r"})) is None


def test_a_head_that_runs_no_trials_is_not_asked():
    assert not runs_trials({"CPU": 0.0})
    assert runs_trials({"GPU": 1.0})


def test_a_node_that_was_lost_while_it_was_asked_keeps_no_launch_from_starting(tmp_path, monkeypatch):
    def node(name: str) -> dict[str, object]:
        return {"NodeID": name, "NodeManagerHostname": name, "Resources": {"CPU": 1.0}}

    both, one = [node("east"), node("west")], [node("west")]
    looks = [both, both, both, one]  # Ray counts a lost node as live for a while, though a task on it fails at once
    lost = Answer("east", {"CPU": 1}, error="The node doesn't exist any more", node="east")
    silent = Answer("west", {"CPU": 1}, error="no answer in 60 s", node="west")
    asked: list[list[str]] = []

    def ask_all(task, *arguments, nodes):
        asked.append([one["NodeID"] for one in nodes])
        return [lost]

    monkeypatch.setattr(ray_nonce, "alive", lambda: looks.pop(0))
    monkeypatch.setattr(ray_nonce, "ask_all", ask_all)
    monkeypatch.setattr(ray_nonce, "LOOK_S", 0.0)
    ray_nonce.check_shared(tmp_path)
    assert asked[0] == ["east", "west"]

    assert not looks
    monkeypatch.setattr(ray_nonce, "alive", lambda: one)
    monkeypatch.setattr(ray_nonce, "MISSED_S", 0.05)
    monkeypatch.setattr(ray_nonce, "ask_all", lambda *_, nodes: [silent])
    with pytest.raises(
        StoreError, match="node west counts as live, and does not say what it writes: no answer in 60 s"
    ):
        ray_nonce.check_shared(tmp_path)
