import pytest
from synthetic import Told, arm, block_losses, clean, generator, grid, write_run

from ablate.design.spec import Margin
from analysis.assumptions import SKEWED_DIFFERENCE, SKEWED_EQUIVALENCE, assumption_words
from analysis.bca import COVERAGE, FEW, few_words
from analysis.gap import gap

DIFFERENCE = (
    "p is exact for the question whether both sides do the same. It speaks of their means only if the blocks' "
    "differences are symmetric: of log-normal ones with mean 0 up to 16% have p < 0.05."
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
    assert (SKEWED_DIFFERENCE, SKEWED_EQUIVALENCE) == (0.16, 0.22)
    assert assumption_words(sizes) == words


@pytest.mark.parametrize(
    ("shift", "margin", "words"),
    [(0.5, None, [DIFFERENCE]), (0.0, Margin(value=20.0, unit="percent"), [EQUIVALENCE])],
)
def test_a_report_that_claims_something_says_what_that_takes_for_granted(tmp_path, shift, margin, words):
    def tell(trial):
        moved = (trial.arm == "other") * (shift + 0.01 * generator("moved", trial.block).normal())
        return Told(block_losses(trial.block) * (1 + moved), audits=[clean(0)])

    notes = gap(write_run(tmp_path / "run", grid({"plain": arm(), "other": arm()}, margin=margin), tell)).notes
    assert [note for note in notes if note in (DIFFERENCE, EQUIVALENCE)] == words


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([3], "at 3 they cover the true value about 72% of the time, 61% if"),
        ([5, 40], "at 3 they cover"),
        ([9, 30], "at 6 they cover the true value about 86% of the time"),
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
