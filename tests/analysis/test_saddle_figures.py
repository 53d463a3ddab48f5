"""What the saddle notebook shows: the numbers of its figures against plain loops, each figure at realistic sizes."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from probing import DIMENSION, game, projection, snapshot, surface, write_probes
from synthetic import Told, arm, block_losses, generator, grid, write_run

from ablate.design.cross import trials
from analysis.density_ridges import MOST_RIDGES, WIDTH, density_ridges, place, smooth, unplace
from analysis.figures.captioned import Captioned
from analysis.figures.style import looks
from analysis.loss_surface import surfaces
from analysis.probed import read_probed
from analysis.saddle_points import trails
from analysis.saddle_study import SaddleStudy

FIGURES = ("kinds", "densities", "index_against_loss", "edges", "gradient_share", "surface", "game")
TABLES = ("answer", "time_near_saddles", "kind_counts", "indicators", "not_compared", "saddle_notes", "game_table")
KINDS = ("on a slope", "near a saddle", "undecided", "near a minimum")
SPEAKS = "It speaks of new seeds on this one machine and this data, not of other machines."


def study(tmp_path, arms=2, blocks=3, at=(0, 20, 60), players=("model",), factors=None, tell=None):
    spec = grid({f"arm-{n}-of-many": arm(blocks, way=n) for n in range(arms)}, factors=factors)
    write_run(tmp_path / "run", spec, lambda trial: Told(block_losses(trial.block)))
    run = write_probes(tmp_path / "run", spec, tell or everything(spec, at, players))
    return SaddleStudy(run.paths.root)


def everything(spec, at, players):
    """Every trial has every value; the first arm's last snapshot of each block is a surface's centre."""
    planned = list(trials(spec))
    first = next(iter(spec.arms))

    def tell(trial):
        draws = generator(trial.arm, trial.block)
        rows = []
        for i, batches in enumerate(at):
            for player in players:
                rows += snapshot(
                    batches,
                    KINDS[(i + trial.block) % 4],
                    player=player,
                    top=10 * (1 + draws.random()),
                    bottom=draws.random() - 0.7,
                    share=draws.random(),
                    loss=np.exp(-4 * draws.random()),
                    gradient=draws.random(),
                    converged=draws.random() > 0.2,
                )
            if len(players) > 1:
                rows += game(batches, draws.standard_normal(6) ** 5, draws.standard_normal(6))
            elif batches == at[-1] and trial.arm == first:
                rows += surface(batches)
                for other in (one for one in planned if one.block == trial.block):
                    for then in at:
                        rows += projection(batches, f"{other.trial_id}@{then}", draws.random(), draws.random())
        return rows

    return tell


@pytest.mark.parametrize(
    ("arms", "blocks", "at", "players", "factors"),
    [
        (1, 1, (0,), ("model",), None),
        (2, 3, (0, 20, 60), ("model",), None),
        (3, 2, tuple(range(0, 60, 4)), ("generator", "critic"), {"lr": (0.1, 0.01)}),
        (12, 2, (0, 60), ("model",), None),
    ],
)
def test_everything_is_drawn_at_every_size(tmp_path, arms, blocks, at, players, factors):
    here = study(tmp_path, arms, blocks, at, players, factors)
    before = dict(mpl.rcParams), np.random.get_state()[1].tobytes()
    for name in FIGURES:
        shown = getattr(here, name)()
        if not isinstance(shown, Captioned):
            assert (name, len(players)) in (("surface", 2), ("game", 1))
            continue
        assert shown.png()[:4] == b"\x89PNG"
        assert shown.caption.endswith(SPEAKS)
        assert any(axis.get_visible() and axis.has_data() for axis in shown.figure.axes)
    assert all(getattr(here, name)()._repr_html_() is not None for name in TABLES)
    assert (dict(mpl.rcParams), np.random.get_state()[1].tobytes()) == before
    assert plt.get_fignums() == []


def test_the_same_numbers_give_the_same_pictures(tmp_path):
    here = study(tmp_path)
    for name in FIGURES[:-1]:
        assert getattr(here, name)().png() == getattr(here, name)().png()


def test_an_axis_of_two_signs_keeps_order_and_comes_back():
    curvature = np.array([-1e3, -1.0, -1e-9, 0.0, 1e-9, 1.0, 1e3])
    places = place(curvature, 0.01)
    assert (np.diff(places) > 0).all()
    assert places[3] == 0
    assert np.allclose(unplace(places, 0.01), curvature, rtol=1e-9, atol=1e-17)
    assert places[-1] == pytest.approx(np.log10(1 + 1e5))


def test_a_smoothed_density_keeps_its_mass_and_its_places():
    nodes, weights = np.array([-1.0, 0.0, 5.0]), np.array([0.2, 0.7, 0.1])
    axis = np.linspace(-5, 5, 4001)
    found = smooth((nodes, weights), axis, 0.01)
    assert np.trapezoid(found, axis) == pytest.approx(1, abs=1e-6)
    below = axis < -1
    assert np.trapezoid(found[below], axis[below]) == pytest.approx(0.2, abs=1e-6)
    assert axis[np.argmax(np.where(axis > 1, found, 0))] == pytest.approx(place(np.array([5.0]), 0.01)[0], abs=0.003)


def test_ridges_average_starts_and_trials(tmp_path):
    here = study(tmp_path)
    spectra = density_ridges(here.run, read_probed(here.run), list(here.run.grid.arms), {})
    assert [(one.arm, [ridge.batches for ridge in one.ridges]) for one in spectra.arms] == [
        ("arm-0-of-many", [0, 20, 60]),
        ("arm-1-of-many", [0, 20, 60]),
    ]
    rows = [row for row in here.run.probes().to_pylist() if row["name"] == "density"]
    own = [row for row in rows if (row["arm"], row["batches"]) == ("arm-0-of-many", 20)]
    assert len(own) == 6  # two starts of three trials
    expected = np.mean(
        [smooth((np.array(row["points"]), np.array(row["masses"])), spectra.axis, spectra.linear) for row in own],
        axis=0,
    )
    assert np.allclose(spectra.arms[0].ridges[1].height, expected, rtol=1e-12, atol=0)
    assert spectra.arms[0].single == pytest.approx(1 / (DIMENSION * 3 * WIDTH * np.sqrt(2 * np.pi)))
    floors = [row["value"] for row in here.run.probes().to_pylist() if row["name"] == "floor"]
    assert spectra.linear == min(floors)


def test_many_snapshots_are_thinned_and_it_is_said(tmp_path):
    here = study(tmp_path, 1, 1, tuple(range(0, 61, 3)))
    spectra = density_ridges(here.run, read_probed(here.run), list(here.run.grid.arms), {})
    (one,) = spectra.arms
    batches = [ridge.batches for ridge in one.ridges]
    assert (len(batches), batches[0], batches[-1], one.left_out) == (MOST_RIDGES, 0, 60, 21 - MOST_RIDGES)
    assert "13 snapshots in between not drawn." in here.densities().caption


def test_trails_follow_trials_over_training(tmp_path):
    here = study(tmp_path, factors={"lr": (0.1, 0.01)})
    found = trails(read_probed(here.run), "lambda_min", False, here.run.grid.factors)
    rows = here.run.probes().to_pylist()
    assert len(found) == 2 * 2 * 3
    assert list(dict.fromkeys(one.panel for one in found)) == ["lr = 0.1", "lr = 0.01"]
    for one in found:
        own = {
            (r["batches"], r["name"]): r["value"] for r in rows if r["trial_id"] == one.trial_id and not r["position"]
        }
        assert one.batches == (0, 20, 60)
        assert [value.value for value in one.values] == [own[at, "lambda_min"] for at in one.batches]
        assert list(one.losses) == [own[at, "loss"] for at in one.batches]


def test_a_surface_comes_with_the_ways_of_its_blocks_trials(tmp_path):
    here = study(tmp_path)
    found = surfaces(here.run, read_probed(here.run), list(here.run.grid.arms))
    assert [(one.arm, one.block, one.batches) for one in found] == [("arm-0-of-many", b, 60) for b in range(3)]
    first = found[0]
    x, y = np.meshgrid(first.along_top, first.along_bottom)
    assert np.array_equal(first.losses, 5 * x**2 - y**2 + 6)
    assert [one.arm for one in first.trajectories] == ["arm-0-of-many", "arm-1-of-many"]
    for way in first.trajectories:
        assert way.batches.tolist() == [0, 20, 60]
        assert np.allclose(way.losses, 5 * way.along_top**2 - way.along_bottom**2 + 7, rtol=1e-15)
    caption = here.surface().caption
    assert "2 more surfaces in the data set." in caption
    assert "their own loss is not the colour below them" in caption


def test_a_surface_with_a_loss_that_is_not_finite_is_drawn(tmp_path):
    def tell(trial):
        rows = [*snapshot(0), *snapshot(60)]
        if trial.arm == "arm-0-of-many":
            rows += surface(60)
            rows[-1]["masses"][3] = float("inf")
            rows += projection(60, f"{trial.trial_id}@60", 0.0, 0.0)
        return rows

    assert study(tmp_path, tell=tell).surface().png()


def test_edges_that_have_not_converged_are_hollow_and_counted(tmp_path):
    rows = lambda trial: [row for at in (0, 60) for row in snapshot(at, converged=at == 0)]  # noqa: E731
    here = study(tmp_path, tell=rows).edges()
    assert "Hollow: 12 edges that had not converged" in here.caption
    hollow = [
        line
        for line in here.figure.axes[0].lines
        if len(line.get_xdata()) and line.get_markerfacecolor() == "white" and line.get_marker() != "None"
    ]
    assert sum(len(line.get_xdata()) for line in hollow) == 6


def test_what_was_not_recorded_is_said_in_words(tmp_path):
    rows = lambda trial: [row for at in (0, 60) for row in snapshot(at, share=None, density=False)]  # noqa: E731
    here = study(tmp_path, tell=rows)
    assert here.densities().text == "<p>No spectral density was recorded (`density: 0`).</p>"
    assert here.index_against_loss().text == "<p>No share of negative eigenvalues was recorded (`density: 0`).</p>"
    assert here.surface().text.startswith("<p>No loss surface was recorded")
    assert here.game().text == "<p>One player: there is no game between several.</p>"
    assert here.not_compared().text == "<p>Every contrast is compared, with every trial that it has.</p>"


def test_kinds_differ_in_hatching_too_for_those_who_see_no_colours(tmp_path):
    from analysis.figures.saddle_style import KINDS as styles
    from analysis.saddle_indicators import KINDS as kinds

    assert tuple(styles) == kinds
    assert len({hatch for _, hatch in styles.values()}) == len(styles)
    assert len(set(looks(["a", "b"]).values())) == 2
