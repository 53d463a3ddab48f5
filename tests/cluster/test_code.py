"""The folder that a cluster's nodes are sent: which it is, what is left out, and that it is not too large."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.errors import BadInput
from ablate.launch import ray_code
from ablate.launch.ray_code import Code, check_size, choose, files, on_node, relative
from ablate.trial.task import TrialTask
from tests.trial.spec_factory import make_spec

MODEL = "def train(config, ctx):\n    pass\n"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A project: a grid in configs/, a model at the top and one beside the grid, a folder of runs."""
    for name in ("configs", "runs", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "configs" / "beside.py").write_text(MODEL)
    (tmp_path / "configs" / "grid.yaml").write_text("")
    return tmp_path


def names(code: Code) -> list[str]:
    return [str(path.relative_to(code.folder)) for path in files(code)]


def test_the_current_folder_is_sent_if_the_grid_lies_in_it_else_the_grids(study):
    grid = study / "configs" / "grid.yaml"
    assert choose(grid, "model:train", study, study / "runs" / "s").folder == study
    assert choose(grid, "beside:train", study / "data", None).folder == study / "configs"


def test_a_trainable_outside_of_what_is_sent_is_refused(study):
    (study / "data" / "other.py").write_text(MODEL)
    with pytest.raises(BadInput, match=r"the trainable lies in .*data, but the folder sent to the nodes is the grid's"):
        choose(study / "configs" / "grid.yaml", "other:train", study / "data", None)


def test_the_home_folder_is_never_sent(study, monkeypatch):
    monkeypatch.setenv("HOME", str(study))
    with pytest.raises(BadInput, match="would be sent to every node of the cluster"):
        choose(study / "configs" / "grid.yaml", "model:train", study, None)


def test_runs_and_what_ignore_files_name_stay_here(study):
    (study / "runs" / "s").mkdir()
    (study / "runs" / "s" / "big").write_text("x")
    (study / "data" / "a.bin").write_text("x")
    (study / "data" / "a.txt").write_text("x")
    (study / "data" / "keep.bin").write_text("x")
    (study / ".gitignore").write_text("*.log\n")
    (study / "run.log").write_text("x")
    (study / "data" / ".rayignore").write_text("*.bin\n!keep.bin\n")
    (study / ".git").mkdir()
    (study / ".git" / "HEAD").write_text("x")
    (study / "again").symlink_to(study)
    found = names(choose(study / "configs" / "grid.yaml", "model:train", study, study / "runs" / "s"))
    kept = {"model.py", "configs/beside.py", "configs/grid.yaml", "data/a.txt", "data/keep.bin"}
    assert set(found) == kept | {".gitignore", "data/.rayignore"}


def test_a_store_right_in_the_folder_is_left_out_alone(study):
    (study / "odd [name]").mkdir()
    (study / "odd [name]" / "rows").write_text("x")
    code = choose(study / "configs" / "grid.yaml", "model:train", study, study / "odd [name]")
    assert "odd [name]/rows" not in names(code)
    assert "model.py" in names(code)


def test_ray_leaves_out_the_same_files(study):
    """The count is ours and the packing Ray's: they agree on ignore files, nesting, letters that patterns use."""
    import zipfile

    from ray._private.runtime_env.packaging import create_package

    test_runs_and_what_ignore_files_name_stay_here(study)
    (study / "again").unlink()  # Ray would follow it for ever
    code = Code(study, ("/runs", *ray_code.LEFT_OUT))
    create_package(str(study), study.parent / "sent.zip", include_gitignore=True, excludes=list(code.excludes))
    with zipfile.ZipFile(study.parent / "sent.zip") as sent:
        packed = {name for name in sent.namelist() if not name.endswith("/")}
    assert packed == set(names(code))


def test_a_folder_too_large_is_refused_with_what_is_largest_in_it(study, monkeypatch):
    (study / "data" / "film").write_bytes(b"x" * 3 * 2**20)
    (study / "notes").write_bytes(b"x" * 2**20)
    monkeypatch.setenv(ray_code.LIMIT_VARIABLE, str(2 * 2**20))
    with pytest.raises(BadInput) as refused:
        check_size(Code(study))
    words = str(refused.value)
    assert "4.0 MiB would be sent to every node as the study's code; Ray carries 2.0 MiB" in words
    assert "Largest: data 3.0 MiB, notes 1.0 MiB" in words
    assert ".rayignore" in words
    (study / ".rayignore").write_text("/data\n")
    check_size(Code(study))


@pytest.mark.parametrize("text", ["512MiB", "", "-1", "1e9"])
def test_a_limit_that_is_none_is_refused(study, monkeypatch, text):
    monkeypatch.setenv(ray_code.LIMIT_VARIABLE, text)
    with pytest.raises(BadInput) as refused:
        check_size(Code(study))
    words = " ".join(str(refused.value).split())
    assert f"RAY_max_grpc_message_size: is {text!r} allowed: a whole number of bytes above 0 Unset it" in words


def test_too_many_files_are_refused_without_counting_on(study, monkeypatch):
    monkeypatch.setattr(ray_code, "MOST_FILES", 2)
    with pytest.raises(BadInput, match="more than 2 files would be sent"):
        check_size(Code(study))


def test_folders_are_relative_to_what_is_sent_and_whole_again_on_the_node(tmp_path):
    here, there, aside = tmp_path / "here", tmp_path / "there", tmp_path / "aside"
    task = TrialTask(
        spec=make_spec("m:f"),
        root="/r",
        attempt=1,
        cwd=str(here / "a"),
        search=(str(here / "b"), str(here), str(aside)),
    )
    sent = relative(task, Code(here))
    assert (sent.cwd, sent.search) == ("a", ("b", "."))
    arrived = on_node(sent, there)
    assert (arrived.cwd, arrived.search) == (str(there / "a"), (str(there / "b"), str(there)))
    assert on_node(task, there) == task  # nothing was sent: absolute paths stay
    elsewhere = relative(task.model_copy(update={"cwd": str(aside)}), Code(here))
    assert on_node(elsewhere, there).cwd == str(there)
