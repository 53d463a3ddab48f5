"""``ablate saddle``: who is near saddles and for how long, against plain loops."""

import json
import statistics
import subprocess
import sys

import numpy as np
import pytest
from probing import AT, DIMENSION, MINIMUM, SADDLE, SLOPE, UNDECIDED, game, kinds, snapshot, study, values
from synthetic import Told, arm, block_losses, generator, grid, write_run

from ablate.curvature import Plan
from ablate.design.spec import Contrast
from ablate.design.trial_spec import CurvaturePlan, ProbePlan
from ablate.errors import BadInput
from ablate.record.reader import Run
from analysis.bca import mean_interval
from analysis.probed import NoProbes, read_probed
from analysis.saddle import saddle
from analysis.saddle_answer import QUESTION, RULE
from analysis.saddle_indicators import NEAR
from analysis.saddle_table import saddle_lines
from analysis.sign_flip import sign_flip


def test_a_lasting_saddle_is_found_and_the_answer_comes_first(tmp_path):
    told = {"plain": lambda block: [SADDLE, MINIMUM, MINIMUM], "slow": lambda block: [SADDLE, SADDLE, SADDLE]}
    found = saddle(study(tmp_path, kinds(told)))
    (time,) = found.time
    assert (time.contrast, time.n, time.decision) == ("slow against plain", 7, "DIFFERENT")
    assert (time.reference, time.other, time.gap) == (pytest.approx(1 / 3), 1.0, pytest.approx(2 / 3))
    assert time.adjusted_p == sign_flip(np.full(7, 2 / 3)).p == 2 / 2**7
    assert found.answer.word == "YES"
    assert found.answer.sentence == (
        "slow against plain: 100% of the snapshots against 33% are near a saddle (Holm p = 0.016 over 7 blocks)."
    )
    lines = [line.plain for line in saddle_lines(found, 100)]
    assert lines[0].startswith("YES: slow against plain")
    assert all(len(line) <= 100 for line in lines)
    text = " ".join(" ".join(lines).split())
    assert QUESTION in text
    assert RULE in text


def test_few_blocks_decide_nothing_and_it_says_why(tmp_path):
    told = {"plain": lambda block: [MINIMUM] * 3, "slow": lambda block: [SADDLE] * 3}
    found = saddle(study(tmp_path / "a", kinds(told), blocks=5))
    assert found.answer.word == "NOT DECIDED"
    assert "with 5 blocks no Holm p can be below 0.062" in found.answer.sentence
    two = saddle(study(tmp_path / "b", kinds(told), blocks=2))
    assert "2 blocks, and an interval needs 3" in two.answer.sentence


def test_the_smallest_p_that_can_be_reached_is_reached_with_unequal_blocks(tmp_path):
    """Holm multiplies only the smallest p by the whole family: fewer blocks beside more lose nothing by it."""
    told = {"plain": lambda block: [MINIMUM] * 3, **dict.fromkeys(("slow", "slower"), lambda block: [SADDLE] * 3)}
    arms = {"plain": arm(8), "slow": arm(8, way=2), "slower": arm(6, way=3)}
    contrasts = (Contrast(arms=("plain", "slow")), Contrast(arms=("plain", "slower")))
    found = saddle(study(tmp_path, kinds(told), arms=arms, contrasts=contrasts)).time
    assert [one.n for one in found] == [8, 6]
    assert [one.attainable_p for one in found] == [2 * 2 / 2**8, 2 / 2**6] == [one.adjusted_p for one in found]


def test_undecided_snapshots_count_against_a_difference(tmp_path):
    """With them on its side the difference would be certain: it must not be claimed."""
    told = {"plain": lambda block: [UNDECIDED] * 3, "slow": lambda block: [SADDLE] * 3}
    found = saddle(study(tmp_path / "a", kinds(told)))
    (time,) = found.time
    assert (time.gap, time.least, time.most) == (1.0, 0.0, 1.0)
    assert (time.decision, time.adjusted_p, time.undecided) == ("UNDECIDED", 1.0, (1.0, 0.0))
    assert found.answer.sentence == (
        "slow against plain: 100% of the snapshots against 0% are near a saddle, but 0% against 100% are undecided and "
        "could be."
    )
    assert any(
        note.startswith("Undecided: 21 of 21 snapshots of arm plain; the last of them: told") for note in found.notes
    )
    fewer = {"plain": lambda block: [UNDECIDED, MINIMUM, MINIMUM], "slow": lambda block: [SADDLE] * 3}
    assert saddle(study(tmp_path / "b", kinds(fewer))).time[0].decision == "DIFFERENT"


