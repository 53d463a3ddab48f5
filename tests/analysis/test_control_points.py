from synthetic import Told, arm, block_losses, grid, write_run

from analysis.control_points import side_by_side
from analysis.figures.beside_controls import NOTHING_BESIDE
from analysis.study import Study


def test_an_arm_in_no_contrast_of_arms_stands_beside_its_controls(tmp_path):
    spec = grid({"one": arm(2), "again": arm(2, repeat="one")}, factors={"lr": (0.1, 0.2)})
    here = Study(write_run(tmp_path / "levels", spec, lambda trial: Told(block_losses(trial.block))).paths.root)
    (shown,) = side_by_side(here.run.grid, here._trials[0], here._outcomes)
    assert (shown.label, [name for name, _ in shown.columns], len(shown.lines)) == ("arm one", ["one", "again"], 4)
    assert here.beside_controls().png()[:4] == b"\x89PNG"
    lone = grid({"one": arm(2)}, factors={"lr": (0.1, 0.2)})
    alone = Study(write_run(tmp_path / "alone", lone, lambda trial: Told(block_losses(trial.block))).paths.root)
    assert alone.beside_controls().text == f"<p>{NOTHING_BESIDE}</p>"
