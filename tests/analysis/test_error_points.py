import pytest
from auditing import ARMS, BUG, GRADIENT, parted, teller
from synthetic import Told, audit, changed, distance, grid, write_run

from analysis.error_points import error_points, most_telling
from analysis.run_data import read_audits
from analysis.study import Study


def test_distances_are_drawn_with_their_bounds(tmp_path):
    spare = [distance(0, "gradient", "zero", error=0.0, verdict="equal"), distance(0, "gradient", "none", scale=0.0)]
    run = write_run(tmp_path / "run", grid(ARMS), teller([*changed(audit(), GRADIENT, **BUG), *spare]))
    rows = [row for found in read_audits(run).values() for row in found]
    points = {(p.arm, p.quantity, p.name): p for p in error_points(rows, ["plain", "changed"])}
    wrong = points["changed", "gradient", "conv1.weight"]
    assert (wrong.faults, max(wrong.errors), wrong.bounds) == (6, 0.01, (5e-6, 5e-6))
    assert wrong.nearness == pytest.approx(0.01 / 5e-6)
    assert (points["changed", "gradient", "zero"].exact, points["changed", "gradient", "zero"].errors) == (6, ())
    assert ("changed", "gradient", "none") not in points
    assert "nudged" not in {arm for arm, _, _ in points}
    assert most_telling(list(points.values()), 1) == ["conv1.weight"]
    shown = Study(run.paths.root).distances()
    assert shown.png()[:4] == b"\x89PNG"
    assert "(n = 20 trials)" in shown.caption
    assert "6 distances of exactly 0 cannot be shown." in shown.caption


def test_a_large_model_shows_the_parameters_nearest_to_their_bounds(tmp_path):
    many = [distance(0, "gradient", f"layer{n}.weight", error=1e-7 * (n + 1)) for n in range(40)]
    run = write_run(tmp_path / "run", grid(ARMS), lambda trial: Told(parted(trial), audits=many))
    shown = Study(run.paths.root).distances()
    assert "Shown are the 30 parameters nearest to their bounds; 10 more are farther off." in shown.caption
    assert shown.figure.axes[0].get_yticklabels()[0].get_text() == "layer10.weight"


def test_an_error_is_held_against_the_bound_of_its_own_batch(tmp_path):
    tight = distance(0, "gradient", "w", error=1e-6, bound=2e-6)
    loose = distance(1, "gradient", "w", error=2e-4, bound=2e-3)  # beyond the tighter one's bound, and no fault
    run = write_run(tmp_path / "run", grid(ARMS), lambda trial: Told(parted(trial), audits=[tight, loose]))
    (point,) = error_points([row for found in read_audits(run).values() for row in found], ["plain"])
    assert point.bounds == (1e-6, 1e-3)
    assert point.nearness == pytest.approx(0.5)
    assert point.faults == 0
