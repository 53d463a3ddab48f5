"""Submitting, following and stopping without a cluster that could: said at once, with exit codes and advice."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from ablate.errors import AblateError, Problem
from ablate.launch import detach
from ablate.launch.detach import run_status_of
from ablate.launch.ray_jobs import Job

ARMS = "arms: {one: {}, two: {settings: {at: 4}}}\n"


def test_without_a_cluster_or_with_an_option_for_this_machine_it_is_bad_input(place):
    place.grid(ARMS)
    alone = place.ablate("launch", "grid.yaml", "--detach")
    assert alone.code == 2
    assert "without --address there is no cluster to submit to" in alone.err
    local = place.ablate("launch", "grid.yaml", "--detach", "--local", "--address", "http://127.0.0.1:1")
    assert local.code == 2
    assert "--detach --local: a submitted launch runs on a cluster" in local.err


@pytest.mark.parametrize(
    "words", [("launch", "grid.yaml", "--detach"), ("status", "doubles"), ("stop", "doubles"), ("doctor",)]
)
def test_a_dead_address_is_said_at_once(place, words):
    place.grid(ARMS)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        done = place.ablate(*words, "--address", address)
    assert done.code == 4
    assert f"--address {address}: no job server answers" in done.err
    assert "ray[default]" in done.err


def test_an_address_where_no_cluster_is_or_that_is_none_is_said_at_once(place):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        done = place.ablate("doctor", "--address", address)
    assert done.code == 4
    assert f"--address {address}: no Ray cluster answers" in done.words
    assert "Is it up (`ray status`)?" in done.words
    broken = place.ablate("stop", "doubles", "--address", "http://[head:8265")
    assert broken.code == 4
    assert "no job server answers: Invalid IPv6 URL" in broken.words


def test_a_dashboards_address_is_no_cluster_to_launch_on(place):
    place.grid(ARMS)
    done = place.ablate("launch", "grid.yaml", "--address", "http://127.0.0.1:8265")
    assert done.code == 2
    assert "is the address of a dashboard" in done.err
    assert "HEAD:6379, or --detach with this one" in done.err


class OneJob:
    """A job server with one launch, that counts how often all jobs are listed."""

    url = "http://head:8265"

    def __init__(self) -> None:
        self.job = Job("job-1", "RUNNING", "doubles", "/runs/doubles", 1.0)
        self.listed = self.stopped = 0

    def launches(self):
        self.listed += 1
        return [self.job]

    def stop(self, job_id):
        self.stopped += 1
        self.job = replace(self.job, state="STOPPED", ended=2.0)
        return self.job

    def printed(self, job_id):
        return "interrupted"

    def ask(self, words):
        raise AblateError(Problem("the store", "is away"))


def test_a_launch_that_is_stopped_is_looked_for_once_and_shown_as_it_ended(monkeypatch):
    jobs = OneJob()
    monkeypatch.setattr(detach, "reach_jobs", lambda address: jobs)
    ended = detach.stop("doubles", "http://head:8265")
    assert (jobs.listed, jobs.stopped) == (1, 1)
    assert (ended.job.state, ended.said, ended.why) == ("STOPPED", ("interrupted",), "the store: is away")
    assert detach.stop("job-1", "http://head:8265").job == ended.job
    assert (jobs.listed, jobs.stopped) == (2, 1)


def test_a_status_is_found_between_what_ray_prints():
    arm = {"arm": "one", "planned": 2, "done": 1, "diverged": 0, "failed": 0, "running": 1, "s_per_batch": None}
    arm |= {"cpu_share": None, "threads": None, "of_a_later_version": 3}
    run = {"study": "s", "question": "?", "writer": "", "arms": [arm], "batches": 5, "batches_in_all": 9}
    run |= {"left_s": None, "changed": 1.0, "gpus": []}
    found = run_status_of("a line of Ray's\n" + json.dumps(run, indent=1) + "\nanother {\n")
    assert (found.study, found.arms[0].running, found.batches) == ("s", 1, 5)