def test_undecided_snapshots_forbid_a_no(tmp_path):
    none = {"plain": lambda block: [SLOPE] * 3, "slow": lambda block: [MINIMUM] * 3}
    found = saddle(study(tmp_path / "a", kinds(none)))
    assert found.answer.word == "NO"
    assert (
        found.answer.sentence
        == "no snapshot of any arm is near a saddle (21 of 48 are on a slope, near nothing), in these 7 blocks."
    )
    alike = {name: lambda block: [SADDLE, MINIMUM, SLOPE] for name in ("plain", "slow")}
    assert saddle(study(tmp_path / "b", kinds(alike))).answer.sentence == (
        "every arm is near a saddle in about as many of its snapshots as the others (33%), in these 7 blocks."
    )
    one = {"plain": lambda block: [SLOPE, SLOPE, UNDECIDED], "slow": lambda block: [MINIMUM] * 3}
    assert saddle(study(tmp_path / "c", kinds(one))).answer.word == "NOT DECIDED"


def test_a_difference_of_chance_is_no_yes(tmp_path):
    def at_random(name):
        return lambda block: list(generator(name, block).choice([SADDLE, MINIMUM], 3))

    found = saddle(study(tmp_path, kinds({"plain": at_random("a"), "slow": at_random("b")})))
    assert found.answer.word == "NOT DECIDED"


def test_indicators_against_plain_loops(tmp_path):
    run = study(tmp_path, values)
    rows = run.probes().to_pylist()

    def mean(arm, block, name):
        own = [r["value"] for r in rows if (r["arm"], r["block"], r["name"]) == (arm, block, name)
               and r["batches"] > 0 and not r["position"]]  # fmt: skip
        return statistics.fmean(own)

    found = saddle(run)
    assert [one.indicator for one in found.contrasts] == [
        "lambda_max",
        "lambda_min",
        "negative_share",
        "gradient_negative_share",
        "negativity_ratio",
        "escape_rate",
    ]
    for one in found.contrasts:
        gaps = np.array([mean("slow", b, one.indicator) - mean("plain", b, one.indicator) for b in range(7)])
        assert one.gap == pytest.approx(gaps.mean(), rel=1e-12)
        assert one.interval.low == pytest.approx(mean_interval(gaps).low, rel=1e-9)
        assert one.test.p == sign_flip(gaps).p
        assert one.adjusted_p <= min(1.0, 6 * one.test.p)
    assert found.contrasts[0].bound == pytest.approx(2e-6)
    open_ends = [  # what the quadrature leaves open is more than the standard error, 0.02
        max(r["value"] / 2, min(r["value"] + 0.3, 1.0) - r["value"], 0.02)
        for r in rows
        if r["name"] == "negative_share" and r["batches"] > 0 and r["arm"] != "again"
    ]
    assert found.contrasts[2].bound == pytest.approx(2 * statistics.fmean(open_ends))


def test_how_near_is_near_is_what_probes_use():
    assert Plan().critical == NEAR


def test_the_floor_is_stated(tmp_path):
    found = saddle(study(tmp_path / "a", lambda trial: [row for at in AT for row in snapshot(at)]))
    assert found.floor == "below minus 0.1% of the snapshot's largest eigenvalue in size, which is 0.01"
    less = saddle(study(tmp_path / "b", lambda trial: [row for row in snapshot(20) if row["name"] != "floor"]))
    assert less.floor == "no floor was recorded, so shares of negative eigenvalues mean nothing here"


def test_without_a_density_no_share_is_made_up(tmp_path):
    rows = lambda trial: [row for at in AT for row in snapshot(at, share=None, density=False)]  # noqa: E731
    found = saddle(study(tmp_path, rows))
    assert "negative_share" not in {one.indicator for one in found.contrasts}
    assert any(note.startswith("Without a density") for note in found.notes)


