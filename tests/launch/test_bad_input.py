"""Bad input, through the real command line: what is wrong, where, what to write instead; exit code; nothing written."""

from __future__ import annotations

import os

import pytest

TWO_ARMS = "arms:\n  first: {}\n  second: {settings: {at: 4}}\n"
NO_TRACE = "Traceback (most recent call last)"


def refused(done, place, code=2):
    assert done.code == code, done.text
    assert done.out == ""
    assert NO_TRACE not in done.text
    assert done.err.startswith("error: ")
    assert not place.root().exists()
    return done.words


@pytest.mark.parametrize("command", ["plan", "launch"])
def test_a_missing_file(place, command):
    words = refused(place.ablate(command, "gird.yaml"), place)
    assert "gird.yaml: no such file" in words


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("study: [1, 2\nblocks: 3\n", "line"),
        ("- a\n- b\n", "mapping"),
        ("study: 'x\n", "line"),
        ("\x00", "grid.yaml"),
    ],
    ids=["empty", "malformed", "a list", "an open quote", "not text"],
)
def test_a_file_that_is_no_grid(place, text, says):
    (place.folder / "grid.yaml").write_text(text)
    words = refused(place.ablate("launch", "grid.yaml", "--local"), place)
    assert "grid.yaml" in words
    assert says in words


def test_an_unknown_key_names_line_path_and_nearest(place):
    place.grid("arms:\n  first: {treads: 2}\n")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert "grid.yaml:9: arms.first.treads" in words
    assert "did you mean 'threads'?" in words


def test_a_wrong_type_says_what_is_allowed(place):
    place.grid(TWO_ARMS, batches="many")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert "grid.yaml:5: batches" in words
    assert "a whole number from 1" in words


def test_all_problems_are_told_at_once(place):
    place.grid("arms:\n  first: {treads: 2}\n", batches="many", blocks=0)
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert {"grid.yaml:9:", "grid.yaml:5:", "grid.yaml:4:"} <= set(words.split())


def test_an_empty_grid_of_arms(place):
    place.grid("arms: {}\n")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert "grid.yaml:8: arms" in words
    assert "at least one arm" in words


def test_a_duplicate_arm(place):
    place.grid("arms:\n  first: {}\n  first: {threads: 1}\n")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert "grid.yaml:10: arms.first" in words


def test_more_threads_than_cores(place):
    cores = len(os.sched_getaffinity(0))
    place.grid(f"arms:\n  first: {{threads: {cores + 1}}}\n")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert f"grid.yaml:9: arms.first.threads: {cores + 1} threads" in words
    assert f"at most {cores}" in words


def test_a_module_that_is_not_there_names_the_nearest(place):
    place.grid(TWO_ARMS, trainable="doubels:Structured")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert "trainable doubels:Structured: there is no module doubels" in words
    assert "did you mean 'doubles'?" in words


def test_a_name_that_is_not_in_the_module_names_the_nearest(place):
    place.grid(TWO_ARMS, trainable="doubles:Structred")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert "doubles.py defines no Structred" in words
    assert "did you mean 'Structured'?" in words


def test_a_setting_that_the_trainable_does_not_take_names_line_and_nearest(place):
    place.grid(TWO_ARMS, settings="{falt: raise}")
    words = refused(place.ablate("launch", "grid.yaml"), place)
    assert "grid.yaml:8: settings.falt" in words
    assert "did you mean 'fault'?" in words


@pytest.mark.parametrize("how", [["--local"], []], ids=["local", "ray"])
def test_a_resource_nothing_offers_is_refused_in_seconds_by_nearest_name(place, how):
    place.grid("arms:\n  first: {resources: {CUP: 1}}\n  second: {repeat: first}\n")
    done = place.ablate("launch", "grid.yaml", *how)
    words = refused(done, place, code=4)
    assert "grid.yaml:9: arms.first.resources.CUP: asks for CUP: 1, no node offers it" in words
    assert "did you mean 'CPU'?" in words
    assert done.seconds < 5
    assert not (place.folder / "runs").exists()


def test_more_of_a_resource_than_any_node_has_says_the_most_there_is(place):
    cores = len(os.sched_getaffinity(0))
    place.grid("arms:\n  first: {resources: {CPU: 999}}\n")
    words = refused(place.ablate("launch", "grid.yaml", "--local"), place, code=4)
    assert f"grid.yaml:9: arms.first.resources.CPU: asks for CPU: 999, the most on one node is {cores}" in words


def test_a_trainable_that_raises_at_import_shows_its_own_last_lines_and_runs_nothing(place):
    place.grid(TWO_ARMS)
    done = place.ablate("launch", "grid.yaml", "--local", env={"DOUBLES_RAISE_AT_IMPORT": "1"})
    assert done.code == 2
    assert "trainable: doubles:Structured: it raised before any trial was started" in done.words
    assert 'raise RuntimeError("the double raises at import, as it was told")' in done.text
    assert "RuntimeError: the double raises at import, as it was told" in done.text
    assert "/ablate/" not in done.text
    assert list(place.root().glob("journal/*")) == []


def test_an_unknown_trial_names_the_nearest(place):
    place.grid(TWO_ARMS)
    words = refused(place.ablate("trial", "grid.yaml", "t00000000"), place)
    assert "trial 't00000000': is none of the grid's 4 trials" in words
    assert "ablate plan grid.yaml --json" in words


def test_a_run_that_is_not_there(place):
    for command in ("gap", "check"):
        words = refused(place.ablate(command, "nothing"), place)
        assert "nothing: there is no run of this name" in words
