"""A launch from grid file to store: check, prepare, place, record. Which launcher places trials makes no difference."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from rich.console import Console

from ablate.cluster.node_types import NodeType
from ablate.design.cross import trials
from ablate.design.factors import written_levels
from ablate.design.grid import GridSpec, Outcome, load_grid
from ablate.design.plan import refuse_oversubscription
from ablate.design.reference_arm import reference_arm
from ablate.design.resolve import check_settings, find_trainable
from ablate.design.shadow import check_not_shadowed
from ablate.design.trial_spec import TrialSpec
from ablate.design.yaml_source import Loc, dotted, read_yaml
from ablate.errors import BadInput, Problem, StoreError
from ablate.launch import placement
from ablate.launch.after import After, Then, tried_again
from ablate.launch.code_state import CodeState, code_state
from ablate.launch.hopeless import Hopeless
from ablate.launch.inputs import Inputs, trial_key
from ablate.launch.interruption import sigterm_raises
from ablate.launch.local import LocalLauncher
from ablate.launch.outcome import check_recorded
from ablate.launch.preparation import Preparation
from ablate.launch.progress import Display, State
from ablate.launch.ray_code import choose
from ablate.launch.ray_launcher import RayLauncher
from ablate.record.paths import StorePaths
from ablate.record.remote_store import open_store
from ablate.record.store import Store
from ablate.trial.prepare import Prepared, model_key
from ablate.trial.task import ReferenceArm, TrialEnd, TrialTask

NOTE = 300
"""Letters that are shown of a failure that is followed by another attempt; the rest is in the store."""


class Launcher(Protocol):
    """What places trials: the local launcher and the Ray launcher, held to one contract test."""

    def nodes(self) -> list[placement.Node]:
        """Return the machines there are."""
        ...

    def node_types(self) -> Sequence[NodeType]:
        """Return what the cluster can add, as far as it tells."""
        ...

    @property
    def if_unmet(self) -> str:
        """What to do about an arm that fits on none of these."""
        ...

    def start(self) -> None:
        """Be ready to place."""
        ...

    def run(self, tasks: Sequence[TrialTask], after: After) -> None:
        """Run every task and do what ``after``, told of each end in this thread, says follows."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


@dataclass(frozen=True)
class Study:
    """A grid that was read and checked, and where its code is found.

    Attributes:
        path: the grid file.
        grid: what it says.
        specs: its trials, in launch order.
        search: folders that the trainable is imported from first.
        where: names a place of the grid file.
        inputs: weights and batches from elsewhere to run on; None for the trainable's own.
        keep: folder that every trial's audit writes its inputs and values to; None for none.
    """

    path: Path
    grid: GridSpec
    specs: tuple[TrialSpec, ...]
    search: tuple[str, ...]
    where: Callable[[Loc], str] = dotted
    inputs: Inputs | None = None
    keep: Path | None = None


@dataclass(frozen=True)
class Launched:
    """How a launch ended: the store, this launch's attempts that failed, and trials given up after all failed alike."""

    root: Path
    failed: tuple[TrialEnd, ...]
    ran: int
    kept: int
    not_run: int = 0


def read_study(path: Path, cores: int | None = None) -> Study:
    """Read a grid and check it against its trainable's source and this machine, importing neither torch nor ray.

    Args:
        path: the grid file.
        cores: the most that a trial could use where it is to run; None for this machine's.

    Raises:
        BadInput: with every problem found.
    """
    grid = load_grid(path)
    search = (path.resolve().parent, Path.cwd())
    check_not_shadowed(search)
    written = read_yaml(path)
    where = written.where
    source = find_trainable(grid.trainable, search)
    if problems := check_settings(source, grid, where, written_levels(written)):
        raise BadInput(*problems)
    refuse_oversubscription(grid, cores or placement.available_cores(), where)
    return Study(path, grid, trials(grid), tuple(dict.fromkeys(str(folder) for folder in search)), where)


