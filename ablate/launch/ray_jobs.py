"""Jobs on a Ray cluster: commands of ablate that its head runs, whether or not who submitted them stays connected."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ablate.launch.ray_token import shown

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.update(shown())

import ray  # noqa: F401  (before the job client, which expects it)
from ray.job_submission import JobDetails, JobSubmissionClient

from ablate.errors import AblateError, BadInput, Problem
from ablate.launch.job_server import no_server

for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
    logging.getLogger(name).setLevel(logging.ERROR)  # the latter two set their own

STOP_S = 60
"""How long a stopped launch may take to record what it holds, before Ray kills it; Ray's own 3 s can be too few."""

POLL_S = 0.2
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
RAY_PRINTS = ("Runtime env is setting up", "Running entrypoint for job", "INFO worker.py")
MARK = "ablate"
"""Key in a job's metadata: which command of ours it is."""


@dataclass(frozen=True)
class Job:
    """A launch that was submitted.

    Attributes:
        id: as ``ray job logs`` takes it.
        state: PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED.
        study: its name.
        store: path on the cluster, or URI.
        submitted: seconds since the epoch.
        ended: seconds since the epoch; None if it is not over.
        exit_code: of ``ablate launch``; None if it is not over or was stopped.
        message: what Ray says of its state.
    """

    id: str
    state: str
    study: str
    store: str
    submitted: float
    ended: float | None = None
    exit_code: int | None = None
    message: str = ""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state in OVER


class Jobs:
    """The job server of one cluster."""

    def __init__(self, address: str) -> None:
        """Reach it, as `ablate.launch.job_server.reach_jobs` does once something answers there.

        Args:
            address: of the dashboard (``http://HEAD:8265``), or one that Ray finds the dashboard from.

        Raises:
            UnmetPlacement: no job server answers there.
            BadInput: this installation cannot submit jobs.
        """
        self._address = address
        try:
            with _only(address):
                self._client = JobSubmissionClient(address)
        except RuntimeError as error:
            if "ray[default]" in str(error):
                found = "this installation of Ray has no client for jobs"
                advice = "pip install 'ablate-study[cluster]', here and on the cluster's nodes"
                raise BadInput(Problem("ray", found, advice=advice)) from None
            raise no_server(address, error) from None
        except (OSError, ValueError, AssertionError) as error:
            raise no_server(address, error) from None
        self.url: str = self._client.get_address()

    def submit(
        self,
        words: Sequence[str],
        name: str,
        metadata: Mapping[str, str],
        runtime_env: Mapping[str, Any] | None = None,
    ) -> str:
        """Submit ``ablate WORDS`` to run on the head; return the job's id.

        Args:
            words: of the command line.
            name: the id begins with it.
            metadata: kept with the job.
            runtime_env: folders and variables, in Ray's words.

        Raises:
            UnmetPlacement: the job server refuses it.
        """
        given = dict(runtime_env or {})
        variables = {**given.pop("env_vars", {}), "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S)}
        with self._asking():
            return str(
                self._client.submit_job(
                    entrypoint=entrypoint(words),
                    submission_id=f"{name}-{uuid.uuid4().hex[:8]}",
                    metadata=dict(metadata),
                    runtime_env={**given, "env_vars": variables},
                )
            )

    def launches(self) -> list[Job]:
        """Return all submitted launches, the newest first."""
        with self._asking():
            listed = self._client.list_jobs()
        found = [_job(details) for details in listed if (details.metadata or {}).get(MARK) == "launch"]
        return sorted(found, key=lambda job: -job.submitted)

    def look(self, job_id: str) -> Job:
        """Return one launch as it is now."""
        with self._asking():
            return _job(self._client.get_job_info(job_id))

    def printed(self, job_id: str) -> str:
        """Return what a job printed so far, without what Ray adds."""
        with self._asking():
            lines = str(self._client.get_job_logs(job_id)).splitlines()
        return "\n".join(line for line in lines if not any(mark in line for mark in RAY_PRINTS))

    def stop(self, job_id: str) -> Job:
        """Stop a job as SIGTERM does, and wait for its end."""
        with self._asking():
            self._client.stop_job(job_id)
        return self._wait(job_id, STOP_S + 30)

    def ask(self, words: Sequence[str], codes: Sequence[int] = (0,), timeout_s: float = 120.0) -> str:
        """Run a command of ablate on the head and return what it printed; the job is forgotten afterwards.

        Args:
            words: of the command line.
            codes: exit codes that are answers.
            timeout_s: how long it may take.

        Raises:
            AblateError: it ended with another code, with what it printed; or it took too long.
        """
        job_id = self.submit(words, "ablate-look", {MARK: "look"})
        try:
            job = self._wait(job_id, timeout_s)
            printed = self.printed(job_id)
        finally:
            self._forget(job_id)
        if job.exit_code not in codes:
            said = "\n      ".join(printed.strip().splitlines()[-8:]) or job.message
            where = f"ablate {words[0]}, run on the head by {self.url}"
            raise AblateError(Problem(where, f"ended with code {job.exit_code}:\n      {said}"))
        return printed

    def _wait(self, job_id: str, timeout_s: float) -> Job:
        deadline = time.monotonic() + timeout_s
        while not (job := self.look(job_id)).over:
            if time.monotonic() > deadline:
                raise AblateError(Problem(f"job {job_id} on {self.url}", f"not over after {timeout_s:g} s"))
            time.sleep(POLL_S)
        return job

    def _forget(self, job_id: str) -> None:
        if not self.look(job_id).over:
            self.stop(job_id)
        with self._asking():
            self._client.delete_job(job_id)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            with _only(self._address):
                yield
        except (RuntimeError, OSError) as error:
            raise no_server(self._address, error) from None


def entrypoint(words: Sequence[str]) -> str:
    """Return the shell's line for ``ablate WORDS``, by the first interpreter there that has ablate."""
    pythons = " ".join(shlex.quote(python) for python in (sys.executable, "python3", "python"))
    missing = "error: no python on the head has ablate; install it there: pip install 'ablate-study[cluster]'"
    return (
        f"for python in {pythons}; do if \"$python\" -c 'import ablate' 2>/dev/null; "
        f'then exec "$python" -m ablate {shlex.join(words)}; fi; done; echo {shlex.quote(missing)} >&2; exit 4'
    )


def printed_json(printed: str) -> dict[str, Any]:
    """Return the JSON object that a command printed, found between other lines."""
    lines = printed.splitlines()
    first, last = lines.index("{"), len(lines) - lines[::-1].index("}")
    content: dict[str, Any] = json.loads("\n".join(lines[first:last]))
    return content


def _job(details: JobDetails) -> Job:
    kept = details.metadata or {}
    return Job(
        id=str(details.submission_id),
        state=details.status.value,
        study=kept.get("study", ""),
        store=kept.get("store", ""),
        submitted=(details.start_time or 0) / 1000,
        ended=(details.end_time or 0) / 1000 or None,
        exit_code=details.driver_exit_code,
        message=details.message or "",
    )


@contextmanager
def _only(address: str) -> Iterator[None]:
    """Hide the variables that would win over ``address``."""
    hidden = {name: os.environ.pop(name) for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS") if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
