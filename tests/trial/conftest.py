"""Lets trials import the small trainables beside these tests, as a user's own module is imported."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
