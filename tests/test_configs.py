"""Every study that ships loads, plans, and makes its trainable; the paper's matrix also runs, shrunk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ablate.design.plan import plan
from ablate.launch import placement
from ablate.launch.study import read_study
from ablate.record.reader import Run
from ablate.trial.importing import load
from analysis.gap import gap
from analysis.showing import showing
from tests.conftest import whole

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))
MATRICES = ("paper_matrix", "paper_matrix_autoencoder")
CPU_MACHINES = {"i5_4590": 4, "i7_6800k": 1, "i5_7600k": 4, "ryzen_5_3600": 6}
GPU_MACHINES = {
    "i5_7600k_gtx_750ti": 4,
    "i5_7600k_gtx_970": 4,
    "i7_6700k_gtx_1080": 1,
    "i7_7700k_gtx_1080ti": 1,
    "i7_9700_rtx_2080ti": 1,
    "i5_7600k_rtx_2060_super": 4,
    "ryzen_5_3600_rtx_2070_super": 6,
    "i5_9400_titan_rtx": 4,
}


def config(name):
    return next(path for path in CONFIGS if path.stem == name)


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(placement, "available_cores", lambda: 2)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_study_reads_plans_and_can_find_something(path, two_cores):
    study = read_study(path)
    assert study.grid.study == path.stem
    if path.stem != "smoke":
        assert plan(study.grid, 2).warnings == ()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_studys_trainable_takes_its_settings(path, two_cores):
    study = read_study(path)
    trainable = load(study.grid.trainable, study.search)
    for settings in {json.dumps(spec.settings, sort_keys=True) for spec in study.specs}:
        trainable(**json.loads(settings))


@pytest.mark.parametrize("name", MATRICES)
def test_the_matrix_has_the_papers_machines_with_their_threads_and_cudnn_on_and_off(name, two_cores):
    grid = read_study(config(name)).grid
    found = {}
    for arm in grid.arms.values():
        if not arm.control:
            (tag,) = arm.resources.keys() - {"CPU", "GPU"}
            numerics = arm.numerics
            assert arm.resources["CPU"] == numerics.threads
            assert arm.resources.get("GPU", 0) == (numerics.device == "cuda")
            found.setdefault((tag, numerics.device, numerics.threads), []).append(numerics.cudnn)
    expected = {(tag, "cpu", threads): 1 for tag, threads in CPU_MACHINES.items()}
    expected |= {(tag, "cuda", threads): 2 for tag, threads in GPU_MACHINES.items()}
    assert {key: len(states) for key, states in found.items()} == expected
    assert all(set(states) == {True, False} for (_, device, _), states in found.items() if device == "cuda")


def test_both_models_see_5000_frames_in_250_batches_and_are_compared_on_the_last_1000(two_cores):
    prednet, autoencoder = (read_study(config(name)).grid for name in MATRICES)
    assert prednet.batches * prednet.settings["window"] == 5000
    assert autoencoder.batches * autoencoder.settings["batch_size"] == 5000
    for grid in (prednet, autoencoder):
        assert (grid.batches, grid.outcome.metric, grid.outcome.last) == (250, "loss", 50)


def test_an_arm_with_a_machines_tag_may_have_more_threads_than_the_planning_machine(two_cores):
    assert max(arm.numerics.threads for arm in read_study(config("paper_matrix")).grid.arms.values()) == 6


@pytest.mark.parametrize("name", MATRICES)
def test_the_matrix_compares_kinds_over_the_papers_machines(name):
    arms = [arm for arm in read_study(config(name)).grid.arms.values() if not arm.control]
    tags = {(arm.kind, arm.machine, next(tag for tag in arm.resources if tag not in ("CPU", "GPU"))) for arm in arms}
    expected = [("cpu", tag) for tag in CPU_MACHINES] + [("gpu", tag) for tag in GPU_MACHINES]
    assert sorted(tags) == sorted((kind, tag.replace("_", "-"), tag) for kind, tag in expected)


@pytest.mark.parametrize("name", MATRICES)
def test_on_this_machine_the_matrix_is_refused_naming_the_tags(name, place):
    done = place.ablate("launch", "--local", config(name))
    assert done.code == 4
    for tag in (*CPU_MACHINES, *GPU_MACHINES):
        assert f"resources.{tag}: asks for {tag}: 1, no node offers it" in done.words
    assert not place.root(name).exists()


def shrunk(name):
    """The matrix as one machine without a GPU can run it: every tag, one thread, tiny frames, one block."""
    grid = yaml.safe_load(config(name).read_text())
    grid |= {"blocks": 1, "batches": 3, "outcome": {"metric": "loss", "last": 2}, "audit": {"first": 0}}
    if "window" in grid["settings"]:
        grid["settings"] |= {"source": "photographs", "width": 16, "height": 16, "channels": "3,4", "window": 3}
    kept = {name: arm for name, arm in grid["arms"].items() if arm.get("cudnn", True) and "repeat" not in arm}
    grid["arms"] = {name: {"resources": arm["resources"]} for name, arm in kept.items()}
    grid["contrasts"] = [entry for entry in grid["contrasts"] if set(entry["arms"]) <= grid["arms"].keys()]
    return yaml.safe_dump(grid, sort_keys=False)


@pytest.mark.parametrize("name", [MATRICES[0], pytest.param(MATRICES[1], marks=pytest.mark.slow)])
def test_the_matrix_runs_shrunk_with_every_tag_on_one_machine(name, place):
    if name == "paper_matrix":
        pytest.importorskip("skimage", reason="the video extra isn't installed")
    (place.folder / "matrix.yaml").write_text(shrunk(name))
    offers = [word for tag in (*CPU_MACHINES, *GPU_MACHINES) for word in ("--offer", tag)]
    done = place.ablate("launch", "--local", *offers, "matrix.yaml")
    assert done.code == 0, done.text
    inputs = 2 if name == "paper_matrix" else 1
    assert whole(place.root(name), batches=3) == inputs * 12
    rows = Run(place.root(name)).trials().to_pylist()
    assert len({row["arm"] for row in rows}) == 12


@pytest.mark.slow
def test_the_study_of_noise_runs_shrunk_and_reports_its_dose_response(place):
    pytest.importorskip("skimage", reason="the video extra isn't installed")
    grid = yaml.safe_load(config("noise_helps").read_text())
    grid |= {"blocks": 2, "batches": 3, "outcome": {"metric": "loss", "last": 2}}
    grid["settings"] |= {"source": "photographs", "width": 16, "height": 16, "channels": "3,4", "window": 3}
    (place.folder / "noise.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    done = place.ablate("launch", "--local", "noise.yaml")
    assert done.code == 0, done.text
    assert "Dose-response (noise of 0, 1, 100, 65,536 ulps in the gradients, 2 blocks)" in done.words
    found = gap(Run(place.root("noise_helps")))
    causes = {contrast.label: contrast.verdict.cause for contrast in found.contrasts}
    assert "CONFOUNDED" not in causes.values()
    assert {causes["none-again against none"], causes["bfloat16-size-again against bfloat16-size"]} == {"BITWISE EQUAL"}
    assert causes["bfloat16-size against none"] != "BITWISE EQUAL"  # one ulp may be rounded away in 3 batches
    assert found.dose_response.n == 2


@pytest.mark.slow
def test_the_gan_runs_shrunk_and_its_levels_are_compared_and_shown(place):
    grid = yaml.safe_load(config("gan_collapse").read_text())
    grid |= {"blocks": 1, "batches": 3, "artifacts": {"at": [0, 2]}}
    grid["settings"] |= {"width": 2, "batch_size": 8, "features": 8}
    grid["arms"]["one-ulp"]["blocks"] = 1
    (place.folder / "gan.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    done = place.ablate("launch", "--local", "gan.yaml")
    assert done.code == 0, done.text
    run = Run(place.root("gan_collapse"))
    found = {contrast.label: contrast.verdict for contrast in gap(run).contrasts}
    assert found["discriminator: minibatch against plain"].declared
    assert found["cpu-again against cpu"].cause == "BITWISE EQUAL"
    assert found["one-ulp against cpu"].cause == "ROUNDING"
    rows = run.batches().to_pylist()
    assert all(row[f"metric.{name}"] > 0 for row in rows for name in ("grad_norm_generator", "grad_norm_discriminator"))
    assert all(row["metric.loss_generator"] > 0 for row in rows)
    shown = showing(run)
    assert [(trial.arm, dict(trial.cell)["discriminator"]) for trial in shown.trials[:2]] == [
        ("cpu", "plain"),
        ("cpu-again", "plain"),
    ]
    assert all(list(trial.pictures) == ["real", "sample"] for trial in shown.trials)
    names = set(run.artifacts(["name"]).column(0).to_pylist())
    assert {"diversity", "coverage", "gradient_norm.generator.0.weight"} <= names
