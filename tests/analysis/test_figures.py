"""Figures are drawn at every realistic size, say of whom they speak, and leave nothing global behind."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from synthetic import Told, arm, block_losses, grid, write_run

from ablate.design.spec import Margin
from analysis.figures.beside_controls import NOTHING_BESIDE
from analysis.figures.style import looks, n_words, panels_across
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
