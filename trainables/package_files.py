"""Files that other packages bring along, found without importing those packages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ablate.errors import BadInput, Problem

INSTALL = "pip install 'ablate-study[video]'"


def package_file(package: str, distribution: str, relative: str) -> Path:
    """Return the path of a file inside an installed package.

    Args:
        package: import name, at the top level (finding a spec then runs none of its code).
        distribution: the name it is installed by.
        relative: the file's path inside the package.

    Raises:
        BadInput: if the package isn't installed or lacks the file.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(Problem(distribution, "isn't installed; its sample data are needed", advice=INSTALL))
    file = Path(next(iter(spec.submodule_search_locations))) / relative
    if not file.is_file():
        found = f"missing in the installed {distribution}"
        raise BadInput(Problem(str(file), found, "the version that ablate-study names", advice=f"run {INSTALL}"))
    return file
