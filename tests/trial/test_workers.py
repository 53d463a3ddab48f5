"""Several processes compute a trial together: the same trial as with one, and one end for all of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from spec_factory import make_task
from worker_trainables import WORK_S

from ablate.audit.bounds import error_bound
from ablate.audit.roundoff import FLOAT32
from ablate.design.trial_spec import AuditPlan, CheckpointPlan, GuardPlan, Numerics, SketchPlan
from ablate.record.journal import read_identity, read_journal, rows_written
from ablate.record.json_lines import read_lines
from ablate.record.paths import StorePaths
from ablate.trial.isolation import Isolation
from ablate.trial.local_workers import LocalWorkers
from ablate.trial.task import TrialEnd

BATCHES = 5
SAME = 1e-12
"""Relative, in float64: sums of 20 terms in another order, five Adam steps on from there; measured 4e-16."""


@dataclass
class Place:
    """Where trials of these tests run; ``mark`` is in the environment of every process they start."""

    folder: Path
    mark: str
    workers: LocalWorkers
    count: int = 0
    started: list[socket.socket] = field(default_factory=list)

    def run(self, name: str = "Shared", root: Path | None = None, attempt: int = 1, **changes: Any) -> Ran:
        self.count += 1
        root = root or self.folder / str(self.count)
        numerics = Numerics(**{"workers": 2, "precision": "float64", **changes.pop("numerics", {})})
        task = make_task(
            root, f"worker_trainables:{name}", attempt, numerics=numerics, **{"batches": BATCHES, **changes}
        )
        return Ran(root, task.spec.trial_id, attempt, self.workers.run(task, self.started.append))

    def processes(self) -> list[psutil.Process]:
        """Return trials' processes: those of this mark below a fork server."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("ABLATE_TEST") == self.mark and process.pid != os.getpid():
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        servers = {process.pid for process in found}
        return [process for process in found if process.ppid() in servers]


