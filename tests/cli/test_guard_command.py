"""`ablate guard SCRIPT`: the script runs as under python, what it overwrites is told, its exit code is kept."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from ablate.audit.script_report import MEND, MOST_PLACES, MOST_SHOWN, Place, Seen
from tests.conftest import Done

ALIAS = """
import sys
import numpy as np, torch

window = np.zeros((4, 8), dtype=np.float32)
model = torch.nn.Linear(8, 8)

def loss(k):
    window[:] = k
    return torch.nn.functional.mse_loss(model(torch.ones(4, 8)), torch.from_numpy(window))

for k in range(5):
    (loss(2 * k) + loss(2 * k + 1)).backward()
print(sys.argv, __name__, __file__, sys.path[0])
"""

CLEAN = """
import os, sys
os.environ["OMP_NUM_THREADS"] = "1"  # counts only if torch has not been imported yet
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

def run():
    print(torch.get_num_threads(), torch.manual_seed(0).initial_seed())
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.BatchNorm1d(4))
    x = torch.randn(6, 4, requires_grad=True)
    out = model(x).square().mean()
    (slope,) = torch.autograd.grad(out, x, create_graph=True)
    (slope.square().sum() + out).backward()
    out = model(x).square().mean()
    out.backward(retain_graph=True)
    out.backward()
    checkpoint(model, x, use_reentrant=False).sum().backward()
    print(torch.func.grad(lambda y: model[0](y).sin().sum())(torch.ones(4)))
    model(x).exp().sum().backward()
    for workers in (0, 2):
        for (rows,) in DataLoader(TensorDataset(x.detach()), batch_size=3, num_workers=workers):
            model(rows).sum().backward()
    print([p.grad for p in model.parameters()], sys.argv, __package__, __spec__ is None)

if __name__ == "__main__":
    run()
"""

REFUSED = """
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y.add_(1)
y.sum().backward()
"""

OTHER_THREAD = """
import threading, torch

def train():
    torch.ones(3, requires_grad=True).exp().sum().backward()

thread = threading.Thread(target=train)
thread.start()
thread.join()
"""

STOPPED = """
import os, signal, sys
import numpy as np, torch

row = np.ones(3, dtype=np.float32)
out = (torch.ones(3, requires_grad=True) * torch.from_numpy(row)).sum()
row[0] = 2
out.backward()
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""

ENDS = """
import os, signal, sys

word = sys.argv[1]
if word == "raise":
    raise ValueError("no good")
if word.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, word))
sys.exit(word if word == "words" else int(word))
"""

MODULE = """
import sys
from . import here

print(here, sys.argv, sys.path[:2], __name__, __package__, __file__, __spec__.name, sys.modules["__main__"].here)
"""

SCRIPTS = {
    "alias.py": ALIAS,
    "clean.py": CLEAN,
    "pkg/__init__.py": "here = __name__",
    "pkg/train.py": MODULE,
    "pkg/__main__.py": MODULE,
    "empty/__init__.py": "",
    "refused.py": REFUSED,
    "other_thread.py": OTHER_THREAD,
    "stopped.py": STOPPED,
    "ends.py": ENDS,
    "not_python.py": "if true; then\n",
}

NOTHING = "ablate guard: nothing was checked: the script did not import torch\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("a folder") / "räksmörgås 'n $HOME"
    for name, text in SCRIPTS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text).lstrip())
    return root


def run(folder: Path, *words: object, env: Mapping[str, str] | None = None) -> Done:
    program = Path(sys.executable).with_name("ablate") if words[0] == "guard" else Path(sys.executable)
    kept = {**{k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}, **(env or {})}
    done = subprocess.run(
        [program, *map(str, words)], cwd=folder, env=kept, capture_output=True, text=True, timeout=120
    )
    return Done(done.returncode, done.stdout, done.stderr, 0.0)


