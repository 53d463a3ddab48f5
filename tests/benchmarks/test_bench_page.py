"""``make bench``: every script is run, whatever becomes of the others, and the page says what happened."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import pytest

from benchmarks import all as bench
from benchmarks.measured import Comparison, markdown, spread
from benchmarks.surroundings import Surroundings

GOOD = """
    from benchmarks.measured import Comparison, arguments, report
    asked = arguments("Fakes.", 3).parse_args()
    rows = [Comparison("a | thing", "ms", (2.0, 1.0, 4.0), "peer", (6.0,), "<= 3 ms", True),
            Comparison("another", "ms", (5.0,), target="<= 3 ms", met=False, note="slow")]
    report("Fake things", rows, asked.json)
"""


@pytest.fixture
def script(tmp_path: Path):
    def write(name: str, code: str) -> bench.Script:
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(code))
        return bench.Script(str(path), 1.0)

    return write


def run_main(monkeypatch: pytest.MonkeyPatch, scripts: list[bench.Script], page: Path, *names: str) -> int:
    monkeypatch.setattr(bench, "SCRIPTS", tuple(scripts))
    return bench.main([*names, "--page", str(page)])


def test_a_failing_script_is_said_and_the_others_go_on(script, tmp_path, monkeypatch, capsys) -> None:
    bad = script("bad", "import sys\nprint('no such [peer]', file=sys.stderr)\nsys.exit(3)")
    page = tmp_path / "docs" / "page.md"
    assert run_main(monkeypatch, [bad, script("good", GOOD)], page) == 1
    text = page.read_text()
    assert "**Failed: bad.**" in text
    assert "exit code 3\nno such [peer]" in text
    assert "Not on this page" not in text
    assert "## Fake things" in text
    assert "| a &#124; thing | 2 ms (1 to 4) | peer | 6 ms | 3 | <= 3 ms | yes |  |" in text
    assert "| another | 5 ms |  |  |  | <= 3 ms | **no** | slow |" in text
    assert "1 of 2 targets met" in text
    assert "benchmarks/" in text.partition("By itself: ")[2]
    said = capsys.readouterr().out
    assert "[1 of 2]" in said
    assert "FAILED" in said


def test_the_page_names_what_was_not_asked_for(script, tmp_path, monkeypatch) -> None:
    page, scripts = tmp_path / "page.md", [script(name, GOOD) for name in ("one", "two", "three")]
    assert run_main(monkeypatch, scripts, page, "two") == 0
    assert "Not on this page, since they were not asked for: `one`, `three`." in page.read_text()


def test_without_failures_the_exit_code_is_0_also_where_a_target_is_missed(script, tmp_path, monkeypatch) -> None:
    assert run_main(monkeypatch, [script("good", GOOD)], tmp_path / "page.md") == 0


def test_a_script_that_writes_nothing_has_failed(script, tmp_path) -> None:
    assert bench.run(script("mute", "pass"), tmp_path).failed == "exit code 0"


def test_a_script_that_never_ends_is_ended_with_what_it_started(script, tmp_path) -> None:
    started = tmp_path / "pid"
    code = f"""
        import pathlib, sys, time
        from benchmarks.launched import Place
        child = Place(pathlib.Path({str(tmp_path / "place")!r})).start(["sleep", 600])
        open({str(started)!r}, "w").write(str(child.pid))
        time.sleep(600)
    """
    found = bench.run(script("endless", code), tmp_path, longest_s=5.0)
    assert found.failed == "not done after 5 s"
    pid = int(started.read_text())
    deadline = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_the_table_names_scripts_that_are_there_and_leaves_time(capsys) -> None:
    folder = Path(bench.__file__).parent
    assert all((folder / script.file).is_file() for script in bench.SCRIPTS)
    assert len({script.name for script in bench.SCRIPTS}) == len(bench.SCRIPTS)
    assert sum(script.seconds for script in bench.SCRIPTS) < 30 * 60
    with pytest.raises(SystemExit):
        bench.main(["no_such_benchmark"])
    assert "'no_such_benchmark' is none of" in capsys.readouterr().err


def test_the_page_says_where_it_was_measured() -> None:
    here = Surroundings.now()
    text = "\n".join(here.lines())
    assert here.cores == len(os.sched_getaffinity(0))
    for word in ("Python 3", "torch 2", "duckdb", "load before", "GB of memory", here.processor):
        assert word in text
    idle = Surroundings(**{**vars(here), "load": 0.1})
    assert "other work" not in "".join(idle.lines())
    assert "other work was running" in "".join(Surroundings(**{**vars(here), "load": 3.0}).lines())


def test_the_page_names_no_place_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        str(Path.cwd() / "benchmarks" / "all.py"),
        "guard",
        "--page",
        "docs/benchmarks.md",
        "--json",
        "/home/me/found.json",
    ]
    monkeypatch.setattr("sys.argv", said)
    assert Surroundings.now().command == "python benchmarks/all.py guard --page docs/benchmarks.md --json found.json"


def test_a_row_without_a_peer_has_no_ratio() -> None:
    assert Comparison("x", "s", (1.0,)).ratio is None
    assert Comparison("x", "s", (0.0,), "p", (1.0,)).ratio is None
    assert Comparison("x", "s", (-0.1,), "p", (1.0,)).ratio is None
    assert Comparison("x", "s", (1.0, 2.0, 3.0), "p", (8.0, 6.0, 7.0)).ratio == 3.5
    assert spread((), "s") == ""
    assert markdown([])[1] == "| --- | --- | --- | --- | --- | --- | --- | --- |"
