"""The networks of this folder are imported by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
