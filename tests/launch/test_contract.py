"""The contract of a launcher, held by the local one and by Ray's own: real Ray, real processes."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ablate.launch.after import Then, tried_again
from ablate.launch.launchers import Launcher, new_launcher
from ablate.launch.preparation import Preparation
from ablate.launch.study import read_study
from ablate.launch.tasks import make_task
from ablate.record.flock import wait_until_free
from ablate.record.reader import Run
from ablate.record.store import Store
from ablate.trial.task import TrialEnd, TrialTask
from tests.conftest import Workplace

# Ray's own code warns in this process; what it warns of is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

MIXED = """\
arms:
  good: {}
  wide: {resources: {CPU: 2}, settings: {step_s: 0.05}}
  raises: {settings: {fault: raise}}
  diverges: {settings: {fault: not finite}}
  killed: {settings: {fault: kill}}
"""
ACTOR = re.compile(r"ray::\w*(TrialActor|ResourceTrainable)")
TUNE_LOGS = {"result.json", "progress.csv", "params.json", "params.pkl"}
HANGS = """\
arms:
  good: {}
  hangs: {settings: {fault: hang}}
"""


@dataclass
class Told:
    """What a launcher told, and what was seen of its processes meanwhile."""

    ends: list[tuple[TrialTask, TrialEnd]] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    tune_files: list[str] = field(default_factory=list)
    actors: set[int] = field(default_factory=set)
    rows: dict[str, list[dict]] = field(default_factory=dict)
    root: Path | None = None
    stop_s: float = 0.0
    stopped: list[TrialEnd] = field(default_factory=list)
    still_writing: list[str] = field(default_factory=list)
    all_left: dict[int, str] = field(default_factory=dict)

    def of(self, arm: str) -> list[TrialEnd]:
        return [end for task, end in self.ends if task.spec.arm == arm]

    def attempts(self, trial_id: str) -> list[int]:
        return [end.attempt for _, end in self.ends if end.trial_id == trial_id]


def prepare(place: Workplace, study: str, arms: str) -> tuple[Store, list[TrialTask]]:
    read = read_study(place.grid(arms, f"{study}.yaml", study=study))
    (place.folder / "runs").mkdir(exist_ok=True)
    store = Store.open(place.root(study), read.grid, read.path.read_bytes())
    prepared = Preparation(read.specs, store.paths.initial, read.search).wait(lambda n, of: None)
    return store, [make_task(read, store, spec, prepared) for spec in read.specs]


def run_mixed(launcher: Launcher, place: Workplace, told: Told, study: str) -> None:
    store, tasks = prepare(place, study, MIXED)
    told.root = store.paths.root

    def after(task: TrialTask, end: TrialEnd) -> Then | TrialTask:
        told.ends.append((task, end))
        told.threads.append(threading.get_ident())
        if store.absorb(task.spec.trial_id, task.attempt) is None:
            store.fail(task.spec, task.attempt, end.kind or "infrastructure", end.error)
        if tried_again(end, task.attempt - 1):
            return task.model_copy(update={"attempt": store.next_attempt(task.spec.trial_id)})
        return Then.GO_ON

    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            written = [
                path for folder in Path(tempfile.gettempdir()).glob("ablate-tune-*") for path in folder.rglob("*")
            ]
            told.tune_files += [path.name for path in written if path.name in TUNE_LOGS]
            told.actors |= {pid for pid, command in place.running().items() if ACTOR.match(command)}

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with store:
            launcher.run(tasks, after)
    finally:
        over.set()
        watcher.join()
    for row in Run(told.root).trials().to_pylist():
        told.rows.setdefault(row["arm"], []).append(row)


def run_stopped(launcher: Launcher, place: Workplace, told: Told, study: str) -> None:
    store, tasks = prepare(place, study, HANGS)
    tasks.sort(key=lambda task: task.spec.arm == "good")  # one hangs on one core before a good one ends on the other
    tasks.insert(1, tasks.pop())

    def after(task: TrialTask, end: TrialEnd) -> Then:
        told.stopped.append(end)
        told.stop_s = time.monotonic()
        return Then.STOP

    with store:
        launcher.run(tasks, after)
        told.stop_s = time.monotonic() - told.stop_s
        journals = [store.paths.rows(task.spec.trial_id, task.attempt) for task in tasks]
        told.still_writing = [str(path) for path in journals if not wait_until_free(str(path), 2.0)]


@pytest.fixture(scope="module", params=["local", "ray"])
def told(request, shared_place) -> Told:
    told = Told()
    with pytest.MonkeyPatch.context() as patch:
        name, _, value = shared_place.mark.partition("=")
        patch.setenv(name, value)
        patch.chdir(shared_place.folder)
        launcher = new_launcher(local=request.param == "local", address=None)
        try:
            launcher.start()
            run_mixed(launcher, shared_place, told, f"mixed_{request.param}")
            run_stopped(launcher, shared_place, told, f"stopped_{request.param}")
        finally:
            launcher.close()
        told.all_left = shared_place.left_running()
    return told


def test_every_end_is_told_once(told):
    keys = [(task.spec.trial_id, task.attempt) for task, _ in told.ends]
    assert len(keys) == len(set(keys))
    assert len({trial_id for trial_id, _ in keys}) == 10
    assert [(end.trial_id, end.attempt) for _, end in told.ends] == keys


def test_ends_are_told_in_the_calling_thread(told):
    assert set(told.threads) == {threading.get_ident()}


def test_a_good_trial_is_done(told):
    assert [end.status for end in told.of("good") + told.of("wide")] == ["done"] * 4


def test_a_trial_that_raises_fails_by_code_and_names_its_batch(told):
    for end in told.of("raises"):
        assert (end.status, end.kind) == ("failed", "code")
        assert f"trial {end.trial_id} (arm raises, block " in end.error
        assert "attempt 1, batch 3:" in end.error
        assert "Planned: the double raises, as it was told" in end.error


def test_a_loss_that_is_not_a_number_ends_the_trial_as_diverged(told):
    assert [(end.status, end.kind) for end in told.of("diverges")] == [("diverged", None)] * 2
    assert [row["batches"] for row in told.rows["diverges"]] == [4, 4]


def test_a_trial_that_is_killed_fails_by_infrastructure_and_is_tried_three_times_more(told):
    for end in told.of("killed"):
        assert (end.status, end.kind) == ("failed", "infrastructure")
        assert end.error.endswith(f"attempt {end.attempt}: its process died by signal 9")
    for row in told.rows["killed"]:
        assert told.attempts(row["trial_id"]) == [1, 2, 3, 4]
        assert (row["attempt"], row["failures_code"], row["failures_infrastructure"]) == (4, 0, 4)


def test_what_its_own_code_failed_is_not_tried_again(told):
    for row in told.rows["raises"]:
        assert told.attempts(row["trial_id"]) == [1]
        assert (row["failures_code"], row["failures_infrastructure"]) == (1, 0)


def test_an_arm_that_asks_for_all_cores_runs_beside_nothing(told):
    def span(row):
        begin = row["started_utc"].timestamp()
        return begin, begin + row["wall_s"]

    for wide in told.rows["wide"]:
        begin, end = span(wide)
        others = [row for rows in told.rows.values() for row in rows if row is not wide and row["wall_s"]]
        assert len(others) >= 7
        for other in others:
            assert span(other)[1] <= begin or span(other)[0] >= end, (wide["arm"], other["arm"])


def test_actors_are_reused(told):
    """Sixteen attempts of two kinds of request; Ray may start an actor for one that waits before another is free."""
    assert (1 <= len(told.actors) <= len(told.ends) // 2) if "ray" in told.root.name else not told.actors


def test_tune_writes_no_log_files(told):
    assert told.tune_files == []


def test_saying_no_ends_the_rest(told):
    assert len(told.stopped) == 1
    assert told.stopped[0].status == "done"
    assert told.stop_s < 15  # Tune gives its actors 10 s before it kills them
    assert told.still_writing == []


def test_nothing_is_left_running(told):
    assert told.all_left == {}
