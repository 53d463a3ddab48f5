"""Figures are drawn at every realistic size, say of whom they speak, and leave nothing global behind."""

import dataclasses
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from synthetic import Told, arm, block_losses, generator, grid, write_run

from ablate.design.spec import Margin
from analysis.control_points import SideBySide
from analysis.figures.beside_controls import MOST_LINES, NOTHING_BESIDE, draw_beside_controls
from analysis.figures.divergence_growth import draw_divergence_growth
from analysis.figures.style import looks, n_words, panels_across
from analysis.growth_curves import Growth
from analysis.study import Study

NAMES = ("loss_curves", "outcomes", "paired_gaps", "divergence_growth", "beside_controls")
SPEAKS = "It speaks of new seeds on this one machine and this data, not of other machines."


def study(tmp_path, arms, factors=None, blocks=3, tell=None):
    named = {f"arm-{n}-of-many": arm(blocks, way=n) for n in range(arms)}
    spec = grid(named, factors=factors, margin=Margin(value=5.0, unit="percent"))
    plain = lambda t: Told(block_losses(t.block) * (1 + 0.01 * int(t.arm.split("-")[1])))  # noqa: E731
    return Study(write_run(tmp_path / "run", spec, tell or plain).paths.root)


def texts(figure):
    return " ".join(text.get_text() for text in figure.findobj(mpl.text.Text))


@pytest.mark.parametrize(
    ("arms", "factors", "blocks"),
    [(2, None, 1), (2, None, 3), (4, {"lr": (0.1, 0.2), "width": (8, 16)}, 3), (12, None, 3)],
)
def test_figures_at_every_size(tmp_path, arms, factors, blocks):
    here = study(tmp_path, arms, factors, blocks)
    before = dict(mpl.rcParams), np.random.get_state()[1].tobytes()
    for name in NAMES:
        shown = getattr(here, name)()
        assert shown.png()[:4] == b"\x89PNG"
        assert shown.caption.endswith(SPEAKS)
        said = texts(shown.figure)
        assert "n = " in said
        assert all(axis.get_xlabel() or axis.get_figure().texts or not axis.get_visible() for axis in shown.figure.axes)
    assert (dict(mpl.rcParams), np.random.get_state()[1].tobytes()) == before
    assert plt.get_fignums() == []


def test_many_arms_get_a_panel_each_and_few_are_overlaid(tmp_path):
    many, few = study(tmp_path / "a", 5).loss_curves(), study(tmp_path / "b", 4).loss_curves()
    assert sum(axis.get_visible() for axis in many.figure.axes) == 5
    assert len(few.figure.axes) == 1
    assert "Dotted: the median of the arm that it is compared with." in many.caption
    assert "Dotted" not in few.caption


def test_captions_name_trials_that_ended_early_and_pairs_that_never_part(tmp_path):
    def tell(trial):
        base = block_losses(trial.block)
        return Told(base[:20], "failed", error="x") if trial.arm == "arm-2-of-many" and not trial.block else Told(base)

    here = study(tmp_path, 3, tell=tell)
    assert "1 trial without an outcome left out." in here.outcomes().caption
    growth = here.divergence_growth().caption
    assert growth == (
        "Equal in every batch, bit for bit: arm-1-of-many against arm-0-of-many; arm-2-of-many against arm-0-of-many. "
        + SPEAKS
    )


def test_a_run_without_any_trial_is_drawn_empty(tmp_path):
    here = study(tmp_path, 3, tell=lambda trial: Told(np.empty(0), status=None))
    assert [getattr(here, name)().caption for name in NAMES[:-1]] == [
        "No loss has been recorded yet.",
        "No trial has an outcome yet.",
        "No block has an outcome on both sides yet.",
        "No two matched trials have been recorded yet.",
    ]
    assert NOTHING_BESIDE in here.beside_controls().text
    assert all(getattr(here, name)().png() for name in NAMES[:-1])


def test_the_same_numbers_give_the_same_picture(tmp_path):
    here = study(tmp_path, 3)
    assert here.paired_gaps().png() == here.paired_gaps().png()


def test_a_figure_shows_itself_with_caption_and_can_be_saved(tmp_path):
    shown = study(tmp_path, 2).outcomes()
    shown.save(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes() == shown.png()
    html = shown._repr_html_()
    assert html.startswith('<figure><div><img alt="Outcome of every trial, by arm and machine" src="data:image/png')
    assert f"{SPEAKS}</figcaption></figure>" in html


def test_twenty_arms_look_different():
    assert len(set(looks([str(n) for n in range(20)]).values())) == 20


def test_words_and_panels():
    assert [n_words(counts) for counts in ([1], [7, 7], [2, 7])] == ["1 block", "7 blocks", "2 to 7 blocks"]
    assert [panels_across(count) for count in (0, 1, 2, 3, 4, 5, 12)] == [1, 1, 2, 3, 2, 3, 3]


def beside(lines):
    columns = (("plain", ""), ("other", ""), ("again", "A/A"), ("one-ulp", "one-ulp"))
    outcomes = generator("beside").standard_normal((lines, len(columns)))
    outcomes[0, 2] = np.nan
    told = [tuple(None if np.isnan(value) else float(value) for value in line) for line in outcomes]
    return outcomes, draw_beside_controls([SideBySide("other against plain", columns, tuple(told))], "loss", "P.")


def test_very_many_lines_are_drawn_thin_and_each_is_there():
    outcomes, shown = beside(MOST_LINES + 1)
    (axis,) = shown.figure.axes
    (joined,) = [one for one in axis.collections if isinstance(one, LineCollection)]
    corners = joined.get_segments()
    assert len(corners) == MOST_LINES + 1
    assert np.array_equal(corners[0], [(at, outcomes[0, at]) for at in (0, 1, 3)])  # one outcome is lacking
    assert np.array_equal(corners[1][:, 1], outcomes[1])
    assert not [one for one in beside(MOST_LINES)[1].figure.axes[0].collections if isinstance(one, LineCollection)]


def test_what_stands_below_columns_does_not_touch():
    for lines in (3, 2000):
        figure = beside(lines)[1].figure
        figure.canvas.draw()
        boxes = [text.get_window_extent() for text in figure.axes[0].get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes)), lines


def test_a_band_goes_down_to_the_edge_where_a_pair_is_equal():
    low = np.array([0.0, 1e-6, 1e-5])
    curve = Growth("b against a", None, 9, 0, np.array([1.0, 2, 3]), 10 * low + 1e-6, low, 100 * low + 1e-5)
    shown = draw_divergence_growth([curve], "P.")
    assert "Band: smallest to largest pair, down to the lower edge where the smallest is 0." in shown.caption
    axis = shown.figure.axes[0]
    band = axis.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == axis.get_ylim()[0] > 0
    assert set(band[:, 0]) == {1.0, 2.0, 3.0}
    above = dataclasses.replace(curve, low=low + 1e-7)
    assert "Band: smallest to largest pair. " in draw_divergence_growth([above], "P.").caption


def test_lines_without_bands_leave_rims_of_those_that_they_lie_on(tmp_path):
    here = study(tmp_path, 5, {"lr": (0.1, 0.2)}).loss_curves()
    widths = [line.get_linewidth() for line in here.figure.axes[0].lines]
    assert len(widths) == 5
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 5
    assert "lines get thinner from arm to arm" in here.caption
