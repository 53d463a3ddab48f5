from __future__ import annotations

import sys
from pathlib import Path

import pytest

import ablate
from ablate.design.shadow import check_not_shadowed
from ablate.errors import BadInput

ROOT = Path(ablate.__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _not_loaded(monkeypatch):
    """As in a process that has imported neither generic package yet."""
    for name in ("trainables", "analysis"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(ROOT)


def test_this_distribution_shadows_nothing():
    check_not_shadowed()


@pytest.mark.parametrize("name", ["trainables", "analysis"])
@pytest.mark.parametrize("form", ["{name}.py", "{name}/__init__.py"])
def test_a_file_that_comes_first_is_named(tmp_path, name, form):
    file = tmp_path / form.format(name=name)
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    with pytest.raises(BadInput) as caught:
        check_not_shadowed([tmp_path])
    assert caught.value.exit_code == 2
    assert str(caught.value) == (
        f"{file}: this file shadows {ROOT / name / '__init__.py'}: `import {name}` would read it instead\n"
        f"    rename it, or start from a folder where no file or folder is called {name}"
    )


def test_a_folder_without_init_shadows_nothing(tmp_path):
    (tmp_path / "analysis").mkdir()
    check_not_shadowed([tmp_path])


def test_a_package_that_is_already_loaded_from_elsewhere_is_named(tmp_path, monkeypatch):
    loaded = type(sys)("analysis")
    loaded.__file__ = str(tmp_path / "analysis.py")
    monkeypatch.setitem(sys.modules, "analysis", loaded)
    with pytest.raises(BadInput, match="this file shadows"):
        check_not_shadowed()


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr("ablate.design.shadow.PACKAGES", ("ablate", "no_such_package"))
    with pytest.raises(BadInput) as caught:
        check_not_shadowed()
    assert str(caught.value) == (
        f"{ROOT}: the package no_such_package of this distribution is missing\n"
        "    reinstall the distribution that holds `ablate`"
    )
