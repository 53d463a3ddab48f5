"""Launches that go on without the terminal: submitted to a cluster, followed and ended from anywhere."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.errors import AblateError, BadInput, Problem, StoreError, nearest
from ablate.launch.code_state import sent_along
from ablate.launch.job_server import reach_jobs
from ablate.launch.ray_code import choose
from ablate.record.status import ArmStatus, RunStatus
from ablate.remote.location import is_uri, parent

if TYPE_CHECKING:
    from ablate.launch.ray_jobs import Job, Jobs
    from ablate.launch.study import Study

LAST_LINES = 6
"""How much of a launch's own words ``status`` repeats."""


@dataclass(frozen=True)
class Followed:
    """What is known of a submitted launch.

    Attributes:
        job: the job.
        run: how far its run is, as the head reads its store; None if there is none yet, or it cannot be read.
        why: why there is no ``run``; empty if there is.
        said: the last lines that the launch printed.
    """

    job: Job
    run: RunStatus | None
    why: str
    said: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything, for scripts."""
        return {"job": asdict(self.job), "run": self.run and asdict(self.run), "why": self.why, "said": self.said}


def submit(
    study: Study,
    store: Path | str,
    address: str | None,
    mixed: bool,
    cluster: Path | None,
    refused: Mapping[str, bool],
    leave_at_once: int | None = None,
) -> list[str]:
    """Submit a launch to the cluster's head and say how to follow it.

    Args:
        study: what to launch.
        store: where its run is to be, as the nodes see it: a path, made absolute here, or a URI.
        address: of the cluster's dashboard.
        mixed: whether ``--allow-mixed-code`` was given.
        cluster: file that says what the cluster can add; it is sent along, so it lies with the study.
        refused: options that mean nothing here -> whether they were given.
        leave_at_once: idle nodes that may leave at a time; None for no limit.

    Raises:
        BadInput: without an address, with an option that is refused, or for code or a file that cannot be sent.
        UnmetPlacement: no job server answers.
        StoreError: a launch of the same run is already there.
    """
    for option, given in refused.items():
        if given:
            raise BadInput(Problem(f"--detach {option}", "a submitted launch runs on a cluster", "one of the two"))
    if not address:
        advice = "Give the cluster's dashboard, as in --address http://HEAD:8265."
        raise BadInput(Problem("--detach", "without --address there is no cluster to submit to", advice=advice))
    path = None if is_uri(store) else Path(store).absolute()
    code = choose(study.path, study.grid.trainable, Path.cwd(), path)
    jobs = reach_jobs(address)
    place = str(path or store)
    for job in jobs.launches():
        if job.store == place and not job.over:
            found = f"job {job.id} is already launching it on {jobs.url}"
            raise StoreError(Problem(place, found, advice=f"Follow it: {_command('status', place, address)}"))
    grid = study.path.resolve().relative_to(code.folder)
    if cluster and not cluster.resolve().is_relative_to(code.folder):
        found = f"is not in {code.folder}, which is what the cluster is sent"
        raise BadInput(Problem(f"--cluster {cluster}", found, advice="Copy it there."))
    folder = path.parent if path else parent(place)
    words = ["launch", str(grid), "--runs", str(folder), *(["--allow-mixed-code"] if mixed else [])]
    words += ["--cluster", str(cluster.resolve().relative_to(code.folder))] if cluster else []
    words += ["--leave-at-once", str(leave_at_once)] if leave_at_once else []
    metadata = {"ablate": "launch", "study": study.grid.study, "store": place}
    runtime_env = {**code.runtime_env, "env_vars": sent_along(code.folder)}
    job_id = jobs.submit(words, f"ablate-{study.grid.study}", metadata, runtime_env)
    return [
        f"submitted to {jobs.url} as job {job_id}; it goes on without this terminal",
        f"its run: {place}" + (", on the cluster's machines: every node has to reach that path" if path else ""),
        f"follow it: {_command('status', place, address)}",
        f"all it prints: ray job logs --follow --address {jobs.url} {job_id}",
        f"end it: {_command('stop', place, address)}",
    ]


def follow(run: str, address: str) -> Followed:
    """Look at a submitted launch.

    The store is read on the head, since only the cluster may reach it; that takes a job of a few seconds.

    Raises:
        BadInput: there is no such launch.
        UnmetPlacement: no job server answers.
    """
    jobs = reach_jobs(address)
    return _followed(jobs, find(jobs, run))


def _followed(jobs: Jobs, job: Job) -> Followed:
    if job.state == "PENDING":
        return Followed(job, None, "the launch has not begun", ())
    said = tuple(jobs.printed(job.id).strip().splitlines()[-LAST_LINES:])
    try:
        printed = jobs.ask(["status", job.store, "--json"])
    except AblateError as error:
        return Followed(job, None, str(error), said)
    return Followed(job, run_status_of(printed), "", said)


def stop(run: str, address: str) -> Followed:
    """End a submitted launch, if it still runs, and say what is kept.

    Raises:
        BadInput: there is no such launch.
        UnmetPlacement: no job server answers.
        AblateError: it does not end.
    """
    jobs = reach_jobs(address)
    job = find(jobs, run)
    return _followed(jobs, job if job.over else jobs.stop(job.id))


def find(jobs: Jobs, run: str) -> Job:
    """Return the newest submitted launch of a run.

    Args:
        jobs: the cluster's.
        run: a study's name, the store's path or URI, or a job's id.

    Raises:
        BadInput: there is none; what there is, is listed.
    """
    launches = jobs.launches()
    names = {run, str(Path(run).absolute())}
    for job in launches:
        if names & {job.id, job.study, job.store}:
            return job
    known = list(dict.fromkeys(job.study for job in launches))
    found = f"no launch of it was submitted to {jobs.url}"
    raise BadInput(Problem(run, found, ", ".join(known) or "none was submitted", nearest(run, known)))


def run_status_of(printed: str) -> RunStatus:
    """Return what ``ablate status --json`` printed."""
    from ablate.launch.ray_jobs import printed_json

    content = printed_json(printed)
    arms = tuple(ArmStatus(**_known(ArmStatus, arm)) for arm in content["arms"])
    return RunStatus(**{**_known(RunStatus, content), "arms": arms})


def describe(job: Job) -> str:
    """Return a job's state in a line."""
    ended = f", exit code {job.exit_code}" if job.exit_code is not None else ""
    return f"job {job.id}: {job.state.lower()}{ended}; its run: {job.store}"


def _known(kind: type, content: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in content.items() if name in names}


def _command(verb: str, run: str, address: str) -> str:
    return shlex.join(["ablate", verb, run, "--address", address])
