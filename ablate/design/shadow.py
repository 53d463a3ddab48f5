"""Whether the three packages of this distribution are the ones an import would find; two have everyday names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import ablate
from ablate.design.module_file import find_module
from ablate.errors import BadInput, Problem

PACKAGES = ("ablate", "trainables", "analysis")


def check_not_shadowed(search: Sequence[Path] = ()) -> None:
    """Check that each of ``PACKAGES`` comes from the folder that ``ablate`` was imported from.

    Args:
        search: folders that will come before ``sys.path``, such as the grid file's.

    Raises:
        BadInput: another file has one of the names and comes first, or the package is missing.
    """
    root = Path(ablate.__file__).resolve().parent.parent
    problems = []
    for name in PACKAGES:
        loaded = getattr(sys.modules.get(name), "__file__", None)
        file = Path(loaded) if loaded else find_module(name, search)
        mine = root / name / "__init__.py"
        if file is None:
            advice = "reinstall the distribution that holds `ablate`"
            problems.append(Problem(str(root), f"the package {name} of this distribution is missing", advice=advice))
        elif file.resolve() != mine:
            found = f"this file shadows {mine}: `import {name}` would read it instead"
            advice = f"rename it, or start from a folder where no file or folder is called {name}"
            problems.append(Problem(str(file.resolve()), found, advice=advice))
    if problems:
        raise BadInput(*problems)