def launch(
    study: Study,
    launcher: Launcher,
    root: Path | str,
    console: Console,
    allow_mixed_code: bool = False,
    node_types: Sequence[NodeType] = (),
) -> Launched:
    """Run what the store does not hold yet.

    Args:
        study: the study.
        launcher: places its trials.
        root: the store: its folder, or its URI.
        console: for how far it is.
        allow_mixed_code: continue a study that other code began.
        node_types: what the launcher's cluster can add; if none are given, it is asked.

    Raises:
        BadInput: bad trainable or data, or a store of another study.
        UnmetPlacement: an arm that no machine can run.
        StoreError: a store that is locked, full or read-only, or refuses.
        Terminated, KeyboardInterrupt: interrupted; what was acknowledged is in the store.
    """
    display = Display(console)
    try:
        _check_placement(study, launcher, node_types)
        launch_id, told = uuid.uuid4().hex, display.note
        with sigterm_raises(), open_store(root, study.grid, study.path.read_bytes(), launch_id, told) as store:
            here = Path(root) if store.remote is None else store.paths.root
            done = store.done()
            pending = [spec for spec in study.specs if spec.trial_id not in done]
            if not pending:
                return Launched(here, (), 0, len(done))
            display.stage(f"checking data, making initial weights for {len(pending)} trials, starting the launcher")
            preparation = Preparation(pending, store.paths.initial, study.search)
            try:
                launcher.start()  # Ray takes seconds to start, and so do imports and weights: side by side
                prepared = preparation.wait(lambda n, of: display.stage(f"initial weights: {n} of {of}"))
            finally:
                preparation.cancel()
            _same_code(store, prepared, allow_mixed_code)
            tasks = [make_task(study, store, spec, prepared) for spec in pending]
            store.publish()
            ended = _Ended(store, study.grid.outcome, tasks, len(study.specs), display)
            try:
                launcher.run(tasks, ended)
            except StoreError:
                raise  # nothing more can be written; what was acknowledged is safe in the journal
            except BaseException:
                launcher.close()  # its trials end with it, so that what they acknowledged can be set aside
                ended.interrupt()
                raise
            if ended.given_up:
                launcher.close()
                ended.interrupt()
            return Launched(here, tuple(ended.failed), len(tasks) - ended.given_up, len(done), ended.given_up)
    finally:
        display.close()
        launcher.close()


def _check_placement(study: Study, launcher: Launcher, node_types: Sequence[NodeType]) -> None:
    requests = {spec.arm: spec.resources for spec in study.specs}
    nodes = launcher.nodes()
    if placement.unmet(requests, nodes):
        known = node_types or launcher.node_types()
        placement.check(requests, nodes, study.where, known, "" if known else launcher.if_unmet)


class _Ended:
    """Takes in each attempt that ended, and knows how far the launch is."""

    def __init__(
        self, store: Store, outcome: Outcome, tasks: Sequence[TrialTask], trials_in_all: int, display: Display
    ) -> None:
        self.failed: list[TrialEnd] = []
        self._further: Counter[str] = Counter()  # attempts beyond this launch's first, by trial
        self._display = display
        self._store = store
        self._outcome: Outcome | None = outcome
        self._open = {task.spec.trial_id: task for task in tasks}
        self._done = trials_in_all - len(tasks)
        self._hopeless = Hopeless([task.spec for task in tasks], self._done)
        self.given_up = 0
        self._trials = trials_in_all
        self._length = tasks[0].spec.batches
        self._mutex = threading.Lock()  # the display asks from a thread of its own
        display.follow(self.state)

    def __call__(self, task: TrialTask, end: TrialEnd) -> Then | TrialTask:
        """Absorb an attempt; return the next one at the trial, if its surroundings failed it and not its code."""
        spec = task.spec
        if end.kind == "store":
            raise StoreError(Problem(str(self._store.paths.root), end.error))
        self._store.collect(spec.trial_id, task.attempt)
        if end.status == "done" and self._outcome is not None:
            outcome, self._outcome = self._outcome, None
            check_recorded(outcome, self._store.paths, spec.trial_id, task.attempt)
        reached = self._store.rows_written(spec.trial_id, task.attempt)
        status = self._store.absorb(spec.trial_id, task.attempt)
        if status is None:
            status = self._store.fail(spec, task.attempt, end.kind or "infrastructure", end.error)
        if status == "failed" and tried_again(end, self._further[spec.trial_id]):
            return self._again(task, end)
        with self._mutex:
            del self._open[spec.trial_id]
            if status == "failed":
                self.failed.append(end)
            else:
                self._done += 1
        if status != "failed":
            self._hopeless.done()
            return Then.GO_ON
        self._hopeless.failed(spec, end, reached)
        if not self._open or not self._hopeless.gives_up(self._reached()):
            return Then.GO_ON
        self.given_up = len(self._open)
        return Then.STOP

    def _reached(self) -> list[int | None]:
        return [self._store.rows_written(task.spec.trial_id, task.attempt) for task in self._open.values()]

    def _again(self, task: TrialTask, end: TrialEnd) -> TrialTask:
        trial_id = task.spec.trial_id
        self._further[trial_id] += 1
        again = task.model_copy(update={"attempt": self._store.next_attempt(trial_id), "gpus": ()})
        with self._mutex:
            self._open[trial_id] = again
        self._display.note(f"{' '.join(end.error.split())[:NOTE]}: tried again as attempt {again.attempt}")
        return again

    def interrupt(self) -> None:
        """Record that what still ran was interrupted; its rows are kept as an attempt."""
        for task in self._open.values():
            with suppress(StoreError):  # what was uploaded is taken in by the next launch
                self._store.collect(task.spec.trial_id, task.attempt, wait=False)
            if self._store.paths.trial_json(task.spec.trial_id, task.attempt).exists():
                self._store.absorb(task.spec.trial_id, task.attempt)
            elif self._store.paths.rows(task.spec.trial_id, task.attempt).exists():
                self._store.fail(task.spec, task.attempt, "interrupted", "the launch was interrupted")

    def state(self) -> State:
        """Count acknowledged rows, from the size of the journals of what runs."""
        with self._mutex:
            tasks, done, failed = list(self._open.values()), self._done, len(self.failed)
        rows = [self._store.rows_written(task.spec.trial_id, task.attempt) for task in tasks]
        return State(
            done=done,
            failed=failed,
            running=sum(count is not None for count in rows),
            trials=self._trials,
            batches=(done + failed) * self._length + sum(count or 0 for count in rows),
            batches_in_all=self._trials * self._length,
        )


