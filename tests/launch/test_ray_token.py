"""Ray's token is shown to a cluster exactly where there is one and nobody has said otherwise."""

from __future__ import annotations

import sys

import pytest

from ablate.launch.ray_token import has_token, shown


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_without_a_token_none_is_shown(home):
    assert not has_token({})


def test_the_one_that_an_embedded_ray_left_is_shown(home):
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text("0" * 64)
    assert has_token({})
    assert not has_token({"RAY_AUTH_MODE": "disabled"})


@pytest.mark.parametrize("name", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_one_that_the_environment_names_is_shown(home, name):
    assert has_token({name: "x"})


def test_nothing_is_changed_once_ray_is_imported(monkeypatch):
    """It has read the mode then: a Ray that is started would ask for a token that its driver does not show."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "x")
    monkeypatch.setitem(sys.modules, "ray", object())
    assert shown() == {}
    monkeypatch.delitem(sys.modules, "ray")
    assert shown() == {"RAY_AUTH_MODE": "token"}
