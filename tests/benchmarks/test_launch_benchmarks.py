"""The pieces of the launch benchmarks say what they mean, on numbers known beforehand."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time

import pytest
import torch

from ablate.design.grid import load_grid
from ablate.errors import UnmetPlacement
from ablate.launch import placement
from ablate.launch.study import read_study
from ablate.trial.draw import Draw, Stream
from benchmarks import impossible_arm, launch_efficiency, launch_overhead, launched, many_trials, pending_trials
from benchmarks.launch_trainables import Perceptron, bare, loss_of, sgd
from benchmarks.launched import AT_ONCE, QUIET, Place, Times


@pytest.fixture
def here(tmp_path):
    place = Place(tmp_path)
    yield place
    place.end_all()


def times(each_s: float, trials: int = 10, start_s: float = 5.0) -> Times:
    """A launch whose trials follow one another in each place after ``each_s``; it ends as the last begin."""
    rounds = trials // AT_ONCE
    marks = [100.0 + start_s + each_s * number for number in range(rounds) for _ in range(AT_ONCE)]
    return Times(100.0, 100.0 + start_s + (rounds - 1) * each_s, tuple(marks))


def test_the_start_and_a_trials_share_are_told_apart():
    one = times(each_s=3.0, trials=5 * AT_ONCE, start_s=7.0)
    assert one.start_s == pytest.approx(7.0)
    assert one.period_s == pytest.approx(3.0)
    assert one.each_s == pytest.approx(3.0 / AT_ONCE)


@pytest.mark.parametrize(("each_s", "peer_s", "met"), [(0.1, 3.0, True), (0.2, 9.0, False), (0.1, 1.5, False)])
def test_an_overhead_is_held_against_both_its_targets(each_s, peer_s, met):
    trials = 100 * AT_ONCE
    ours, peer = times(each_s * AT_ONCE, trials), times(peer_s * AT_ONCE, 2 * AT_ONCE)
    quiet, audited, start = launch_overhead.rows([ours], [ours], [peer], trials)
    assert (quiet.met, audited.met) == (met, met)
    assert quiet.ours[0] == pytest.approx(1e3 * each_s)
    assert start.met
    late = times(each_s, start_s=5.0 * 1.3)
    assert launch_overhead.rows([late], [late], [times(peer_s)], trials)[-1].met is False


@pytest.mark.parametrize(("each_s", "met"), [(10.2, True), (11.0, False)])
def test_efficiency_is_bare_seconds_over_a_trials(each_s, met):
    one = times(each_s, 3 * AT_ONCE)
    quiet, audited = launch_efficiency.rows([(10.0, one, times(20.0), times(40.0))], 6, 10.0, 1000, 70.0)
    assert quiet.ours[0] == pytest.approx(10 / each_s)
    assert quiet.peer[0] == pytest.approx(0.25)
    assert (quiet.met, audited.met) == (met, False)
    assert "1000 batches of 10 ms (~10 s)" in quiet.what
    assert quiet.note == "bare 10 s a trial; the study's draws take 70 us a batch more than torch's, 0.7%"


def test_what_the_studys_draws_take_is_measured_between_steps(monkeypatch):
    normal, drawn = Stream.normal, []

    def slower(stream, shape):
        drawn.append(shape)
        ends = time.thread_time() + 2e-3
        while time.thread_time() < ends:
            pass
        return normal(stream, shape)

    monkeypatch.setattr(Stream, "normal", slower)
    assert launch_efficiency.drawing_us(launch_efficiency.Size(2, 5, tried=1), batches=8) >= 1000
    assert drawn == [(5, 8)] * 8


def test_the_grid_is_what_it_says(here):
    grid = load_grid(here.grid(blocks=3, **QUIET))
    assert (grid.guard.first, grid.guard.every, grid.audit.first) == (0, 0, 0)
    assert len(read_study(here.folder / "grid.yaml", 1).specs) == 6
    default = load_grid(here.grid(blocks=3))
    assert default.guard.first
    assert default.audit.first


def test_what_no_machine_has_is_refused_by_name(here):
    study = read_study(here.grid(blocks=1, arms=impossible_arm.ARMS), 1)
    requests = {spec.arm: spec.resources for spec in study.specs}
    with pytest.raises(UnmetPlacement, match=impossible_arm.TAG) as error:
        placement.check(requests, [placement.this_machine()])
    assert error.value.exit_code == impossible_arm.UNMET


def test_the_trainable_and_the_bare_loop_are_one_training(monkeypatch, tmp_path):
    marks = tmp_path / "marks.txt"
    monkeypatch.setenv("BENCHMARK_MARKS", str(marks))
    trainable = Perceptron(width=5, rows=3)
    model = trainable.build()
    own = Perceptron(width=5, rows=3).build()
    own.load_state_dict(model.state_dict())
    (player,), optimiser = trainable.players(model), sgd(own)
    for batch in itertools.islice(trainable.batches(Draw("launched", 0)), 3):
        x = batch.tensors["x"]
        for loss, stepped in ((trainable.loss(model, batch, {})[0], player.optimiser), (loss_of(own, x), optimiser)):
            stepped.zero_grad()
            loss.backward()
            stepped.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), own.parameters(), strict=True))
    assert bare(5, 3, 2) > 0
    assert len(marks.read_text().splitlines()) == 2


def test_marks_are_read_in_order_and_whole(here):
    here.marks.write_text("3.5\n1.25\n2.0\n9.")
    assert here.begun() == (1.25, 2.0, 3.5)


COUNTS = "import os, time; open(os.environ['BENCHMARK_MARKS'], 'a').write('1.0\\n2.0\\n'); time.sleep({seconds})"


def test_a_command_that_began_too_few_trials_is_no_measurement(here):
    command = [sys.executable, "-c", COUNTS.format(seconds=0)]
    assert here.run(command, trials=2).marks == (1.0, 2.0)
    with pytest.raises(RuntimeError, match="2 of 3 trials began"):
        here.run(command, trials=3)
    with pytest.raises(RuntimeError, match="ended with 0"):
        here.run(command, trials=2, code=4)


def test_growth_is_read_between_trials_and_the_killed_are_gone(here, monkeypatch):
    monkeypatch.setattr(many_trials, "BEGUN", 1)
    process = here.start([sys.executable, "-c", COUNTS.format(seconds=60)])
    assert abs(many_trials.grown_mb(here, process, 1)) < 50
    assert here._running() == [process.pid]
    here.kill(process)
    assert here._running() == []
    with pytest.raises(RuntimeError, match="0 of 1 trials began"):
        here.wait_for(here.start([sys.executable, "-c", ""]), 1)


def test_memory_is_what_the_process_holds():
    before = launched.resident_mb(os.getpid())
    held = torch.ones(20_000_000, dtype=torch.uint8)
    assert launched.resident_mb(os.getpid()) - before == pytest.approx(20, abs=3)
    assert held.sum() == 20_000_000


def test_plain_tune_says_how_it_is_called():
    said = subprocess.run([sys.executable, launched.PLAIN_TUNE, "--help"], capture_output=True, text=True, check=True)
    assert "--restore" in said.stdout


def test_every_limit_on_trials_that_ask_is_one():
    assert max(int(limit) for limit in pending_trials.LIMITS if limit != "all") < pending_trials.TRIALS