@dataclass
class Ran:
    root: Path
    trial_id: str
    attempt: int
    end: TrialEnd

    @property
    def rows(self) -> Any:
        return read_journal(StorePaths(self.root).rows(self.trial_id, self.attempt)).rows

    @property
    def columns(self) -> dict[str, Any]:
        path = StorePaths(self.root).trial_json(self.trial_id, self.attempt)
        return dict(json.loads(path.read_text())) if path.exists() else {}

    @property
    def audits(self) -> list[dict[str, Any]]:
        return list(read_lines(StorePaths(self.root).audit_lines(self.trial_id, self.attempt)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_TEST", str(folder))
        made = Place(folder, str(folder), LocalWorkers(Isolation(uuid.uuid4().hex)))
        yield made
        made.workers.close()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test of whole trials no process of one is left."""
    yield
    if "place" in request.fixturenames:
        place = request.getfixturevalue("place")
        assert wait_until(lambda: not place.processes(), 10), place.processes()


def wait_until(true: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return bool(true())


@pytest.fixture(scope="module")
def one(place: Place) -> Ran:
    return place.run(numerics={"workers": 1}, audit=AuditPlan(first=2))


@pytest.fixture(scope="module")
def two(place: Place) -> Ran:
    return place.run(audit=AuditPlan(first=2))


def alike(ran: Ran, other: Ran, names: tuple[str, ...] = ("loss", "metric.error")) -> None:
    assert (ran.end.status, other.end.status) == ("done", "done"), (ran.end.error, other.end.error)
    for name in names:
        np.testing.assert_allclose(ran.rows[name], other.rows[name], rtol=SAME)
    for name in ("order_hash", "content_hash"):
        assert ran.rows[name].tolist() == other.rows[name].tolist()
    for name in ("draw_hash", "order_hash", "initial_hash", "data_hash"):
        assert ran.columns.get(name) == other.columns.get(name)


def test_two_workers_train_what_one_does(one: Ran, two: Ran) -> None:
    alike(one, two)
    assert two.columns["evaluate"]["out"] == pytest.approx(one.columns["evaluate"]["out"], rel=SAME)
    assert one.end.trial_id != two.end.trial_id  # they round differently, so they are two trials


def test_how_many_and_where_is_recorded(one: Ran, two: Ran) -> None:
    assert (one.columns["workers"], one.columns.get("worker_hosts")) == (1, None)
    assert two.columns["workers"] == 2
    hosts = two.columns["worker_hosts"].split("; ")
    assert [host.split(" ")[0] for host in hosts] == [socket.gethostname()] * 2


@pytest.mark.parametrize("who", [0, 1])
def test_the_processor_time_is_that_of_all_workers(place: Place, who: int) -> None:
    without, ran = place.run(), place.run(settings={"fault": "work", "who": who})
    assert ran.end.status == "done"
    assert ran.columns["cpu_s"] >= without.columns["cpu_s"] + WORK_S / 2  # the rest is some 0.2 s


def test_what_they_made_together_is_audited_and_said(two: Ran) -> None:
    judged = [row for row in two.audits if row["check"] in ("distance", "free", "slope", "continuity")]
    assert {row["quantity"] for row in judged} == {"loss", "gradient", "update", "state"}
    assert {row["verdict"] for row in judged} <= {"equal", "rounding", "clean"}
    (precision,) = [row["detail"] for row in two.audits if row["check"] == "precision"]
    assert precision.endswith("what 2 workers made together is held against one process on the whole batch")
    assert [row["batch_index"] for row in two.audits if row["check"] == "saved_tensors"] == [0]


def test_shares_of_different_size_are_weighed_by_their_rows(place: Place, one: Ran) -> None:
    alike(place.run(numerics={"workers": 3}), one)


def test_in_float32_they_differ_by_the_rounding_of_one_sum(place: Place) -> None:
    """At batch 0 the weights are equal; each loss is within the bound of a sum of 20 terms."""
    first = [
        float(place.run(numerics={"workers": workers, "precision": "float32"}, batches=1).rows["loss"][0])
        for workers in (1, 2)
    ]
    assert abs(first[0] - first[1]) <= 2 * error_bound(max(first), FLOAT32, 20)


def test_players_that_use_each_others_parameters_and_a_parameter_that_none_uses(place: Place) -> None:
    ran = [place.run("Two", numerics={"workers": workers}) for workers in (1, 2)]
    alike(*ran, names=("loss", "metric.loss_two"))


def test_rows_are_permuted_before_they_are_shared_out(place: Place) -> None:
    ran = [place.run(numerics={"workers": workers, "perturb": "permute-rows"}) for workers in (1, 2)]
    alike(*ran)
    assert ran[0].columns["perturbation_hash"] == ran[1].columns["perturbation_hash"]


def test_bfloat16(place: Place) -> None:
    ran = place.run(numerics={"precision": "bfloat16"}, audit=AuditPlan(first=1))
    assert ran.end.status == "done", ran.end.error
    assert {row["verdict"] for row in ran.audits if row["check"] == "distance"} <= {"equal", "rounding", "reduced"}


def test_a_loss_that_is_no_number_in_one_worker_ends_the_trial_as_diverged(place: Place) -> None:
    ran = place.run(settings={"fault": "not finite"})
    assert (ran.end.status, len(ran.rows)) == ("diverged", 3)
    assert np.isnan(ran.rows["loss"][2])


def test_a_loss_that_is_declared_a_mean_and_is_a_sum_is_found_by_the_audit(place: Place) -> None:
    ran = place.run(settings={"fault": "sum"}, audit=AuditPlan(first=1))
    assert ran.end.status == "done", ran.end.error
    found = {(row["quantity"], row["verdict"]) for row in ran.audits if row["check"] == "distance"}
    assert ("loss", "bug") in found
    assert ("gradient", "bug") in found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"name": "Undeclared"},
            "workers: asked for several, but Undeclared does not say mean_over_rows",
        ),
        (
            {"settings": {"fault": "batch norm"}},
            "workers: asked for several, but 2 (BatchNorm1d) normalises over the rows of a batch",
        ),
        ({"settings": {"rows": 1}}, "workers: asked for 2, but a batch has 1 row"),
        (
            {"settings": {"fault": "other data"}},
            "batch 2, batches(): worker 1 has another content than worker 0",
        ),
        ({"settings": {"fault": "other order"}}, "batch 2, batches(): worker 1 has another order than worker 0"),
    ],
    ids=["undeclared", "batch norm", "one row", "other data", "other order"],
)
def test_what_cannot_be_shared_out_is_refused(place: Place, changes: dict[str, Any], words: str) -> None:
    ran = place.run(guard=GuardPlan(first=5, every=0), **changes)
    assert (ran.end.status, ran.end.kind) == ("failed", "code")
    assert words in ran.end.error


@pytest.mark.parametrize("who", [0, 1])
def test_an_error_in_one_worker_fails_the_attempt_by_code_and_names_it(place: Place, who: int) -> None:
    ran = place.run(settings={"fault": "raise", "who": who})
    assert (ran.end.status, ran.end.kind) == ("failed", "code")
    assert f", attempt 1, worker {who} of 2, batch 2:" in ran.end.error
    assert "ValueError: the user's own mistake" in ran.end.error
    assert len(ran.rows) == 2  # what was recorded before stays
    assert ran.columns.get("failure_kind") == ("code" if who == 0 else None)  # else the launch writes it


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize(
    ("fault", "words"), [("kill", "its process died by signal 9"), ("exit", "its process ended with code 7")]
)
def test_a_worker_that_dies_fails_the_attempt_by_infrastructure(place: Place, fault: str, words: str, who: int) -> None:
    ran = place.run(settings={"fault": fault, "who": who})
    assert (ran.end.status, ran.end.kind) == ("failed", "infrastructure")
    assert f", attempt 1, worker {who} of 2: {words}" in ran.end.error
    assert (len(ran.rows), ran.columns) == (2, {})


def test_a_worker_that_hangs_is_ended_with_the_others(place: Place) -> None:
    ran = place.run(settings={"fault": "hang"}, stall_minutes=0.05)
    assert (ran.end.status, ran.end.kind) == ("failed", "infrastructure")
    assert "no batch for 0.05 minutes (stall_minutes), so it was ended as hung" in ran.end.error


def test_shutting_the_connection_down_kills_all(place: Place) -> None:
    before = len(place.started)
    ends: list[Ran] = []
    thread = threading.Thread(target=lambda: ends.append(place.run(settings={"fault": "hang"})))
    thread.start()
    assert wait_until(lambda: len(place.processes()) == 2, 60)
    place.started[before].shutdown(socket.SHUT_RDWR)
    thread.join(30)
    assert [ran.end.status for ran in ends] == ["failed"]


def test_it_goes_on_at_its_checkpoint_bit_for_bit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"fault": "raise", "at": 3}
    plan = CheckpointPlan(batches=2)
    broken = place.run(settings=settings, checkpoint=plan, numerics={"workers": 3})
    assert broken.end.kind == "code", broken.end.error
    monkeypatch.setenv("alive", "1")
    mended = LocalWorkers(Isolation(uuid.uuid4().hex))
    well = Place(place.folder / "well", place.mark, mended)
    again = well.run(settings=settings, checkpoint=plan, root=broken.root, attempt=2, numerics={"workers": 3})
    undisturbed = well.run(settings=settings, numerics={"workers": 3})
    mended.close()
    assert again.end.status == "done", again.end.error
    assert again.columns["resumed_at"] == 2
    assert again.rows["loss"].tolist() == undisturbed.rows["loss"].tolist()
    assert again.columns["evaluate"] == undisturbed.columns["evaluate"]


@pytest.mark.parametrize("who", [0, 1])
def test_told_to_leave_one_worker_takes_the_others_along(place: Place, who: int) -> None:
    settings = {"step_s": 0.02}
    ends: list[Ran] = []
    root = place.folder / f"told-{who}"
    thread = threading.Thread(
        target=lambda: ends.append(place.run(settings=settings, root=root, batches=10**6, sketches=SketchPlan(every=0)))
    )
    thread.start()
    paths = StorePaths(root)
    assert wait_until(lambda: list(paths.journal_attempts()) if paths.journal.is_dir() else [], 60)
    (key,) = paths.journal_attempts()
    assert wait_until(lambda: (rows_written(paths.rows(*key)) or 0) > 3, 60)
    first = int(read_identity(paths.rows(*key))["pid"])
    pids = {process.pid for process in place.processes()}
    assert len(pids) == 2
    assert first in pids
    os.kill(first if who == 0 else next(iter(pids - {first})), signal.SIGTERM)
    thread.join(60)
    (ran,) = ends
    assert (ran.end.status, ran.end.kind) == ("failed", "infrastructure")
    assert "told to leave (SIGTERM), it left after batch " in ran.end.error
    assert paths.checkpoint(ran.trial_id).exists()
    assert ran.columns["failure_kind"] == "infrastructure"
