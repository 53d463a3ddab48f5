"""`ablate audit` as a user meets it: a table, exit code 5 for a fault, and a file to take to another machine."""

from __future__ import annotations

import json
import re

import pytest
import torch

from ablate.record.reader import Run

TRAINABLE = """
import numpy as np
import torch
from torch import nn
from ablate.trial.protocol import Batch, Player

SEED, SCALE = 0, 1.0


class Mine:
    def __init__(self, *, scaled: float = 1.0, shift: float = 0.0) -> None:
        self.scaled = scaled * SCALE
        self.shift = shift

    def prepare(self):
        return "drawn"

    def build(self):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        model[0].weight.register_hook(lambda g: g * self.scaled)
        return model

    def batches(self, draw):
        while True:
            x = draw("x").normal((16, 6)) + SEED + self.shift
            yield Batch(np.arange(16), {"x": x, "y": x.sum(1, keepdim=True)})

    def players(self, model):
        return [Player("mine", dict(model.named_parameters()), torch.optim.SGD(model.parameters(), lr=0.1))]

    def loss(self, model, batch, carry):
        return (model(batch.tensors["x"]) - batch.tensors["y"]).square().mean(), None
"""

GRID = """
study: mine
question: "?"
trainable: mine:Mine
batches: 50
blocks: [4, 7]
arms:
  plain: {}
  again: {repeat: plain}
  wrong: {settings: {scaled: 1.01}}
"""


@pytest.fixture
def audit(place):
    (place.folder / "mine.py").write_text(TRAINABLE)
    (place.folder / "grid.yaml").write_text(GRID)
    return lambda *words: place.ablate("audit", "grid.yaml", *words)


def change(place, old, new, file="mine.py"):
    path = place.folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_fault_in_one_arm_is_named_and_exits_5(place, audit):
    done = audit("--save", "here.audit")
    assert done.code == 5
    assert done.words.split("gradient of")[1].split()[0] == "0.weight"
    words = "BUG: in arm wrong, the gradient of 0.weight is wrong at batch 0, 1% of its norm from float64, "
    assert " ".join(done.out.split()).startswith(words)
    assert "wrong against plain: BUG: arm wrong has a fault" in done.words
    assert "again against plain: BITWISE EQUAL: every loss is equal, bit for bit (3 batches)" in done.words
    assert "No audit sees a fault that is in the loss's definition and in every arm" in done.words
    assert place.left_running() == {}
    rows = Run(place.root("mine.audit")).audits().to_pylist()
    assert {row["arm"] for row in rows if row["check"] == "slope"} == {"plain", "wrong"}  # again runs plain's code
    assert re.search(r"again +\S+ +\S+ +\S+ +\S+ +right", done.out)

    change(place, "  wrong: {settings: {scaled: 1.01}}\n", "", "grid.yaml")
    same = audit("--against", "here.audit", "--json")
    assert same.code == 0, same.text
    report = json.loads(same.out)
    assert report["cause"] == "ROUNDING"
    assert [arm["name"] for arm in report["arms"]] == ["plain", "again"]
    assert {one["cause"] for one in report["against"]} == {"BITWISE EQUAL"}
    assert all(one["equal"] == one["values"] == 9 for one in report["values"])
    assert torch.__version__ in report["made_on"]

    change(place, "SEED, SCALE = 0, 1.0", "SEED, SCALE = 1, 1.01")  # other data, and a library that went wrong
    other = audit("--against", "here.audit")
    assert other.code == 5
    assert "plain: BUG: the gradient of 0.weight differs by" in other.words
    assert "already in float64" in other.words
    assert "own data: CONFOUNDED: batch 0: x[0, 0] is" in other.words
    assert "the gradient is not the slope of the loss, in parameter 0.weight" in other.words


@pytest.mark.slow
def test_a_grid_that_turns_the_audit_off_is_audited_all_the_same_and_other_data_confound(place, audit):
    other = "  other: {settings: {shift: 1.0}}\naudit: {first: 0}\n"
    change(place, "  wrong: {settings: {scaled: 1.01}}\n", other, "grid.yaml")
    done = audit()
    assert done.code == 5
    assert done.out.startswith("CONFOUNDED: other against plain: they differ before arithmetic could")
    assert re.search(r"batch contents \(block 4, seen at batch 0\).*: batch 0, x\[0, 0\] is \S+ in plain,", done.words)


@pytest.mark.parametrize(
    ("change_of", "words"),
    [
        (None, "nowhere.audit: is not there"),
        ("text", "nowhere.audit: is no file that --save wrote"),
    ],
)
def test_a_bad_file_is_refused_before_anything_runs(place, audit, change_of, words):
    if change_of:
        (place.folder / "nowhere.audit").write_text("hello")
    done = audit("--against", "nowhere.audit")
    assert done.code == 2
    assert words in done.words
    assert not (place.folder / "runs").exists()


def test_a_folder_that_is_no_store_is_not_deleted(place, audit):
    folder = place.folder / "runs" / "mine.audit"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    done = audit()
    assert done.code == 6
    assert "is no store, and audits are recorded there" in done.words
    assert (folder / "thesis.tex").read_text() == "years of work"


FUNCTION = """
import torch
from torch import nn

def train(config, ctx):
    model = ctx.initialise(nn.Linear(6, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(ctx.batches):
        batch = ctx.data(range(16), x=ctx.draw("x").normal((16, 6)))
        loss = model(batch["x"]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        ctx.batch(loss.detach())
"""


@pytest.mark.slow
def test_a_function_trainable_is_told_that_its_gradients_were_not_held_against_float64(place):
    from ablate.trial.context import OWN_LOOP

    (place.folder / "mine.py").write_text(FUNCTION)
    (place.folder / "grid.yaml").write_text(
        GRID.replace("mine:Mine", "mine:train").replace("  wrong: {settings: {scaled: 1.01}}\n", "")
    )
    done = place.ablate("audit", "grid.yaml")
    assert done.code == 0, done.text
    assert "BITWISE EQUAL" in done.words
    assert "a function trainable owns its loop, so its losses, gradients and updates were not held against float64" in (
        OWN_LOOP
    )
    assert f"plain: {OWN_LOOP}" in done.words  # under "Not seen"
    line = next(line.split() for line in done.out.splitlines() if line.split()[:1] == ["plain"])
    assert line[1:5] == ["-", "-", "-", "-"]
    assert line[-1] == "UNKNOWN"
    assert place.ablate("report", "runs/mine.audit").code == 0
    page = " ".join((place.folder / "runs" / "mine.audit" / "report.html").read_text().split())
    assert "a function trainable owns its loop" in page
