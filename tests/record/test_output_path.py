"""A place that cannot be written is told before the work, not after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ablate.errors import BadInput
from ablate.record.output_path import check_file, check_parent


def test_a_missing_folder_is_named_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        check_file(tmp_path / "no" / "page.html", "--output")
    assert str(caught.value) == (
        f"--output {tmp_path}/no/page.html: {tmp_path}/no is no folder\n"
        "    Make it (mkdir -p), or choose another --output."
    )
    assert caught.value.exit_code == 2


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"--save {tmp_path}: is a folder\n    allowed: a file\n    Such as {tmp_path}/"):
        check_file(tmp_path, "--save")


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(BadInput, match=r"cannot be written\n    Choose a folder that you may write as --output"):
        check_parent(tmp_path / "x", "--output")


def test_a_new_file_an_old_one_and_a_bare_name_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.html").write_text("x")
    for path in (tmp_path / "old.html", tmp_path / "new.html", Path("bare.html")):
        check_file(path, "--output")
    assert (tmp_path / "old.html").read_text() == "x"
