"""``ablate plan`` with a measurement or a past run: from the command line, in processes of their own, nothing left."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from tests.cli.test_commands import loaded_by

ARMS = "arms:\n  plain: {}\n  slow: {settings: {step_s: 0.05}}\n  plain_again: {repeat: plain}\n"


@pytest.fixture
def temporary(place):
    """A folder for temporary files with a short name, since sockets lie in it; measuring must leave it as it was."""
    with tempfile.TemporaryDirectory(prefix="a", dir="/tmp") as folder:
        yield {"TMPDIR": folder}
        assert not list(Path(folder).glob("ablate-measure-*"))
        # a fork server ends a second after its last trial; on a loaded machine that takes its time
        assert not place.left_running(within_s=60)


def forecast(place, *words, env=None):
    done = place.ablate("plan", "grid.yaml", *words, "--json", env=env)
    assert done.code == 0, done.text
    return json.loads(done.out, parse_constant=pytest.fail)["forecast"]


def test_without_either_it_says_what_is_not_known(place):
    place.grid(ARMS)
    done = place.ablate("plan", "grid.yaml")
    assert done.words.endswith(
        "time and power are not known: --measure times one short trial; --from RUN takes both from a past run of this "
        "model"
    )
    assert forecast(place)["time"] is None


def test_measuring_times_a_trial_and_leaves_nothing(place, temporary):
    place.grid("arms: {slow: {settings: {step_s: 0.05}}}\n", batches=200, guard="{first: 3, every: 50}")
    before = set(place.folder.iterdir())
    found = forecast(place, "--measure", env=temporary)
    assert {path for path in place.folder.iterdir() if path.name != "__pycache__"} == before
    time = found["time"]
    assert time["source"] == "12 batches of arm slow timed here"
    assert 10.0 < time["longest_trial_s"] < 40.0  # 200 batches that sleep 0.05 s
    assert time["core_s"] == pytest.approx(2 * time["longest_trial_s"])
    assert found["power"] == []
    assert found["notes"] == [
        "power is not known: --from RUN takes the spread between blocks from a past run of this model"
    ]


def test_a_measurement_that_fails_says_why(place, temporary):
    place.grid("arms: {a: {settings: {fault: raise, at: 2}}}\n")
    done = place.ablate("plan", "grid.yaml", "--measure", env=temporary)
    assert done.code == 3
    assert "error: measuring: trial t" in done.err
    assert "the double raises, as it was told" in done.err
    assert "Mend it; a launch would fail alike." in done.err


def test_an_arm_that_cannot_run_here_is_passed_over(place, temporary):
    place.grid("arms: {far: {resources: {cpu_i5_4590: 1}}, near: {settings: {at: 4}}}\n")
    found = forecast(place, "--measure", env=temporary)
    assert found["time"]["source"] == "6 batches of arm near timed here"
    assert found["time"]["notes"][1:] == [
        "not timed, and taken to be as fast as the rest: far",
        "no time on this machine, which lacks what these arms need: far (cpu_i5_4590)",
    ]
    place.grid("arms: {far: {resources: {cpu_i5_4590: 1}}}\n")
    done = place.ablate("plan", "grid.yaml", "--measure")
    assert done.code == 4
    assert "asks for cpu_i5_4590: 1, no node offers it" in done.words


def test_a_long_trial_is_cut_short(place, monkeypatch):
    from ablate.launch import measure
    from ablate.launch.study import read_study

    monkeypatch.setattr(measure, "LONG_S", 0.5)
    monkeypatch.chdir(place.folder)
    study = read_study(place.grid("arms: {a: {settings: {step_s: 0.4}}}\n", batches=100))
    timed = measure.measure(study, measure.short_trial(study))
    assert timed.wall_s is None
    assert 2 <= len(timed.durations) < 12


@pytest.mark.slow
def test_from_a_run_and_without_torch_or_ray(place, temporary):
    place.grid(ARMS, blocks=3)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    place.grid(ARMS, blocks=8, margin="5%")
    assert loaded_by(place, "plan", "grid.yaml", "--from", "doubles").isdisjoint({"torch", "ray"})
    found = forecast(place, "--from", "doubles")
    assert found["time"]["source"] == f"as in {Path('runs') / 'doubles'}"
    assert found["time"]["longest_trial_s"] > 6 * 0.05
    (power,) = found["power"]
    assert (power["label"], power["blocks"], power["seen_blocks"]) == ("slow against plain", 8, 3)
    assert power["note"] == "the run has no spread to plan with: every block has one gap"
    assert loaded_by(place, "plan", "grid.yaml", "--measure").isdisjoint({"torch", "ray", "scipy"})


@pytest.mark.slow
def test_from_a_run_that_holds_nothing(place):
    place.grid("arms: {a: {settings: {fault: raise, at: 0}}}\n")
    assert place.ablate("launch", "grid.yaml", "--local").code == 3
    done = place.ablate("plan", "grid.yaml", "--from", "doubles")
    assert done.code == 2
    assert "no trial of this run has ended, so none was timed" in done.words
    assert place.ablate("plan", "grid.yaml", "--from", "dubles").code == 2
