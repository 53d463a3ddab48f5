"""``ablate import``: a CSV and a Ray Tune folder become stores with every loss's bits, or a message names the line."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ablate.errors import BadInput
from ablate.record.check import check
from ablate.record.foreign.bring_in import bring_in
from ablate.record.foreign.csv_losses import level
from ablate.record.foreign.trial import Names, significant_digits
from ablate.record.reader import Run
from analysis.gap import gap
from analysis.methods import methods
from analysis.reproduce import commands

RECORDED = "Imported: initial weights, data and draws were not recorded."


def losses(block, batches=30):
    return np.random.default_rng(block).random(batches) + np.exp(-np.arange(batches) / 9)


def take_in(path, tmp_path, study="mine", names=Names(), reference=None, last=10):  # noqa: B008
    return bring_in(path, study, tmp_path / "runs", names, "Alike?", reference, last, "ablate import x --study mine")


def write_csv(path, arms, blocks=6, show=repr, head="arm,block,batch_index,loss", step=lambda at: at):
    rows = [
        f"{arm},{block},{step(at)},{show(float(loss * scale))}"
        for arm, scale in arms.items()
        for block in range(blocks)
        for at, loss in enumerate(losses(block))
    ]
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


@pytest.fixture
def csv_file(tmp_path):
    return write_csv(tmp_path / "losses.csv", {"gpu": 1.0, "cpu": 1.05, "gpu2": 1.0})


def test_a_csv_becomes_a_store_with_every_bit(csv_file, tmp_path):
    found = take_in(csv_file, tmp_path)
    assert (found.trials, found.rows, found.ended_early) == (18, 540, 0)
    run = Run(found.root)
    assert check(run) == []
    table = run.batches()
    assert "metric.step" not in table.column_names
    rows = {(r["arm"], r["block"], r["batch_index"]): r["loss"] for r in table.to_pylist()}
    assert all(rows["cpu", 3, at] == float(loss * 1.05) for at, loss in enumerate(losses(3)))
    assert math.isnan(table["duration_s"][0].as_py())
    assert run.trials().to_pylist()[0]["initial_hash"] is None
    assert list((tmp_path / "runs").iterdir()) == [found.root]


def test_its_headline_is_honest(csv_file, tmp_path):
    run = Run(take_in(csv_file, tmp_path).root)
    report = gap(run)
    first, second = report.contrasts
    assert (first.reference, first.other) == ("arm gpu", "arm cpu")
    assert (first.verdict.cause, first.verdict.headline) == ("UNKNOWN", "INCONCLUSIVE")
    assert first.effect.relative == pytest.approx(0.05)
    assert report.headline.endswith(f"Nothing was audited: the cause is UNKNOWN. {RECORDED}")
    assert first.streams.compared == ()
    assert second.verdict.cause == "BITWISE EQUAL"  # every digit is there, and they are the same
    assert report.notes[0].startswith(f"Imported from a CSV of losses, {csv_file}. That both sides of a pair started")
    said = " ".join(methods(run.grid, report))
    assert f"each were imported from a CSV of losses, {csv_file}: 3 arms (gpu, cpu, gpu2) over 6 blocks" in said
    assert "Initial weights, data and random draws were not recorded" in said
    assert commands(run, run.trials()) == ["ablate import x --study mine", "ablate report mine"]


@pytest.mark.parametrize("show", ["{:.4f}", "{:.7g}"])
def test_losses_that_were_rounded_are_never_bitwise_equal(tmp_path, show):
    path = write_csv(tmp_path / "l.csv", {"a": 1.0, "b": 1.0 + 1e-12}, show=show.format)
    report = gap(Run(take_in(path, tmp_path).root))
    (found,) = report.contrasts
    assert found.divergence.differing == 0  # equal as far as the text goes
    assert (found.verdict.cause, found.verdict.headline) == ("UNKNOWN", "INCONCLUSIVE")
    assert any("too few to tell every float32 apart" in note for note in report.notes)


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("0.1234", 4),
        ("12.50", 4),
        ("1e-7", 1),
        ("0.00012", 2),
        ("-3.25e10", 3),
        ("nan", 0),
        ("7", 1),
        ("0", 0),
        (" .5", 1),
    ],
)
def test_significant_digits(text, digits):
    assert significant_digits(text) == digits


def test_columns_may_have_other_names_steps_gaps_and_rows_any_order(tmp_path):
    path = tmp_path / "l.csv"
    lines = ["lr,device,seed,loss_train,it"]
    for lr in ("0.1", "1"):
        for device in ("cpu", "gpu"):
            lines += [
                f"{lr},{device},{seed}.0,{losses(seed)[at].item()!r},{at * 10}" for seed in (4, 7) for at in (2, 0, 1)
            ]
    path.write_text("\ufeff" + "\n".join(lines))
    names = Names("device", "seed", "it", "loss_train", ("lr",))
    run = Run(take_in(path, tmp_path, names=names, reference="gpu").root)
    assert check(run) == []
    assert run.grid.factors == {"lr": (0.1, 1.0)}
    assert (run.grid.blocks, run.grid.batches, run.grid.outcome.last) == ((4, 7), 3, 3)
    assert run.grid.contrasts[0].arms == ("gpu", "cpu")
    rows = run.batches().slice(0, 3)
    assert rows["batch_index"].to_pylist() == [0, 1, 2]
    assert rows["metric.step"].to_pylist() == [0.0, 10.0, 20.0]


def test_combinations_that_were_not_run_are_not_planned(tmp_path):
    path = tmp_path / "l.csv"
    cells = [("a", "x"), ("a", "y"), ("b", "x")]
    path.write_text("arm,opt-im,block,step,loss\n" + "".join(f"{a},{o},0,0,{i}.5\n" for i, (a, o) in enumerate(cells)))
    run = Run(take_in(path, tmp_path, names=Names(factors=("opt-im",))).root)
    assert check(run) == []
    assert [(cell.factors["opt_im"], cell.arms) for cell in run.grid.cells] == [("x", ("a", "b")), ("y", ("a",))]
    assert gap(run).dropped == () or all("no partner" in one.reason for one in gap(run).dropped)


def test_trials_that_end_early_diverge_or_are_named(tmp_path):
    path = tmp_path / "l.csv"
    rows = [(0, 4, "0.5"), (1, 4, "nan"), (2, 2, "nan"), (3, 2, "0.5")]
    path.write_text("arm,block,step,loss\n" + "".join(
        f"a,{block},{at},{last if at == n - 1 else 0.25}\n" for block, n, last in rows for at in range(n)))  # fmt: skip
    found = take_in(path, tmp_path)
    assert found.ended_early == 1
    ended = {row["block"]: (row["status"], row["error"]) for row in Run(found.root).trials().to_pylist()}
    assert ended == {
        0: ("done", None),
        1: ("done", None),
        2: ("diverged", None),
        3: ("failed", f"{path}:12: ends after 2 of 4 batches"),
    }


HEAD = "arm,block,step,loss\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("device,block,step,loss\na,0,0,1\n", ":1: has no column 'arm' for the arm\n"
         "    allowed: device, block, step, loss\n    Name it with --arm COLUMN."),
        ("arm,block,loss\na,0,1\n", "has no column 'batch_index' or 'step' or 'batch' or 'iteration' for the step"),
        ("", ":1: has no column 'arm' for the arm\n    allowed: none"),
        (HEAD, "holds no row of losses"),
        (HEAD + "a,0,0,1\na,0,1,abc\n", ":3: loss: found \"abc\"\n    allowed: a number, nan or inf"),
        (HEAD + "a,0,0,1\na,x,1,1\n", ':3: block: found "x"'),
        (HEAD + "a,1.5,1,1\n", ':2: block: found "1.5"\n    allowed: a whole number'),
        (HEAD + f"a,{2**63},1,1\n", f':2: block: found "{2**63}"\n    allowed: a whole number of 64 bits'),
        (HEAD + "a,0,1e30,1\n", ':2: step: found "1e30"\n    allowed: a whole number of 64 bits'),
        ("arm,arm,block,step,loss\na,b,0,0,1\n", ":1: has 2 columns called 'arm'\n    Rename one."),
        (HEAD + "a,0,inf,1\n", ':2: step: found "inf"\n    allowed: a whole number'),
        (HEAD + " ,0,1,1\n", ":2: arm: is empty"),
        (HEAD + "a,0,0\n", ":2: has 3 fields, and the head has 4"),
        (HEAD + "a,0,0,1\na,0,1,1\na,0,0,2\n", ":4: batch 0 of arm a, block 0 is there twice, first in line 2\n"
         "    Is there another column that tells these rows apart? Name it with --factor COLUMN."),
    ],
)  # fmt: skip
def test_a_bad_csv_is_named_by_line(tmp_path, content, words):
    path = tmp_path / "l.csv"
    path.write_text(content)
    with pytest.raises(BadInput) as raised:
        take_in(path, tmp_path)
    assert words in str(raised.value)
    assert str(raised.value).startswith(str(path))
    assert not (tmp_path / "runs").exists()


def test_what_is_no_text_is_said_so(tmp_path):
    (tmp_path / "l.csv").write_bytes(b"arm,block,step,loss\n\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"is no text in UTF-8\n    Is it compressed?"):
        take_in(tmp_path / "l.csv", tmp_path)


def test_other_bad_input(csv_file, tmp_path):
    for arguments, words in (
        ({"study": "My Study"}, '--study: found "My Study"'),
        ({"reference": "gpu3"}, "--reference: found \"gpu3\"\n    did you mean 'gpu'?\n    allowed: gpu, cpu, gpu2"),
    ):
        with pytest.raises(BadInput) as raised:
            take_in(csv_file, tmp_path, **arguments)
        assert words in str(raised.value)
    with pytest.raises(BadInput, match=r"missing.csv: is missing"):
        take_in(tmp_path / "missing.csv", tmp_path)
    with pytest.raises(BadInput, match=r"is no Ray Tune experiment: no trial's result.json or progress.csv is in it"):
        take_in(tmp_path, tmp_path)
    take_in(csv_file, tmp_path)
    with pytest.raises(BadInput, match=r"is there already\n    Choose another --study, or delete it."):
        take_in(csv_file, tmp_path)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("3", 3), ("0.5", 0.5), ("x", "x"), ("False", False)])
def test_levels_are_what_they_look_like(text, value):
    assert (level(text), type(level(text))) == (value, type(value))


def experiment(tmp_path, params, rows=4, show=lambda value: value, name="result.json"):
    root = tmp_path / "exp"
    for at, one in enumerate(params):
        folder = root / f"train_{at:05d}"
        folder.mkdir(parents=True)
        (folder / "params.json").write_text(json.dumps(one))
        values = losses(one.get("seed", 0), rows)
        lines = [
            {"loss": show(float(loss)), "training_iteration": k + 1, "hostname": "node-a", "time_this_iter_s": 0.5,
             "time_total_s": 0.5 * (k + 1)}
            for k, loss in enumerate(values)
        ]  # fmt: skip
        if name == "result.json":
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        else:
            head = ",".join(lines[0])
            (folder / name).write_text("\n".join([head, *(",".join(map(str, line.values())) for line in lines)]) + "\n")
            (folder / "result.json").touch()  # Tune makes it before the first report
    return root


PARAMS = [
    {"device": d, "seed": s, "opt": {"lr": lr}, "same": [1]} for d in "ab" for s in (0, 1, 2) for lr in (0.1, 0.2)
]
DEVICE = Names(arm="device")


@pytest.mark.parametrize("name", ["result.json", "progress.csv"])
def test_a_ray_tune_folder_becomes_a_store(tmp_path, name):
    run = Run(take_in(experiment(tmp_path, PARAMS, name=name), tmp_path, names=DEVICE).root)
    assert check(run) == []
    assert run.grid.factors == {"opt_lr": (0.1, 0.2)}
    assert run.grid.imported.kind == "a Ray Tune experiment"
    assert not run.grid.imported.rounded
    rows = {(r["arm"], r["block"], r["factor.opt_lr"], r["batch_index"]): r for r in run.batches().to_pylist()}
    assert len(rows) == 12 * 4
    assert rows["b", 2, 0.2, 3]["loss"] == float(losses(2, 4)[3])
    assert rows["b", 2, 0.2, 3]["duration_s"] == 0.5
    assert rows["b", 2, 0.2, 3]["metric.step"] == 4.0
    row = run.trials().to_pylist()[0]
    assert (row["host"], row["wall_s"]) == ("node-a", 2.0)
    assert gap(run).headline.startswith("BITWISE EQUAL: ")
    assert gap(run).headline.endswith(RECORDED)


def test_a_trial_without_a_report_is_not_run_and_a_torn_last_line_is_left_out(tmp_path):
    root = experiment(tmp_path, PARAMS)
    (root / "train_00000" / "result.json").write_text("")
    with (root / "train_00001" / "result.json").open("a") as file:
        file.write('{"loss": 0.')
    run = Run(take_in(root, tmp_path, names=DEVICE).root)
    assert run.trials().num_rows == 11
    assert any(one.reason == "not run" for one in gap(run).dropped)


@pytest.mark.parametrize(
    ("change", "names", "words"),
    [
        (None, Names(), "no trial has a parameter 'arm' for the arm\n    allowed: device, opt/lr, same, seed\n"
         "    Name it with --arm PARAMETER."),
        (None, Names(arm="devise"), "no trial has a parameter 'devise' for the arm\n    did you mean 'device'?"),
        (("params.json", None), DEVICE, "params.json: is missing, so the trial's parameters are not known"),
        (("params.json", "["), DEVICE, "params.json: cannot be read ("),
        (("params.json", "[]"), DEVICE, "params.json: holds no parameters"),
        (("params.json", '{"device": "a", "seed": 0, "opt": {"lr": [1]}}'), DEVICE,
         "params.json: opt/lr: found [1], and the parameter differs between trials"),
        (("params.json", '{"device": "a", "seed": "x", "opt": {"lr": 0.1}, "same": [1]}'), DEVICE,
         'params.json: seed: found "x"'),
        (("result.json", "nonsense\n"), DEVICE, "result.json:1: is no JSON ("),
        (("result.json", '{"los": 1, "training_iteration": 1}\n'), DEVICE,
         "result.json:1: reports no 'loss'\n    did you mean 'los'?"),
        (("result.json", '{"loss": "high", "training_iteration": 1}\n'), DEVICE, 'result.json:1: loss: found "high"'),
        (("result.json", '{"loss": 1, "training_iteration": 2}\n' * 2), DEVICE,
         "result.json:2: training_iteration 2 comes after 2\n    The trial was restored or began again"),
        (("params.json", json.dumps(PARAMS[1])), DEVICE, "arm a, opt/lr 0.2, block 0 is there twice, first in "),
    ],
)  # fmt: skip
def test_a_bad_tune_folder_is_named_by_file_and_line(tmp_path, change, names, words):
    root = experiment(tmp_path, PARAMS)
    if change:
        file = root / "train_00000" / change[0]
        file.unlink() if change[1] is None else file.write_text(change[1])
    with pytest.raises(BadInput) as raised:
        take_in(root, tmp_path, names=names)
    assert words in str(raised.value)
    assert not (tmp_path / "runs").exists()


def test_an_experiment_without_any_loss_is_refused(tmp_path):
    root = experiment(tmp_path, PARAMS)
    for file in root.glob("*/result.json"):
        file.write_text("")
    with pytest.raises(BadInput, match=r"no trial reported any loss"):
        take_in(root, tmp_path, names=DEVICE)


def test_nothing_is_left_when_writing_fails(csv_file, tmp_path, monkeypatch):
    def broken(*args):
        raise RuntimeError("torn")

    monkeypatch.setattr("ablate.record.foreign.bring_in._record", broken)
    with pytest.raises(RuntimeError, match=r"torn"):
        take_in(csv_file, tmp_path)
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_command(csv_file, tmp_path):
    ablate = Path(sys.executable).with_name("ablate")
    run = lambda *words: subprocess.run([ablate, *words], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: E731
    done = run("import", csv_file.name, "--study", "mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "wrote runs/mine: 18 trials, 540 batches\n"
        "imported: initial weights, data and draws were not recorded\n"
        "next: ablate gap runs/mine\n"
    )
    assert "# ablate import losses.csv --study mine" in (tmp_path / "runs" / "mine" / "grid.yaml").read_text()
    assert run("gap", "mine").stdout.startswith("INCONCLUSIVE: ")
    assert run("check", "mine").returncode == 0
    assert run("import", "losses.csv", "--study", "mine").returncode == 2


@pytest.mark.slow
def test_what_ray_tune_really_leaves_behind(tmp_path):
    code = """
import os, sys
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS="0")
from ray import tune
def train(config):
    for k in range(5):
        tune.report({"loss": (k + 1) / 3 * config["seed"] + config["scale"]})
tune.Tuner(train, param_space={"arm": tune.grid_search(["a", "b"]), "seed": tune.grid_search([1, 2]), "scale": 0.1},
           run_config=tune.RunConfig(name="exp", storage_path=sys.argv[1], verbose=0)).fit()
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, capture_output=True, timeout=200)
    run = Run(take_in(tmp_path / "exp", tmp_path).root)
    assert check(run) == []
    rows = {(r["arm"], r["block"], r["batch_index"]): r["loss"] for r in run.batches().to_pylist()}
    assert rows == {(a, s, k): (k + 1) / 3 * s + 0.1 for a in "ab" for s in (1, 2) for k in range(5)}
    assert run.trials().to_pylist()[0]["host"]
