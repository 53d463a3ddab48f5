"""Looks at the curvature of what a trial kept, in a process of its own: from a task to rows in the journal.

The rows of one snapshot appear in the journal at once, by a rename, so a probe that was broken off goes on at the next
snapshot. What a snapshot cannot give is said in words, and the next one is looked at all the same.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ablate.curvature import CurvatureError, Hessian, Plan, game_rows, look, rows, step_of
from ablate.design.trial_spec import CurvaturePlan
from ablate.errors import Problem, StoreError
from ablate.record.disk import write_aside
from ablate.record.json_lines import jsonable
from ablate.record.paths import StorePaths
from ablate.trial import numerics
from ablate.trial.directions import Directions, load_directions, save_directions
from ablate.trial.ends import in_words, out_of_memory
from ablate.trial.importing import is_structured, load, source_hash
from ablate.trial.kept_weights import KeptWeights, KeptWeightsError
from ablate.trial.kept_weights import load as load_weights
from ablate.trial.notice import NOTICE
from ablate.trial.probe_set import probe_set
from ablate.trial.probed_model import ProbedModel, flat
from ablate.trial.protocol import Player
from ablate.trial.surface import surface_rows
from ablate.trial.task import FailureKind, ProbeRequest, TrialEnd, TrialTask

Rows = list[dict[str, Any]]


def run_probe(task: TrialTask) -> TrialEnd:
    """Look at the snapshots that a task names, in a process that has run no torch operation.

    Returns:
        Done, with the numbers of batches for which the trial kept nothing, if every snapshot that is there was looked
        at; else failed, with the reason for each that was not. Never raises for what the trainable does.
    """
    assert task.probe is not None, "a task without a probe is a trial's"
    request, spec = task.probe, task.spec
    paths = StorePaths(Path(task.root))
    missing: list[int] = []
    wrong: list[str] = []
    kind: FailureKind = "code"
    where = "before the first snapshot"
    try:
        numerics.apply(task.numerics, task.gpus)
        probe = _Probe(task, request, paths)
        for batches in request.at:
            where = _snapshot(batches)
            if NOTICE.given:
                return _failed(task, [*wrong, f"{where}: told to leave (SIGTERM)"], "infrastructure")
            try:
                if not probe.look_at(batches):
                    missing.append(batches)
            except StoreError:
                raise
            except Exception as error:
                if out_of_memory(error):
                    raise
                traceback.print_exc()
                wrong.append(f"{probe.where}: {in_words(error)}")
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        kind = "store" if isinstance(error, StoreError) else "memory" if out_of_memory(error) else "code"
        wrong.append(f"{where}: {in_words(error)}")
    if wrong:
        return _failed(task, wrong, kind)
    return TrialEnd(trial_id=spec.trial_id, attempt=task.attempt, status="done", missing=tuple(missing))


class _Probe:
    """One trial's probe.

    Raises:
        KeptWeightsError: the trainable's source is not the trial's.
        TrainableError: it gives no probe set.
    """

    def __init__(self, task: TrialTask, request: ProbeRequest, paths: StorePaths) -> None:
        self.where = ""
        self._spec = task.spec
        self._request = request
        self._plan = request.plan
        self._paths = paths
        make = load(task.spec.trainable, task.search)
        self._code = source_hash(make)
        if request.code is not None and not request.mixed:
            _check_code(request.code, self._code, task.spec.trainable)
        if not is_structured(make):
            found = f"{task.spec.trainable} is a function, whose loss nobody else can compute"
            raise KeptWeightsError(Problem("probe", found, "a structured trainable"))
        self._make: Callable[..., Any] = make
        self._data = probe_set(make, task.spec.settings, task.spec.study, self._plan.batch)

    def look_at(self, batches: int) -> bool:
        """Look at one snapshot and write its rows; say whether it is there.

        Raises:
            CurvatureError: the Hessian cannot be had.
            KeptWeightsError: the snapshot is damaged, or of other code.
            StoreError: if the disk is full or fails.
        """
        self.where = _snapshot(batches)
        kept = load_weights(self._paths.snapshot(self._spec.trial_id, batches))
        if kept is None:
            return False
        if self._request.code is not None:  # an attempt that was given up may have kept it, by older code
            _check_kept(kept.code, self._request.code, self._spec.trainable)
        model = ProbedModel(self._make, self._spec, self._plan, self._data)
        model.go_to(kept)
        earlier = self._earlier(batches)
        found: Rows = []
        directions: dict[str, Directions] = {}
        for player in model.players:
            self.where = f"{_snapshot(batches)}, player {player.name}"
            print(self.where, flush=True)
            mine, directions[player.name] = self._player(model, player, kept, earlier.get(player.name))
            found += mine
        if len(model.players) > 1:
            self.where = f"{_snapshot(batches)}, all players together"
            found += _game(model)
        if self._request.surface and batches == self._plan.at[-1]:
            found += surface_rows(model, kept, directions, self._paths, self._request)
        common = {
            "batches": batches,
            "device": self._plan.device,
            "mode": self._plan.mode,
            "samples": sum(self._data.sizes),
            "probe_hash": self._data.digest,
            "plan": json.dumps(self._plan.how),
        }
        save_directions(self._paths.directions(self._spec.trial_id, batches), directions)
        lines = [json.dumps({**row, **common}, default=jsonable) + "\n" for row in found]
        write_aside(self._paths.probe_lines(self._spec.trial_id, batches), "".join(lines).encode())
        return True

    def _player(
        self, model: ProbedModel, player: Player, kept: KeptWeights, warm: Directions | None
    ) -> tuple[Rows, Directions]:
        target = model.objective(player)
        names = list(target.parameters)
        update = flat(kept.model, names) - flat(kept.before, names) if kept.before is not None else None
        usable = warm if warm is not None and warm.names == names else None
        vectors = None if usable is None else [*usable.top, *usable.bottom]
        found = look(_Told(target), _plan(self._plan), update, vectors)
        made = rows(found, player=player.name, optimiser=step_of(player.optimiser, model.parameters(names)))
        ends = (torch.stack([edge.vector.cpu() for edge in edges]) for edges in (found.edges.top, found.edges.bottom))
        return made, Directions(names, *ends)

    def _earlier(self, batches: int) -> dict[str, Directions]:
        """Return what the probe of the snapshot before found, if this one is to start from it."""
        before = [at for at in self._plan.at if at < batches]
        if self._plan.density or not before:
            return {}
        return load_directions(self._paths.directions(self._spec.trial_id, before[-1]))


def _game(model: ProbedModel) -> Rows:
    """Return the rows of the players' game; one that cannot be had takes nothing from what each player's own gives."""
    try:
        return game_rows(model.game())
    except CurvatureError as error:
        print(f"the game's Jacobian cannot be had: {error}", flush=True)
        row: dict[str, Any] = {"player": "game", "name": "game_real", "position": None, "value": None, "unit": ""}
        empty = dict.fromkeys(("bound", "converged", "points", "masses"))
        return [{**row, **empty, "method": "none", "text": str(error), "dtype": model.dtype, "seed": 0, "products": 0}]


class _Told(Hessian):
    """Prints the number of every product: the log is how the launching process sees that a probe lives."""

    def __matmul__(self, vector: Tensor) -> Tensor:
        product = super().__matmul__(vector)
        print(f"product {self.products}", flush=True)
        return product


def _plan(asked: CurvaturePlan) -> Plan:
    return Plan(top=asked.k, bottom=asked.k, most_steps=asked.steps, probes=asked.density)


def _snapshot(batches: int) -> str:
    return f"snapshot after {batches} batches"


def _check_code(trained: str, now: str, trainable: str) -> None:
    if trained != now:
        found = f"the trial ran from other source: its hash was {trained}, now it is {now}"
        advice = "Check out the code that the trial ran from (git_commit in the table of trials), or launch anew."
        raise KeptWeightsError(Problem(trainable, found, "the same source", "", advice))


def _check_kept(kept: str, trained: str, trainable: str) -> None:
    if kept != trained:
        found = f"the weights were kept by other source than the trial's: its hash was {kept}, the trial's is {trained}"
        advice = "They are of an attempt that was given up: delete them, and their probe is left out."
        raise KeptWeightsError(Problem(trainable, found, "the same source", "", advice))


def _failed(task: TrialTask, wrong: list[str], kind: FailureKind) -> TrialEnd:
    words = "\n".join([f"{task.where}:", *wrong])
    return TrialEnd(trial_id=task.spec.trial_id, attempt=task.attempt, status="failed", kind=kind, error=words)