def test_an_overwritten_target_is_told_with_its_line_and_the_exit_code_is_5(folder: Path, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    done = run(folder, "guard", "--json", told, "alias.py", "--json", "x", "-m", "--", "--first", "2")
    assert done.code == 5
    path = folder / "alias.py"
    arguments = ["alias.py", "--json", "x", "-m", "--", "--first", "2"]
    assert done.out == f"{arguments} __main__ {path} {folder}\n"
    what = "target of MseLossBackward0, shape (4, 8), saved at alias.py:9 in loss"
    assert done.err.splitlines() == [
        f"ablate guard: overwritten in backward pass 1: {what}; the script goes on",
        f"ablate guard: BUG: this tensor was overwritten between forward and backward: {what}, backward pass 1 of 5 "
        "(1 tensor there; 5 in all); 25 others checked and as saved",
        f"  to mend: {MEND}",
    ]
    found = json.loads(told.read_text())
    assert (found["verdict"], found["ended"], found["exit_code"]) == ("BUG", "done", 0)
    assert (found["backward_passes"], found["tensors_overwritten"], found["script"]) == (5, 5, arguments)
    assert [(p["first_pass"], p["last_pass"], p["tensors"]) for p in found["places"]] == [(1, 5, 5)]


def test_only_the_first_passes_are_watched_if_so_asked(folder: Path) -> None:
    done = run(folder, "guard", "--first", "2", "alias.py")
    assert done.code == 5
    assert "backward pass 1 of 2 watched (1 tensor there; 2 in all); 10 others checked" in done.err


@pytest.mark.slow
def test_a_clean_script_prints_what_it_prints_under_python(folder: Path) -> None:
    plain, done = run(folder, "clean.py"), run(folder, "guard", "clean.py")
    assert plain.code == done.code == 0, done.err
    assert done.out == plain.out
    assert done.out.startswith("1 0\n")
    clean, unseen = done.err.splitlines()
    pattern = r"ablate guard: nothing was overwritten: \d\d tensors checked in 10 backward passes of the main thread"
    assert re.fullmatch(pattern, clean)
    assert unseen == "  not seen: calls of torch.func's transforms, which run without the guard: 1"


@pytest.mark.parametrize("words", [["pkg.train"], ["pkg.train", "-m", "--lr", "0.1", ""], ["pkg"]])
def test_a_module_finds_itself_as_it_does_under_python(folder: Path, words: list[str]) -> None:
    plain, done = run(folder, "-m", *words), run(folder, "guard", "-m", *words)
    assert (done.code, done.out, done.err) == (plain.code, plain.out, plain.err + NOTHING)
    assert "__main__" in done.out


def test_a_write_that_torch_refuses_is_told_and_the_scripts_own_exit_code_with_it(folder: Path) -> None:
    done = run(folder, "guard", "refused.py")
    assert done.code == 5
    assert "Traceback" in done.err
    assert "script.py" not in done.err  # the frames below the script are none of its business
    what = "result of ExpBackward0, shape (3,), saved at refused.py:4 in <module>"
    assert f"overwritten in backward pass 1: {what}; torch refuses to go on\n" in done.err
    assert "is at version 1; expected version 0 instead. It was saved (refused.py:4 in <module>).\n" in done.err
    assert f"{what}, backward pass 1 of 1 (1 tensor there), and torch refused to go on; 0 others" in done.err
    assert done.err.endswith("  the script's own exit code was 1\n")


def test_what_another_thread_does_is_not_claimed_to_be_clean(folder: Path) -> None:
    done = run(folder, "guard", "other_thread.py")
    assert done.code == 0
    assert done.err == (
        "ablate guard: nothing was checked: no tensor was saved for a backward pass in the main thread; "
        "other threads are not watched\n"
    )


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_what_was_found_is_told_by_a_script_that_is_stopped(folder: Path, name: str) -> None:
    done = run(folder, "guard", "stopped.py", name)
    assert done.code == 5
    assert "other of MulBackward0, shape (3,), saved at stopped.py:5" in done.err
    assert done.err.count("BUG: ") == 1


@pytest.mark.parametrize(
    ("word", "code", "says"),
    [
        ("3", 3, NOTHING),
        ("0", 0, NOTHING),
        ("words", 1, "words\n" + NOTHING),
        ("SIGTERM", -signal.SIGTERM, NOTHING),
        ("raise", 1, None),
        ("SIGINT", -signal.SIGINT, None),
    ],
)
def test_a_script_ends_as_it_does_under_python(folder: Path, word: str, code: int, says: str | None) -> None:
    plain, done = run(folder, "ends.py", word), run(folder, "guard", "ends.py", word)
    assert plain.code == done.code == code
    assert done.err == (says if says is not None else plain.err + NOTHING)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nope.py"], "error: nope.py: cannot be read: No such file or directory"),
        (["pkg"], "error: pkg: is a folder"),
        (["not_python.py"], "error: not_python.py:1: is not Python: invalid syntax"),
        (["-m", "nope"], "error: -m nope: no module named nope"),
        (["-m", "empty"], "error: -m empty: no module named empty.__main__"),
        (["-m", "pkg/train.py"], "a file is run without -m"),
        (["--json", "nope/x.json", "ends.py", "0"], "error: --json: cannot write"),
        (["--first", "0", "ends.py"], "Invalid value for '--first'"),
        ([], "Missing argument"),
    ],
    ids=["missing", "folder", "not-python", "no-module", "package", "file-as-module", "json", "first", "nothing"],
)
def test_what_cannot_be_run_is_bad_input(folder: Path, words: list[str], says: str) -> None:
    done = run(folder, "guard", *words)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_the_command_in_the_readme_runs(folder: Path) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text()
    script, module = re.findall(r"ablate (guard .*?train.*? 0\.1)", text)
    (folder / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")
    for command in (script, module):
        done = run(folder, *command.split())
        assert (done.code, done.err) == (0, NOTHING)
        assert "'--lr', '0.1'" in done.out


def test_the_advice_is_the_same_as_in_a_verdict() -> None:
    from analysis import evidence_lines

    assert evidence_lines.MEND == MEND


def place(line: int, number: int) -> Place:
    return Place("other of MulBackward0", "", f"a.py:{line} in f", (3,), "float32", False, "", number, number, 1)


def test_a_long_run_with_many_places_keeps_a_bounded_number_and_counts_the_rest() -> None:
    seen = Seen(["a.py"], torch_imported=True, tensors_checked=10_000, tensors_changed=3_000, backward_passes=1_000)
    for number in range(10):
        for line in range(300):
            seen.add(place(line, number + 1))
    assert len(seen.places) == MOST_PLACES
    assert (seen.tensors_overwritten, seen.tensors_at_further_places) == (3_000, 2_000)
    first, *also, rest, mend = seen.lines()
    assert "backward pass 1 of 1,000 (300 tensors there; 3,000 in all); 7,000 others checked" in first
    assert len(also) == MOST_SHOWN - 1
    assert (
        also[0] == "  also other of MulBackward0, shape (3,), saved at a.py:1 in f: 10 tensors from backward pass 1 on"
    )
    assert rest == "  and 2,950 tensors at further places; --json FILE lists up to 100 places"
    assert mend == f"  to mend: {MEND}"


def test_nothing_checked_is_not_nothing_overwritten() -> None:
    seen = Seen(["a.py"], torch_imported=True, tensors_saved=3)
    assert seen.lines() == ["ablate guard: nothing was checked: 3 tensors saved, but no backward pass asked for one"]
    assert seen.verdict == "nothing checked"