def make_task(study: Study, store: Store, spec: TrialSpec, prepared: Prepared) -> TrialTask:
    """Return the next attempt at a trial."""
    code = _code(study.path.resolve().parent, store.paths.root)
    weights = prepared.weights[model_key(spec)]
    batches = study.inputs.batches.get(trial_key(spec)) if study.inputs else None
    return TrialTask(
        spec=spec,
        root=str(store.paths.root.resolve()),
        remote=store.remote,
        attempt=store.next_attempt(spec.trial_id),
        cwd=str(Path.cwd()),
        search=study.search,
        weights=study.inputs.weights_of(spec, store.paths.initial) if study.inputs else weights,
        data_hash=prepared.data[model_key(spec)],
        git_commit=code.commit,
        git_dirty=code.dirty,
        git_diff=code.diff,
        reference=_reference(study.grid, spec),
        inputs=str(batches.resolve()) if batches else None,
        kept=str(study.keep.resolve() / f"{spec.trial_id}.safetensors") if study.keep else None,
        audit_whole=spec.block == min(study.grid.arms[spec.arm].blocks),
    )


def _reference(grid: GridSpec, spec: TrialSpec) -> ReferenceArm:
    name = reference_arm(spec.arm, grid)
    arm = grid.arms[name]
    return ReferenceArm(arm=name, settings={**grid.settings, **arm.settings, **spec.factors}, env=arm.numerics.env)


def _same_code(store: Store, prepared: Prepared, allow_mixed_code: bool) -> None:
    """Refuse to continue a study with another version of the trainable or of torch.

    Raises:
        BadInput: naming which changed.
    """
    if allow_mixed_code:
        return
    mixed = [
        Problem(
            where=f"{store.paths.root}: {column}",
            found=f"trials recorded there ran with {', '.join(sorted(before))}, now it is {now}",
            advice="Start a new study (another `study:` name), or pass --allow-mixed-code; reports then say so.",
        )
        for column, now in (("source_hash", prepared.source_hash), ("torch", prepared.torch))
        if (before := store.seen(column)) - {now}
    ]
    if mixed:
        raise BadInput(*mixed)


@cache
def _code(folder: Path, root: Path) -> CodeState:
    return code_state(folder, StorePaths(root))


def new_launcher(
    local: bool,
    address: str | None,
    offers: Sequence[str] = (),
    study: Study | None = None,
    store: Path | None = None,
    leave_at_once: int | None = None,
) -> Launcher:
    """Return the launcher asked for.

    Args:
        local: without Ray.
        address: of a Ray cluster; None for an embedded one.
        offers: tags that this machine is said to offer, as ``placement.read_offers`` takes them.
        study: whose code is sent to a cluster's nodes; None if they have it.
        store: that a cluster's nodes have to reach by its path; None for one at a URI.
        leave_at_once: idle nodes that may leave a cluster at a time; None for as many as there are.

    Raises:
        BadInput: a word that is no offer, an offer for a cluster, a dashboard's address, or code that cannot be sent.
    """
    launch_id = uuid.uuid4().hex
    offered = placement.read_offers(offers)
    if local:
        return LocalLauncher(launch_id, offered)
    if address and offered:
        advice = "start each node with what it offers: ray start --resources '{\"TAG\": 1}'"
        raise BadInput(Problem("--offer", f"with a cluster at {address}", "without --address", advice=advice))
    if address and address.startswith(("http://", "https://")):
        found = "is the address of a dashboard, which takes submitted launches only"
        raise BadInput(Problem(f"--address {address}", found, "HEAD:6379, or --detach with this one"))
    code = choose(study.path, study.grid.trainable, Path.cwd(), store) if address and study else None
    return RayLauncher(launch_id, address, offered, code, store, leave_at_once)
