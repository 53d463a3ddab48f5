"""The error of an arm that did not take effect."""

from __future__ import annotations

from ablate.errors import AblateError


class ArmNotInEffect(AblateError):
    """The process does not compute as the arm asks; running on would record a false comparison."""
