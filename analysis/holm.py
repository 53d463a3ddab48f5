"""Holm's step-down adjustment over the contrasts of a study.

Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979); computed by
``statsmodels.stats.multitest.multipletests``.
"""

from __future__ import annotations

from collections.abc import Sequence

from statsmodels.stats.multitest import multipletests


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust the p values of one family.

    The family is every contrast the grid asks for, controls left out, so its size is fixed before any outcome is seen:
    a contrast without a p value (no blocks) stays in it as p = 1, which makes the others no easier to pass.

    Args:
        p_values: one per contrast, None where no test could be made.

    Returns:
        tuple[float | None, ...]: adjusted p values in the same order, None where the input is None.
    """
    if not p_values:
        return ()
    adjusted = multipletests([1.0 if p is None else p for p in p_values], method="holm")[1]
    return tuple(None if p is None else float(a) for p, a in zip(p_values, adjusted, strict=True))
