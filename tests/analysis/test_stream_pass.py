"""Hashes that are stored alike are equal; what is not stored alike is decoded, and both ways say the same."""

import pytest
from synthetic import Told, arm, block_losses, grid, write_run

from ablate.record.reader import Run
from analysis import stream_pass
from analysis.confounding import CONTENTS, ORDER, Compared
from analysis.controls import all_contrasts
from analysis.pairing import Sides, matching
from analysis.run_data import read_hashes, read_trials
from analysis.stream_pass import streams_of

ARMS = {"plain": arm(2), "same": arm(2, x=1), "other": arm(2, x=2), "missing": arm(2, x=3)}
EQUAL = [(ORDER, Compared(False)), (CONTENTS, Compared(False))]
OTHER_CONTENTS = [(ORDER, Compared(False)), (CONTENTS, Compared(True, 100))]


def tell(trial):
    content = {100: 7} if trial.arm == "other" and trial.block == 1 else {}
    losses = block_losses(trial.block, trial.batches) + (trial.arm != "plain")
    return Told(losses, status=None if trial.arm == "missing" else "done", content=content)


@pytest.fixture(scope="module", params=[1500, 150], ids=["groups of their own", "shared groups"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("streams") / "run", grid(ARMS, batches=request.param), tell)


def matches(run: Run):
    trials, _ = read_trials(run)
    return [matching(trials, Sides.of(contrast, run.grid)).matches for contrast in all_contrasts(run.grid)]


def test_streams_are_compared_batch_by_batch(run: Run) -> None:
    assert streams_of(run, matches(run)) == [[EQUAL, EQUAL], [EQUAL, OTHER_CONTENTS], [[], []]]


def test_what_is_stored_alike_is_not_decoded_and_decoding_it_says_the_same(run: Run, monkeypatch) -> None:
    decoded = []

    def watched(run, groups):
        decoded.extend(groups)
        return read_hashes(run, groups)

    monkeypatch.setattr(stream_pass, "read_hashes", watched)
    found = streams_of(run, matches(run))
    arms = {trial.trial_id: (trial.arm, trial.block) for trial in read_trials(run)[0]}
    alone = run.grid.batches == 1500
    seen = {arms[trial_id] for group in decoded for trial_id in group}
    assert (("same", 1) in seen, ("other", 0) in seen) == (not alone, not alone)
    assert ("other", 1) in seen
    decoded.clear()
    monkeypatch.setattr(Run, "stored", lambda *_: {})
    assert streams_of(run, matches(run)) == found
    assert {arms[trial_id] for group in decoded for trial_id in group} == set(arms.values())
