"""Ray's token is shown to a cluster exactly where there is one and nobody has said otherwise."""

from __future__ import annotations

import pytest

from ablate.launch.ray_token import has_token


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
