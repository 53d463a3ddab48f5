import statistics

from probing import AT, MINIMUM, SADDLE, SLOPE, UNDECIDED, snapshot, study, values
from synthetic import arm

from analysis.saddle import saddle
from analysis.saddle_table import saddle_lines


def test_courses_are_medians_and_ranges_over_blocks(tmp_path):
    run = study(tmp_path, values)
    rows = run.probes().to_pylist()
    course = saddle(run).courses[0]
    assert (course.arm, course.trials, [stage.batches for stage in course.stages]) == ("plain", 7, list(AT))
    for stage in course.stages:
        own = [
            r["value"] for r in rows if (r["arm"], r["batches"], r["name"]) == ("plain", stage.batches, "lambda_min")
        ]
        spread = stage.values["lambda_min"]
        assert (spread.middle, spread.low, spread.high) == (statistics.median(own), min(own), max(own))
        assert (spread.n, spread.bound, spread.unconverged) == (7, 1e-6, 0)
    assert course.kinds == {MINIMUM: 0, SADDLE: 21, SLOPE: 0, UNDECIDED: 0}


def test_edges_that_have_not_converged_are_marked(tmp_path):
    def tell(trial):
        return [row for at in AT for row in snapshot(at, converged=not (trial.block == 3 and at == 40))]

    found = saddle(study(tmp_path, tell))
    stage = found.courses[0].stages[2]
    assert stage.values["lambda_max"].unconverged == 1
    assert found.courses[0].stages[1].values["lambda_max"].unconverged == 0
    text = " ".join(" ".join(line.plain.split()) for line in saddle_lines(found, 100))
    assert "10 ±1e-06* -0.5 ±1e-06*" in text
    assert "*: 4 of 128 edges have not converged" in text


def test_cells_of_factors_are_kept_apart(tmp_path):
    arms = {"plain": arm(3), "slow": arm(3, way=2)}
    rows = lambda trial: [row for at in AT for row in snapshot(at, loss=trial.factors["lr"])]  # noqa: E731
    found = saddle(study(tmp_path, rows, arms=arms, factors={"lr": (0.1, 0.2)}, contrasts=None))
    assert [(one.arm, one.cell) for one in found.courses] == [
        (name, cell) for name in ("plain", "slow") for cell in ("lr = 0.1", "lr = 0.2")
    ]
    assert [one.stages[0].values["loss"].middle for one in found.courses] == [0.1, 0.2, 0.1, 0.2]
