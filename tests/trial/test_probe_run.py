"""A probe of what a trial kept: right on known curvature, the same twice, nothing of the trial changed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from probed_trials import CAREFUL, QUADRATIC, content, lines, probed, row, trained

from ablate.curvature import escape_rate
from ablate.record.columns import PROBE_COLUMNS
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.record.tables import probes_table
from ablate.trial.directions import load_directions
from ablate.trial.task import TrialEnd


def test_edges_and_index_of_a_known_spectrum(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC, settings={"n": 300}, plan={"k": 2, "density": 1})
    assert probed(task) == TrialEnd(trial_id=task.spec.trial_id, attempt=0, status="done")
    for batches in (0, 4):
        for i, true in enumerate((299.0, 298.0)):
            edge = row(task, batches, "lambda_max", i)
            assert abs(edge["value"] - true) <= edge["bound"] + 1e-3 * true
        assert row(task, batches, "lambda_min", 0)["value"] == pytest.approx(-0.5, rel=1e-3)
        assert row(task, batches, "dimension")["value"] == 300
        assert row(task, batches, "negative_at_least")["value"] == 1
    w = torch.full((300,), 0.1, dtype=torch.float32).double()
    spectrum = torch.arange(300, dtype=torch.float64)
    spectrum[0] = -0.5
    assert row(task, 0, "loss")["value"] == pytest.approx(float((spectrum * w * w).sum() / 2) + 5, rel=1e-12)


def test_every_row_fits_the_data_set(tmp_path: Path) -> None:
    task = trained(tmp_path, CAREFUL, plan={"surface": True, "mode": "eval"})
    assert probed(task, surface=(task.spec.trial_id,)).status == "done"
    trial = {"trial_id": task.spec.trial_id, "arm": "plain", "block": 0, "factors": {}}
    for batches in (0, 4):
        path = StorePaths(tmp_path).probe_lines(task.spec.trial_id, batches)
        assert probes_table(trial, batches, path, {}).num_rows == len(lines(task, batches))
        for one in lines(task, batches):
            assert set(one) == set(PROBE_COLUMNS)
            assert (one["batches"], one["mode"], one["device"], one["dtype"]) == (batches, "eval", "cpu", "float64")
            assert one["samples"] == 1  # its batches have one index each
            assert one["probe_hash"] == lines(task, 0)[0]["probe_hash"]


def test_twice_is_the_same_bytes(tmp_path: Path) -> None:
    """With batch norm, dropout and Adam; the second time in a store of its own."""
    one, two = (trained(tmp_path / name, CAREFUL, plan={"density": 2, "surface": True}) for name in "ab")
    for task in (one, two):
        assert probed(task, surface=(task.spec.trial_id,)).status == "done"
    assert content(one) == content(two)
    assert len(content(one)) == 2


def test_a_probe_that_was_broken_off_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    """Also where the second snapshot starts from what was found at the first."""
    changes: dict[str, Any] = {"settings": {"n": 300}, "plan": {"density": 0}}
    whole, broken = (trained(tmp_path / name, QUADRATIC, **changes) for name in "ab")
    assert probed(whole).status == "done"
    assert probed(broken, at=(0,)).status == "done"
    assert list(content(broken)) == [f"{broken.spec.trial_id}-0.probe.jsonl"]
    assert probed(broken, at=(4,)).status == "done"
    assert content(broken) == content(whole)


def test_without_a_density_the_next_snapshot_starts_warm(tmp_path: Path) -> None:
    cold = trained(tmp_path / "a", QUADRATIC, settings={"n": 300})
    warm = trained(tmp_path / "b", QUADRATIC, settings={"n": 300}, plan={"density": 0})
    assert probed(cold).status == probed(warm).status == "done"
    spent = {task.root: [row(task, at, "lambda_min", 0)["products"] for at in (0, 4)] for task in (cold, warm)}
    assert spent[warm.root][0] == spent[cold.root][0]
    assert spent[warm.root][1] < spent[cold.root][1] / 1.3  # the eigenvectors are the same ones
    assert not [one for one in lines(warm, 4) if one["name"] == "density"]
    methods = {task.root: [row(task, at, "lambda_min", 0)["method"] for at in (0, 4)] for task in (cold, warm)}
    assert methods == {cold.root: ["lanczos", "lanczos"], warm.root: ["lanczos", "lanczos, warm"]}
    assert row(warm, 4, "lambda_min", 0)["value"] == pytest.approx(-0.5, rel=1e-3)


def test_damaged_directions_are_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = trained(tmp_path, QUADRATIC, plan={"density": 0})
    assert probed(task, at=(0,)).status == "done"
    path = StorePaths(tmp_path).directions(task.spec.trial_id, 0)
    path.write_bytes(path.read_bytes()[:50])
    assert probed(task, at=(4,)).status == "done"
    assert "directions found before cannot be used" in capsys.readouterr().out


def test_directions_are_the_extreme_eigenvectors(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC)
    probed(task)
    found = load_directions(StorePaths(tmp_path).directions(task.spec.trial_id, 4))["all"]
    assert found.names == ["weight"]
    assert found.top.abs().argmax() == 5
    assert found.bottom.abs().argmax() == 0


def test_a_probe_changes_nothing_of_the_trial(tmp_path: Path) -> None:
    task = trained(tmp_path, CAREFUL)
    paths = StorePaths(tmp_path)
    files = [paths.rows(task.spec.trial_id, 1), *(paths.snapshot(task.spec.trial_id, at) for at in (0, 4))]
    before = [path.read_bytes() for path in files]
    assert probed(task).status == "done"
    assert [path.read_bytes() for path in files] == before


def test_the_loss_is_the_trainables_own_on_data_that_depend_on_the_study_alone(tmp_path: Path) -> None:
    tasks = [
        trained(tmp_path / name, "small_trainables:Line", **changes)
        for name, changes in {"a": {}, "b": {"block": 1}, "c": {"arm": "other"}, "d": {"study": "another"}}.items()
    ]
    for task in tasks:
        assert probed(task).status == "done"
    hashes = [row(task, 0, "loss")["probe_hash"] for task in tasks]
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]
    trial = read_journal(StorePaths(tmp_path / "a").rows(tasks[0].spec.trial_id, 1)).rows["loss"][0]
    assert row(tasks[0], 0, "loss")["value"] != trial  # it is data that no trial trains on


def test_the_optimisers_step_reaches_the_escape_rate(tmp_path: Path) -> None:
    sgd = trained(tmp_path / "a", QUADRATIC, settings={"lr": 0.02, "momentum": 0.9})
    adam = trained(tmp_path / "b", CAREFUL)
    assert probed(sgd).status == probed(adam).status == "done"
    found = row(sgd, 4, "escape_rate")
    assert (found["method"], found["unit"]) == ("SGD", "1 / step")
    assert found["value"] == pytest.approx(escape_rate(-0.5, 0.02, 0.9), rel=1e-6)
    assert row(adam, 4, "escape_rate")["method"].startswith("Adam")
    assert "before its first step" in row(adam, 0, "escape_rate")["method"]


def test_the_last_update_is_a_direction(tmp_path: Path) -> None:
    """Plain gradient descent moved along the gradient of the batch before."""
    task = trained(tmp_path, QUADRATIC)
    probed(task)
    assert "curvature_update" not in {one["name"] for one in lines(task, 0)}
    w = torch.full((6,), 0.1, dtype=torch.float64)
    spectrum = torch.tensor([-0.5, 1, 2, 3, 4, 5], dtype=torch.float64)
    update = spectrum * (1 - 0.01 * spectrum) ** 3 * w
    expected = float((spectrum * update * update).sum() / (update * update).sum())
    assert row(task, 4, "curvature_update")["value"] == pytest.approx(expected, rel=1e-4)  # float32 weights' rounding


def test_each_player_has_a_probe_of_its_own_block_and_all_have_the_game(tmp_path: Path) -> None:
    task = trained(tmp_path, "probed_trainables:Bilinear")
    assert probed(task).status == "done"
    for player in ("x", "y"):
        assert row(task, 4, "dimension", player=player)["value"] == 1
        assert row(task, 4, "lambda_max", 0, player=player)["value"] == 0
    turns = [one for one in lines(task, 4) if one["name"] in ("game_real", "game_imag")]
    assert {one["player"] for one in turns} == {"game"}
    assert max(one["value"] for one in turns if one["name"] == "game_imag") == pytest.approx(1)
    assert all(abs(one["value"]) < 1e-12 for one in turns if one["name"] == "game_real")


def test_a_game_that_cannot_be_had_leaves_the_players_their_rows(tmp_path: Path) -> None:
    task = trained(tmp_path, "probed_trainables:Bilinear", settings={"fail": "detach"})
    assert probed(task).status == "done"
    found = row(task, 4, "game_real")
    assert (found["value"], found["method"], found["player"]) == (None, "none", "game")
    assert "detach" in found["text"]
    assert row(task, 4, "dimension", player="y")["value"] == 1


def test_what_the_trial_never_reached_is_named_and_no_failure(tmp_path: Path) -> None:
    settings = {"bad_at": 2, "how": "nan"}
    task = trained(tmp_path, "small_trainables:Line", at=(0, 2, 3, 4), settings=settings)
    end = probed(task)
    assert (end.status, end.missing, end.error) == ("done", (3, 4), "")
    assert TrialEnd.model_validate(json.loads(json.dumps(end.model_dump()))) == end  # as it comes over the connection
    assert len(content(task)) == 2


def test_a_surface_covers_every_projection_and_knows_its_own_losses(tmp_path: Path) -> None:
    plan = {"surface": True}
    task = trained(tmp_path, QUADRATIC, at=(0, 2, 4), plan=plan, settings={"lr": 0.1})
    other = trained(tmp_path, QUADRATIC, at=(0, 2, 4), plan=plan, settings={"lr": 0.1, "momentum": 0.9}, arm="other")
    alien = trained(tmp_path, QUADRATIC, at=(0, 2, 4), plan=plan, settings={"n": 7}, arm="alien")
    ids = tuple(one.spec.trial_id for one in (task, other, alien))
    assert probed(task, surface=ids).status == "done"
    assert not [one for at in (0, 2) for one in lines(task, at) if one["name"] == "surface"]
    surface = [one for one in lines(task, 4) if one["name"] == "surface"]
    assert [one["position"] for one in surface] == list(range(15))
    assert {len(one["masses"]) for one in surface} == {15}
    places: dict[str, list[float]] = {}
    for one in lines(task, 4):
        if one["name"] == "projection":
            places.setdefault(one["text"], [0.0, 0.0])[one["position"]] = one["value"]
    assert set(places) == {f"{trial}@{at}" for trial in ids[:2] for at in (0, 2, 4)}  # the alien has other parameters
    assert places[f"{ids[0]}@4"] == [0.0, 0.0]
    for x, y in places.values():
        assert surface[0]["points"][0] < x < surface[0]["points"][-1]
        assert surface[0]["value"] < y < surface[-1]["value"]
    own = {one["text"]: one["value"] for one in lines(task, 4) if one["name"] == "projection_loss"}
    assert own[f"{ids[0]}@4"] == row(task, 4, "loss")["value"]
    assert probed(other).status == "done"
    assert own[f"{ids[1]}@2"] == row(other, 2, "loss")["value"]
    centre = row(task, 4, "loss")["value"]
    gradient = {0: 5 * 0.1 * 0.5**4, 1: -0.5 * 0.1 * 1.05**4}  # w_i = 0.1 (1 - 0.1 lambda_i)^4
    vectors = load_directions(StorePaths(tmp_path).directions(ids[0], 4))["all"]
    signs = (math.copysign(1, vectors.top[0, 5]), math.copysign(1, vectors.bottom[0, 0]))
    for one in surface:  # a quadratic's map is known: slope and curvature along each eigenvector
        y = one["value"]
        for x, loss in zip(one["points"], one["masses"], strict=True):
            along = signs[0] * gradient[0] * x + signs[1] * gradient[1] * y
            assert loss == pytest.approx(centre + along + 2.5 * x * x - 0.25 * y * y, abs=1e-6)


def test_it_is_the_losss_curvature_where_backward_has_another_gradient(tmp_path: Path) -> None:
    """A buffer is overwritten before backward: the loss curves by 1 + 9, the gradient that training follows by more."""
    task = trained(tmp_path, "probed_trainables:Aliased")
    assert probed(task).status == "done"
    for batches in (0, 4):
        for edge in ("lambda_max", "lambda_min"):
            assert row(task, batches, edge, 0)["value"] == pytest.approx(10, rel=1e-12)


def test_the_mode_is_the_models(tmp_path: Path) -> None:
    """In eval, batch norm uses its running numbers and dropout is off: another loss."""
    losses = {}
    for mode in ("train", "eval"):
        task = trained(tmp_path / mode, CAREFUL, plan={"mode": mode})
        assert probed(task).status == "done"
        losses[mode] = row(task, 4, "loss")["value"]
    assert losses["train"] != losses["eval"]


def test_float32_is_said(tmp_path: Path) -> None:
    task = trained(tmp_path, QUADRATIC, plan={"dtype": "float32"})
    assert probed(task).status == "done"
    assert row(task, 4, "lambda_max", 0)["dtype"] == "float32"
    assert row(task, 4, "lambda_max", 0)["value"] == pytest.approx(5, rel=1e-5)
