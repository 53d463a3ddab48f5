"""Probes of the curvature as the second phase of a launch and after the fact: once each, whatever is broken off."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

from ablate.record.check import check
from ablate.record.paths import StorePaths
from ablate.record.reader import Run
from tests.conftest import RAY_GONE_S, wait_for

TWO = """\
arms:
  one: {}
  two: {settings: {at: 4}}
probes: {curvature: {at: [0, 3, last], steps: 10}}
"""
pytestmark = pytest.mark.timeout(600)  # several launches each
HOW = pytest.mark.parametrize("how", [["--local"], pytest.param([], marks=pytest.mark.slow)], ids=["local", "ray"])


def rows(place):
    """Return every row of the data set, without who looked."""
    return Run(place.root()).probes().sort_by([("trial_id", "ascending"), ("batches", "ascending")])


def probed(place):
    table = rows(place)
    return set(zip(table["trial_id"].to_pylist(), table["batches"].to_pylist(), strict=True))


def everything(place, at=(0, 3, 6)):
    return {(trial_id, batches) for trial_id in Run(place.root()).trials()["trial_id"].to_pylist() for batches in at}


def losses(place):
    table = Run(place.root()).batches(["trial_id", "batch_index", "loss", "order_hash", "content_hash"])
    return table.sort_by([("trial_id", "ascending"), ("batch_index", "ascending")])


def sound(place):
    assert check(Run(place.root())) == []
    assert not list((place.root() / "journal").iterdir())
    assert not place.left_running()


@HOW
def test_a_launch_looks_at_what_its_trials_kept(place, how):
    place.grid(TWO)
    done = place.ablate("launch", "grid.yaml", *how)
    assert done.code == 0, done.text
    assert "looked at the curvature of 12 snapshots of 4 trials" in done.err
    assert probed(place) == everything(place)
    assert len(everything(place)) == 12
    table = rows(place)
    assert table["probe_hash"].unique().to_pylist() == table["probe_hash"].to_pylist()[:1]
    assert {"loss", "lambda_max", "lambda_min", "density", "kind"} <= set(table["name"].to_pylist())
    sound(place)
    again = place.ablate("launch", "grid.yaml", *how)
    assert again.code == 0, again.text
    assert "looked at" not in again.err
    assert again.seconds < 8
    assert rows(place).equals(table)
    later = place.ablate("probe", "doubles", *how)
    assert later.code == 0, later.text
    assert "nothing to do; 12 had been looked at before" in later.out


@pytest.mark.slow
def test_the_same_bytes_whenever_it_is_looked(place):
    """A launch without probes, the same with them, and their probes made once more: no loss and no row differs."""
    place.grid(TWO.replace("probes:", "# probes:"), blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    plain = losses(place)
    assert not list((place.root() / "snapshots").iterdir())
    shutil.rmtree(place.root())
    place.grid(TWO, blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    assert losses(place).equals(plain)
    first = rows(place)
    shutil.rmtree(place.root() / "probes")
    asked = place.ablate("probe", "doubles", "--local", "--trial", "one/0", "--at", "3", "--at", "6", "--json")
    assert asked.code == 0, asked.text
    found = json.loads(asked.out)
    assert (found["snapshots"], found["trials"], found["before"], found["failed"]) == (2, 1, 0, [])
    assert {batches for _, batches in probed(place)} == {3, 6}
    rest = place.ablate("probe", "doubles", "--local")
    assert "looked at 4 snapshots of 2 trials; 2 had been looked at before" in rest.out
    assert rows(place).equals(first)
    sound(place)


def finished(place):
    """Return which snapshots have been looked at, while a launch goes on."""
    lines = set(map(tuple, StorePaths(place.root()).journal_probes()))
    return lines | (probed(place) if (place.root() / "spec.json").exists() else set())


@pytest.mark.slow
@pytest.mark.parametrize("how", [["--local"], []], ids=["local", "ray"])
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_launch_that_is_broken_off_goes_on_where_it_was(place, how, kill):
    place.grid(TWO, batches=8, settings="{step_s: 0.0}", blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    whole = rows(place)
    shutil.rmtree(place.root())
    place.grid(TWO, batches=8, settings="{step_s: 0.4}", blocks=1)  # a probe of a snapshot takes seconds
    process = place.start("launch", "grid.yaml", *how)
    wait_for(lambda: process.poll() is not None or finished(place), 240)
    assert process.poll() is None, process.communicate()
    os.kill(process.pid, kill)
    ended = place.finish(process)
    assert ended.code == (-9 if kill is signal.SIGKILL else 130), ended.text
    assert not place.left_running(RAY_GONE_S)
    before = finished(place)
    assert 1 <= len(before) < 6
    files = {key: StorePaths(place.root()).directions(*key).stat().st_mtime_ns for key in before}
    done = place.ablate("probe", "doubles", "--local", env={"DOUBLES_WELL": "1"})
    assert done.code == 0, done.text
    assert f"looked at {6 - len(before)} snapshots" in done.out
    assert f"; {len(before)} had been looked at before" in done.out
    assert {key: StorePaths(place.root()).directions(*key).stat().st_mtime_ns for key in before} == files
    unnamed = [name for name in whole.column_names if name != "trial_id"]  # another setting is another id
    assert sorted(map(str, rows(place).select(unnamed).to_pylist())) == sorted(
        map(str, whole.select(unnamed).to_pylist())
    )
    sound(place)


@pytest.mark.slow
def test_a_probe_that_fails_harms_no_trial_and_is_said(place):
    place.grid(TWO, blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    first = rows(place)
    paths = StorePaths(place.root())
    shutil.rmtree(paths.probes)
    one = next(row["trial_id"] for row in Run(place.root()).trials().to_pylist() if row["arm"] == "one")
    kept = paths.snapshot(one, 3).read_bytes()
    paths.snapshot(one, 3).write_bytes(b"torn")
    failed = place.ablate("launch", "grid.yaml", "--local")
    assert failed.code == 3, failed.text
    assert "code failure of a probe" in failed.words
    assert "the probes of 1 of 2 trials failed; the trials are unharmed" in failed.words
    assert "Look again at what is left: ablate probe runs/doubles" in failed.words
    assert "Traceback" not in failed.text
    assert probed(place) == everything(place) - {(one, 3)}
    paths.snapshot(one, 3).write_bytes(kept)
    mended = place.ablate("probe", "doubles", "--local")
    assert "looked at 1 snapshots of 1 trials; 5 had been looked at before" in mended.out
    assert rows(place).equals(first)


@pytest.mark.slow
def test_a_probe_whose_process_dies_is_tried_again(place):
    """Three more times, each from the first snapshot that is left."""
    arms = TWO.replace("{settings: {at: 4}}", "{settings: {step_s: 0.0, at: 5}}")
    place.grid(arms, blocks=1, settings="{fault: kill, at: 0}")  # the probe set's first batch
    store = place.ablate("launch", "grid.yaml", "--local", env={"DOUBLES_WELL": "1"})
    assert store.code == 0, store.text
    shutil.rmtree(place.root() / "probes")
    died = place.ablate("probe", "doubles", "--local", "--trial", "one/0", "--at", "0")
    assert died.code == 3, died.text
    assert died.err.count("tried again") == 3
    assert "infrastructure failure of a probe" in died.words
    assert "its process died by signal 9" in died.words


@pytest.mark.slow
def test_trials_from_before_probes_are_told_of(place):
    place.grid(TWO.replace("probes:", "# probes:"), blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    none = place.ablate("probe", "doubles", "--local")
    assert none.code == 2
    assert "runs/doubles: no weights were kept" in none.words
    assert "The grid's key `probes: {curvature: {at: [0, last]}}` keeps them" in none.words
    place.grid(TWO, blocks=1)
    told = place.ablate("launch", "grid.yaml", "--local")
    assert told.code == 0, told.text
    assert (
        "2 trials kept no weights after 0, 3, 6 batches: they ran before the grid's `probes` asked for it" in told.err
    )


@pytest.mark.slow
def test_probes_that_the_grid_asks_for_in_another_way_later_are_told_of(place):
    place.grid(TWO, blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    first = rows(place)
    place.grid(TWO.replace("steps: 10", "steps: 10, k: 2"), blocks=1)
    for command in (("launch", "grid.yaml"), ("probe", "doubles")):
        told = place.ablate(*command, "--local")
        assert told.code == 0, told.text
        assert "6 snapshots were looked at before the grid's `probes` changed (k: 1 -> 2)" in told.err
        assert rows(place).equals(first)


@pytest.mark.slow
def test_bad_input_is_refused_in_words(place):
    place.grid(TWO, blocks=1)
    assert place.ablate("launch", "grid.yaml", "--local").code == 0
    for words, said in (
        (("doubles", "--trial", "onne/0"), "trial 'onne/0': is none of the grid's 2 trials did you mean 'one/0'?"),
        (("doubles", "--at", "2"), "runs/doubles: --at: no weights were kept after 2 batches allowed: 0, 3, 6"),
        (("doubles", "--trial", "one/0", "--at", "2"), ": --at: no weights were kept after 2 batches"),
        (("doublez",), "there is no run of this name did you mean 'runs/doubles'?"),
        (("doubles", "--address", "http://head:8265"), "is the address of a dashboard"),
    ):
        done = place.ablate("probe", *words)
        assert done.code == 2, done.text
        assert said in done.words
        assert "Traceback" not in done.text
    doubles = place.folder / "doubles.py"
    text = doubles.read_text()
    shutil.rmtree(place.root() / "probes")
    doubles.write_text(text + "\n# changed\n")
    changed = place.ablate("probe", "doubles", "--local")
    assert changed.code == 2
    assert "source_hash: the trainable of trials recorded there was" in changed.words
    assert "or pass --allow-mixed-code." in changed.words
    doubles.rename(place.folder / "elsewhere.py")
    lost = place.ablate("probe", "doubles", "--local")
    assert lost.code == 2
    assert "there is no module doubles" in lost.words
    assert "call this in the folder of the grid file that was launched" in lost.words


def test_a_locked_store_is_refused_as_by_a_launch(place):
    place.grid(TWO, blocks=1, settings="{step_s: 0.3}")
    process = place.start("launch", "grid.yaml", "--local")
    wait_for(lambda: process.poll() is not None or (place.root() / "spec.json").exists())
    refused = place.ablate("probe", "doubles", "--local")
    assert refused.code == 6, refused.text
    os.kill(process.pid, signal.SIGINT)
    place.finish(process)
