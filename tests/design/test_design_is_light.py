from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import ablate.design

MODULES = sorted(f"ablate.design.{module.name}" for module in pkgutil.iter_modules(ablate.design.__path__))
HEAVY = ("torch", "ray", "pandas", "pyarrow", "scipy", "statsmodels")


def loaded(code):
    program = f"import sys\n{code}\nprint(*sorted(name for name in sys.modules if '.' not in name))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.fixture(scope="module")
def all_loaded():
    return loaded("\n".join(f"import {module}" for module in MODULES))


@pytest.mark.parametrize("name", HEAVY)
def test_no_module_of_design_loads(all_loaded, name):
    assert "yaml" in all_loaded
    assert name not in all_loaded


def test_the_grid_loads_no_numpy():
    assert "numpy" not in loaded("import ablate.design.grid")
