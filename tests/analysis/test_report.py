"""``ablate report``: one page that needs nothing but itself, and says what was run."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import numpy as np
import pytest
from synthetic import Told, arm, block_losses, clean, grid, overwritten, write_run

import analysis
from ablate.design.spec import Margin
from ablate.errors import AblateError
from ablate.record.check import check
from analysis.gap import gap
from analysis.headline import WORST_FIRST
from analysis.html_tables import bullets, pairs, table
from analysis.methods import methods
from analysis.provenance import arm_settings, machines, versions
from analysis.report import page
from analysis.report_body import body
from analysis.reproduce import commands
from analysis.run_data import read_trials
from analysis.run_notebook import notebooks, run_notebook
from analysis.words import meaning

ARMS = {"plain": arm(), "<b>bad</b>": arm(way=2), "plain-again": arm(2, "plain")}
TEXT = {"p", "h1", "h2", "h3", "td", "th", "dd", "dt", "figcaption", "pre", "li"}


def tell(trial):
    bad = trial.arm == "<b>bad</b>"
    audits = [row for batch in (0, 1, 2, 50) for row in (overwritten(batch) if bad else [clean(batch)])]
    env = json.dumps({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    told = {"cpu_model": "i5", "torch": "2.13.0", "git_commit": "c0ffee", "git_dirty": True, "env": env}
    return Told(block_losses(trial.block) * (1.3 if bad else 1), audits=audits, hashes=told)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("räksmörgås 'n $HOME") / "run"
    return write_run(root, grid(ARMS, margin=Margin(value=5.0, unit="percent")), tell)


@pytest.fixture(scope="module")
def written(run):
    """The page by the command line, from a folder whose modules must not get in the way."""
    folder = run.paths.root.parent
    (folder / "analysis.py").write_text("raise ImportError('the wrong one')")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ablate")), "report", str(run.paths.root)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"wrote {run.paths.report}\n"
    assert done.stderr == "running 01_gap.ipynb, 23 cells\nrunning 02_verdict.ipynb, 13 cells\n"
    return run.paths.report.read_text()


class Seen(HTMLParser):
    """Collects text, tags and addresses, and checks that tags are closed in order."""

    VOID = frozenset({"meta", "img", "br", "link", "hr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def test_the_page_needs_nothing_but_itself(written):
    seen = Seen(written)
    assert seen.open == []
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in seen.addresses)
    assert not re.search(r"https?://|url\(|@import", written)
    assert seen.tags.count("img") == 6  # what 02_verdict shows a second time is left out
    assert written.count("How far the losses part") == 2  # title and alternative text of one figure
    assert {"script", "link", "iframe"}.isdisjoint(seen.tags)
    assert '<meta name="viewport"' in written


def test_the_first_screen_is_question_headline_and_evidence(written):
    text = Seen(written).text
    first = text[: text.index("Did the losses come out the same?")]
    assert "Does the machinery tell right from wrong?" in first
    assert "BUG a fault was seen at work during training" in first
    assert "This tensor was overwritten between forward and backward: target of MseLossBackward0" in first
    assert "What this rests on (<b>bad</b> against plain, first of 2 comparisons, controls included)" in first
    assert "saved tensors arm <b>bad</b>: overwritten in 24 of 24 watched batches" in first
    assert len(first) < 2500


def test_everything_from_a_run_is_escaped(written):
    assert "<b>bad" not in written
    assert "&lt;b&gt;bad&lt;/b&gt;" in written


def test_the_page_says_methods_provenance_and_how_to_repeat(written):
    text = Seen(written).text
    for words in (
        "14 trials of 60 batches each were planned: 2 arms (plain, <b>bad</b>) over 6 blocks (seeds 0 to 5). "
        "Controls: plain-again (A/A, of plain). 14 trials gave an outcome: the mean loss over the last 20 of 60 ",
        "data order, data set, initial weights, random draws; all are equal on both sides.",
        "Equivalence: two one-sided t tests (TOST) within 5%, fixed before the launch.",
        "On the first 3 batches and every 50th of a trial, every tensor that autograd saved",
        "c0ffee with uncommitted changes",
        "git checkout c0ffee # the working tree had uncommitted changes, which this commit does not hold ablate launch",
        "study: synthetic",
        "OMP_NUM_THREADS=1",
        "What the words mean",
    ):
        assert words in text, words
    assert "What the arms produced" not in text


def test_a_report_in_the_store_is_no_stranger_to_it(run, written):
    before = check(run)
    assert before == []
    run.paths.report.unlink()
    assert check(run) == before


def test_the_page_loads_neither_torch_nor_ray(run):
    code = (
        "import sys; from analysis.study import Study; import analysis.report, analysis.report_progress\n"
        "study = Study(sys.argv[1])\n"
        "for name in dir(study):\n    if not name.startswith('_') and callable(getattr(study, name)):\n"
        "        shown = getattr(study, name)(); assert isinstance(shown._repr_html_(), str), name\n"
        "found = {'torch', 'ray', 'trainables', 'ablate.trial', 'ablate.launch', 'ablate.audit'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(found)) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, run.paths.root], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_notebooks_are_prose_and_calls_only():
    always = ["01_gap.ipynb", "02_verdict.ipynb"]
    assert [path.name for path in notebooks(probed=False)] == always
    assert [path.name for path in notebooks(probed=True)] == [*always, "04_saddles.ipynb"]
    for path in notebooks(probed=True):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert code[0].metadata.tags == ["parameters"]
        assert code[0].source.startswith('RUN = "')
        assert all(not cell.outputs and cell.execution_count is None for cell in code)
        assert all(len(cell.source.split("\n")) <= 3 for cell in code)
        assert all(re.fullmatch(r"study\.\w+\(\)", cell.source) for cell in code[2:])


def notebook(tmp_path, *sources):
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell('RUN = ""', metadata={"tags": ["parameters"]})]
    made.cells += [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(made, tmp_path / "mine.ipynb")
    return tmp_path / "mine.ipynb"


def test_a_cell_that_fails_is_named_and_leaves_no_page(run, tmp_path, monkeypatch):
    path = notebook(tmp_path, "import os\nassert os.path.isabs(RUN), RUN", "seen = 1\n{}['missing']", "seen = 2")
    monkeypatch.setattr("analysis.report.notebooks", lambda probed: [path])
    from analysis.report import write_report

    with pytest.raises(AblateError) as raised:
        write_report(run, tmp_path / "page.html")
    assert raised.value.exit_code == 1
    assert str(raised.value) == (
        "mine.ipynb, cell 3 ({}['missing']): KeyError: 'missing'\n"
        f"    No page was written. Open {path} in Jupyter with RUN = {str(run.paths.root)!r} to look closer."
    )
    assert not (tmp_path / "page.html").exists()


def test_a_kernel_that_dies_is_an_error(run, tmp_path):
    path = notebook(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(AblateError, match=r"mine.ipynb, cell 2 .*: its process died"):
        run_notebook(path, run.paths.root)


def test_a_notebook_without_parameters_is_ours_to_mend(run, tmp_path):
    made = nbformat.v4.new_notebook()
    nbformat.write(made, tmp_path / "mine.ipynb")
    with pytest.raises(ValueError, match="no cell carries the tag 'parameters'"):
        run_notebook(tmp_path / "mine.ipynb", run.paths.root)


def test_the_body_takes_the_richest_output_and_skips_what_the_page_has():
    made = nbformat.v4.new_notebook()
    shown = lambda **data: nbformat.v4.new_output("execute_result", {k.replace("_", "/"): v for k, v in data.items()})  # noqa: E731
    cells = [
        ([], [shown(text_html="<i>rich</i>", text_plain="poor")]),
        (["notebook-only"], [shown(text_html="<i>twice</i>")]),
        ([], [shown(image_png="QUJD\n")]),
        ([], [shown(text_plain="a < b"), nbformat.v4.new_output("stream", text="said")]),
    ]
    for tags, outputs in cells:
        made.cells.append(nbformat.v4.new_code_cell("x", metadata={"tags": tags}, outputs=outputs))
    made.cells.append(nbformat.v4.new_markdown_cell("*prose* <script>"))
    made.cells.append(nbformat.v4.new_markdown_cell("twice", metadata={"tags": ["notebook-only"]}))
    html = body(made)
    assert "<i>rich</i>" in html
    assert 'src="data:image/png;base64,QUJD"' in html
    assert "<pre>a &lt; b</pre>" in html
    assert "<em>prose</em> &lt;script&gt;" in html
    assert not {"poor", "twice", "said"} & set(re.findall(r"\w+", html))


def test_a_page_of_a_run_without_any_trial(tmp_path):
    empty = write_run(tmp_path / "run", grid(ARMS), lambda trial: Told(np.empty(0), status=None))
    text = Seen(page(empty, gap(empty), [])).text
    assert "14 trials planned: 14 not run yet" in text
    assert "No margin was fixed, so no equivalence is claimed." in text
    assert "that the pairs started equal is not shown" in text
    assert "not recorded" in text


def test_provenance_names_every_machine_and_version(tmp_path):
    def mixed(trial):
        facts = {"host": f"m{trial.block % 2}", "torch": f"2.{trial.block % 2}", "git_commit": f"c{trial.block % 2}"}
        env = json.dumps({"A": str(trial.block % 2)})
        return Told(block_losses(trial.block), hashes={**facts, "env": env, "threads_set": 1, "onednn": True})

    run = write_run(tmp_path / "run", grid({"plain": arm(), "changed": arm(way=2)}), mixed)
    recorded = run.trials()
    assert [(row[0], row[-2], row[-1]) for row in machines(recorded, run.grid).rows] == [
        ("m0", "plain, changed", "6"),
        ("m1", "plain, changed", "6"),
    ]
    assert ("torch", "2.0, 2.1") in versions(recorded)
    assert ("git commit", "c0; c1") in versions(recorded)
    assert ("ablate", "not recorded") in versions(recorded)
    assert arm_settings(recorded, run.grid).rows[0] == (
        "plain", "-", "1", "not recorded", "not recorded", "yes", "not recorded", "A=0\nor: A=1",
    )  # fmt: skip
    assert commands(run, recorded)[:2] == ["git checkout c1", "# trials ran at 2 commits: c0, c1"]


def test_methods_name_factors_and_confounding(tmp_path):
    def tell(trial):
        return Told(block_losses(trial.block), hashes={"data_hash": trial.arm})

    run = write_run(tmp_path / "run", grid({"a": arm(), "b": arm(way=2)}, factors={"lr": (0.1, 0.2)}), tell)
    said = " ".join(methods(run.grid, gap(run)))
    assert "with the factors lr: 0.1, 0.2. There is no control arm." in said
    assert "these differ: data set." in said
    assert "the factors' cells are averaged within a block first" in said
    assert "No saved tensor was watched. Gradients were not compared with a reference." in said
    assert read_trials(run)


def test_every_headline_has_a_meaning():
    assert all(meaning(word) for word in WORST_FIRST)
    assert meaning("NOTHING TO COMPARE") == ""


def test_html_escapes():
    assert "&lt;" in bullets(["<"]).text
    assert pairs([("<", ">")]).text == "<dl><dt>&lt;</dt><dd>&gt;</dd></dl>"
    assert bullets([]).text == ""
    from analysis.gap_rows import Rows

    assert "<caption>A &amp; B</caption>" in table(Rows(("x",), 1, (("a\nb",),)), "A & B").text
    assert "a<br>b" in table(Rows(("x",), 1, (("a\nb",),))).text


def test_templates_and_notebooks_lie_in_the_package():
    root = Path(analysis.__file__).parent
    assert (root / "templates" / "report.html.j2").exists()
    assert (root / "notebooks" / "01_gap.ipynb").exists()
    assert (root / "notebooks" / "02_verdict.ipynb").exists()
    assert (root / "notebooks" / "04_saddles.ipynb").exists()


@pytest.mark.parametrize("cell", [2, 9])
def test_ctrl_c_ends_the_kernel_and_writes_nothing(run, tmp_path, cell):
    code = (
        "import os, signal, sys; from ablate.exit_codes import exit_code; from ablate.record.reader import Run\n"
        "from pathlib import Path; from analysis.report import write_report\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"def told(name, cell, cells):\n    if cell == {cell}: os.kill(os.getpid(), signal.SIGINT)\n"
        "try:\n    write_report(Run(sys.argv[1]), Path(sys.argv[2]), told)\n"
        "except BaseException as error:\n    sys.exit(exit_code(error))\n"
    )
    words = [sys.executable, "-c", code, run.paths.root, tmp_path / "page.html"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("interrupted")
    assert list(tmp_path.iterdir()) == []
