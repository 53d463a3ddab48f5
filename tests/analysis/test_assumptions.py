import io
from pathlib import Path

import pytest
from rich.console import Console
from synthetic import Told, arm, block_losses, clean, generator, grid, write_run

from ablate.design.spec import Margin
from analysis.assumptions import SKEWED_DIFFERENCE, SKEWED_EQUIVALENCE, SKEWED_FAMILY, assumption_words
from analysis.bca import COVERAGE, FEW, few_words
from analysis.gap import gap
from analysis.verdict import verdict
from analysis.verdict_text import print_verdict

DIFFERENCE = (
    "p is exact for the question whether both sides do the same. It speaks of their means only if the blocks' "
    "differences are symmetric: of log-normal ones with mean 0 up to 17% have p < 0.05, and of 3 such contrasts one "
    "or more in up to 25% of studies, in spite of Holm."
)
EQUIVALENCE = (
    "TOST takes the blocks' differences as normal: of log-normal ones up to 22% would pass at a gap as large as the "
    "margin, instead of 5%."
)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (["DIFFERENT", "UNDECIDED"], [DIFFERENCE]),
        (["EQUIVALENT"], [EQUIVALENCE]),
        (["DIFFERENT BUT NEGLIGIBLE"], [DIFFERENCE, EQUIVALENCE]),
        (["EQUIVALENT", "DIFFERENT", "DIFFERENT"], [DIFFERENCE, EQUIVALENCE]),
        (["UNDECIDED", "EQUAL"], []),
        ([], []),
    ],
)
def test_only_what_a_claim_rests_on_is_said(sizes, words):
    assert assumption_words(sizes) == words


def simulated(*cells):
    """Return the rates of the rows that begin with these cells, in percent, from the page of simulated studies."""
    page = Path(__file__).parent.parent.parent / "docs" / "statistics.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    return [
        float(rate.split(" ± ")[0]) for row in rows if tuple(row[: len(cells)]) == cells for rate in row if "±" in rate
    ]


@pytest.mark.parametrize(
    ("stated", "test"),
    [
        (SKEWED_DIFFERENCE, "sign-flip, gap 0"),
        (SKEWED_FAMILY, "Holm, 3 contrasts of gap 0, any"),
        (SKEWED_EQUIVALENCE, "TOST, gap at the upper margin"),
    ],
)
def test_rates_are_the_largest_of_the_page_of_simulated_studies(stated, test):
    rates = simulated(test, "skewed")
    assert len(rates) == 3
    assert f"{stated:.0%}" == f"{max(rates):.0f}%"


@pytest.mark.parametrize("blocks", COVERAGE)
@pytest.mark.parametrize(("name", "which"), [("normal", 0), ("skewed", 1)])
def test_coverage_is_that_of_the_page_of_simulated_studies(name, which, blocks):
    (rate,) = simulated("mean gap", name, str(blocks))
    assert 100 * COVERAGE[blocks][which] == pytest.approx(rate, abs=0.5)


@pytest.mark.parametrize(
    ("shift", "margin", "words"),
    [(0.5, None, [DIFFERENCE]), (0.0, Margin(value=20.0, unit="percent"), [EQUIVALENCE])],
)
def test_a_report_that_claims_something_says_what_that_takes_for_granted(tmp_path, shift, margin, words):
    def tell(trial):
        moved = (trial.arm == "other") * (shift + 0.01 * generator("moved", trial.block).normal())
        return Told(block_losses(trial.block) * (1 + moved), audits=[clean(0)])

    run = write_run(tmp_path / "run", grid({"plain": arm(), "other": arm()}, margin=margin), tell)
    (few,) = few_words([len(run.grid.blocks)])
    assert [note for note in gap(run).notes if note in (DIFFERENCE, EQUIVALENCE, few)] == [*words, few]
    judged = verdict(run)
    assert judged.assumptions == (*words, few)
    out = io.StringIO()
    print_verdict(judged, Console(file=out, width=100))
    assert " ".join(out.getvalue().split()).endswith(" ".join([*words, few, judged.blind]))


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([3], "at 3 they cover the true value about 72% of the time, 62% if"),
        ([5, 40], "at 3 they cover"),
        ([9, 30], "at 6 they cover the true value about 87% of the time"),
        ([39, 39], "at 20 they cover"),
    ],
)
def test_intervals_over_few_blocks_are_called_too_narrow_by_what_so_few_cover(blocks, said):
    (words,) = few_words(blocks)
    assert words.startswith("With fewer than 40 blocks the 95% intervals are too narrow: ")
    assert said in words
    assert words.endswith("if the blocks' differences are log-normal.")


@pytest.mark.parametrize("blocks", [[], [FEW], [100, 41]])
def test_intervals_over_many_blocks_need_no_words(blocks):
    assert few_words(blocks) == []
    assert max(COVERAGE) < FEW