def test_players_are_told_apart_and_their_game_is_shown(tmp_path):
    def tell(trial):
        rows = []
        for at in AT:
            rows += snapshot(at, SADDLE if trial.arm == "slow" else MINIMUM, player="generator")
            rows += snapshot(at, MINIMUM, player="critic")
            rows += game(at, [0.5, -0.1 - trial.block, 0.5], [2.0, 0.0, -3.0])
        return rows

    found = saddle(study(tmp_path, tell))
    assert [(one.player, one.decision) for one in found.time] == [("critic", "ALIKE"), ("generator", "DIFFERENT")]
    assert found.time[1].adjusted_p == pytest.approx(2 * 2 / 2**7)
    assert found.answer.sentence.startswith("slow against plain (player generator): 100%")
    assert found.answer.sentence.endswith("1 other contrast: not so, or not decided.")
    game_at_start = found.games[0]
    assert (game_at_start.arm, game_at_start.batches, game_at_start.eigenvalues) == ("plain", 0, 21)
    assert (game_at_start.smallest_real, game_at_start.largest_imaginary) == (-6.1, 3.0)
    text = " ".join(line.plain for line in saddle_lines(found, 100))
    assert "The players' game" in text


def test_one_arm_has_nothing_to_compare_with(tmp_path):
    found = saddle(study(tmp_path, kinds({}), arms={"plain": arm(2)}))
    assert found.answer.word == "NOTHING TO COMPARE"
    assert found.answer.sentence == "the grid has no contrast of its own."


def test_a_run_that_goes_on_is_told_so(tmp_path):
    rows = lambda trial: snapshot(20) if trial.arm == "plain" else []  # noqa: E731
    found = saddle(study(tmp_path, rows))
    assert found.answer.word == "NOT DECIDED"
    assert "no block was looked at on both sides" in found.answer.sentence
    assert len(found.dropped) == 14


def test_what_is_not_finite_never_reaches_the_report(tmp_path):
    rows = lambda trial: [row for at in AT for row in snapshot(at, top=float("nan") if at == 40 else 10.0)]  # noqa: E731
    found = saddle(study(tmp_path, rows))
    json.dumps(found.to_json(), allow_nan=False)
    assert "lambda_max" not in found.courses[0].stages[2].values
    assert (found.contrasts[0].indicator, found.contrasts[0].n) == ("lambda_max", 0)


def test_the_same_seed_gives_the_same_report(tmp_path):
    run = study(tmp_path, values)
    before = np.random.get_state()[1].tobytes()
    assert json.dumps(saddle(run, 3).to_json()) == json.dumps(saddle(run, 3).to_json())
    assert np.random.get_state()[1].tobytes() == before


def test_probes_are_read_whole(tmp_path):
    run = study(tmp_path, lambda trial: [row for at in reversed(AT) for row in snapshot(at)])
    probed = read_probed(run)
    assert len(probed) == 16 * 4
    assert [one.batches for one in probed[:4]] == list(AT)
    first = probed[0]
    assert [value.value for value in first.values["lambda_max"]] == [10.0, 5.0]
    assert first.values["dimension"][0].value == DIMENSION
    assert "decrement_most" not in first.values  # infinite


@pytest.mark.parametrize("planned", [False, True])
def test_a_run_without_probes_says_how_to_get_them(tmp_path, planned):
    spec = grid({"plain": arm(1), "slow": arm(1, way=2)})
    if planned:
        spec = spec.model_copy(update={"probes": ProbePlan(curvature=CurvaturePlan(at=(0, 60)))})
    run = write_run(tmp_path / "run", spec, lambda trial: Told(block_losses(trial.block)))
    with pytest.raises(NoProbes) as raised:
        saddle(run)
    assert isinstance(raised.value, BadInput)
    advice = (
        f"its trials keep snapshots: `ablate probe {run.paths.root}` looks at them"
        if planned
        else "write `probes: {curvature: {at: [0, 50, last]}}` into the grid and launch it; a trial that is done keeps "
        "no snapshots any more, so name a new study"
    )
    assert str(raised.value) == f"{run.paths.root}: holds no probes of the curvature\n    {advice}"


def test_the_analysis_loads_neither_torch_nor_ray(tmp_path):
    run = study(tmp_path, values, blocks=1)
    code = (
        "import sys; from ablate.record.reader import Run; from analysis.saddle import saddle\n"
        f"saddle(Run({str(run.paths.root)!r}))\n"
        "assert not {'torch', 'ray'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_store_of_today_is_read_by_name(tmp_path, monkeypatch):
    study(tmp_path / "runs", values, blocks=1)
    monkeypatch.chdir(tmp_path)
    assert saddle(Run("runs/run")).study == "synthetic"
