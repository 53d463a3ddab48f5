"""The loop, for both kinds of trainable, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trainables import Line
from spec_factory import make_task

from ablate.design.trial_spec import GuardPlan, Numerics
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.trial.draw import Draw
from ablate.trial.runner import run_trial
from ablate.trial.task import TrialEnd
from ablate.trial.weights import seed_global_generators, store

torch.set_num_threads(1)


def run(root: Path, trainable: str, **changes: Any) -> tuple[TrialEnd, np.ndarray[Any, Any], dict[str, Any]]:
    task = make_task(root, f"small_trainables:{trainable}", **changes)
    end = run_trial(task)
    paths = StorePaths(root)
    rows = read_journal(paths.rows(task.spec.trial_id, 1)).rows
    end_file = paths.trial_json(task.spec.trial_id, 1)
    return end, rows, json.loads(end_file.read_text())


def audits(root: Path) -> list[dict[str, Any]]:
    files = (root / "journal").glob("*.audits.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def by_hand(batches: int, lr: float = 0.1) -> list[float]:
    """The same training written out, with nothing of the framework but the draws."""
    seed_global_generators("test", 0)
    model, draw, losses = torch.nn.Linear(3, 1), Draw("test", 0), []
    for _ in range(batches):
        x, y = draw("x").normal((5, 3)), draw("y").uniform((5, 1))
        loss = (model(x) - y).square().mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.sub_(lr * gradient)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("trainable", ["Line", "function_line"])
def test_losses_are_those_of_the_same_training_written_out(tmp_path: Path, trainable: str) -> None:
    end, rows, columns = run(tmp_path, trainable)
    assert end.status == "done"
    # exact: plain SGD is p - lr * g in both
    assert rows["loss"].tolist() == by_hand(4)
    assert rows["metric.count"].tolist() == [0, 1, 2, 3]
    assert columns["status"] == "done"
    assert columns["batches"] == 4
    assert set(columns["evaluate"]) == {"weight"}


@pytest.mark.parametrize("trainable", ["Line", "function_line"])
def test_the_guard_changes_no_loss(tmp_path: Path, trainable: str) -> None:
    _, watched, _ = run(tmp_path / "on", trainable, guard=GuardPlan(first=4, every=1))
    _, free, _ = run(tmp_path / "off", trainable, guard=GuardPlan(first=0, every=0))
    assert watched["loss"].tobytes() == free["loss"].tobytes()
    assert not audits(tmp_path / "off")
    rows = [row for row in audits(tmp_path / "on") if row["check"] == "saved_tensors"]
    assert [row["batch_index"] for row in rows] == [0, 1, 2, 3]
    assert {row["verdict"] for row in rows} == {"clean"}
    assert min(row["count"] for row in rows) > 0


def test_order_and_contents_are_hashed_on_watched_batches_and_the_last(tmp_path: Path) -> None:
    _, rows, columns = run(tmp_path, "Line", guard=GuardPlan(first=1, every=2))
    assert rows["flags"].tolist() == [3, 0, 3, 1]  # 1: order, 2: contents
    assert len(set(rows["order_hash"][[0, 2, 3]].tolist())) == 3
    assert columns["order_hash"] == f"{rows['order_hash'][3]:016x}"


def test_two_players_step_in_order_with_both_hooks(tmp_path: Path) -> None:
    end, rows, _ = run(tmp_path, "Duel")
    assert end.status == "done"
    assert "metric.loss_second" in rows.dtype.names
    # the hooks zero each gradient and add 1 to each parameter: so both players move by the hook alone
    seed_global_generators("test", 0)
    model = Line().build()
    second = Line().build()
    draw = Draw("test", 0)
    for k in range(4):
        x, y = draw("x").normal((5, 3)), draw("y").uniform((5, 1))
        with torch.no_grad():
            assert rows["loss"][k] == (model(x) - y).square().mean().item()
            assert rows["metric.loss_second"][k] == (second(x) - y).square().mean().item()
            for parameter in (*model.parameters(), *second.parameters()):
                parameter.add_(1.0)


def test_a_loss_that_is_not_finite_ends_the_trial_as_diverged(tmp_path: Path) -> None:
    end, rows, columns = run(tmp_path, "Line", settings={"bad_at": 2, "how": "nan"})
    assert end.status == columns["status"] == "diverged"
    assert columns["batches"] == len(rows) == 3
    assert np.isnan(rows["loss"][2])
    assert np.isfinite(rows["loss"][:2]).all()


PLAYERS = "\n    allowed: a list with one Player for each optimiser"
PAIR = "\n    allowed: a pair (loss, carry)\n    `return loss, None` if nothing is carried"
SLIPS = {
    "build": "build(): found a list\n    allowed: a torch.nn.Module",
    "batches": "batches(): returned None\n    allowed: an iterator of Batch\n    Write it as a generator",
    "players none": f"players(): returned None{PLAYERS}",
    "players empty": f"players(): returned an empty list{PLAYERS}\n    Return [Player(name, ",
    "players model": "players(), number 1: is a Linear\n    allowed: ablate.trial.protocol.Player",
    "players named": "players(), number 1: is named 'The Line'\n    allowed: lower-case letters, digits and _",
    "players optimiser": "player 'line' has None as its optimiser\n    allowed: a torch.optim.Optimizer",
    "players twice": "players(): two are named 'line'\n    allowed: a name each\n    Name each player after",
    "loss nothing": f"batch 0:\nloss of player 'line': returned None{PAIR}",
    "loss alone": f"loss of player 'line': returned a Tensor{PAIR}",
    "loss three": f"loss of player 'line': returned 3 values{PAIR}",
    "loss none": "loss of player 'line': the loss is None\n    allowed: a tensor with one element, real",
    "loss text": "loss of player 'line': the loss is a str\n    allowed: a tensor with one element, real",
    "loss number": "the loss is a float\n    allowed: a tensor with one element, real\n    Return the tensor itself",
    "loss vector": "the loss is shape (2,)\n    allowed: a tensor with one element, real\n    Reduce it to one number",
    "loss complex": "the loss is complex (torch.complex64)\n    allowed: a tensor with one element, real\n    Take a",
    "loss detached": "loss of player 'line': has no gradient\n    allowed: a loss that depends on the model",
    "metrics none": "batch 0: metrics are None\n    allowed: a dict of numbers",
    "metrics vector": "batch 0: metric 'size' is a tensor of shape (2,), torch.float32\n    allowed: one real number",
    "evaluate none": "evaluate(): returned None\n    allowed: a dict of numbers",
    "evaluate text": "evaluate(): 'accuracy' is a str, 'high'\n    allowed: one real number",
    "evaluate pair": "evaluate(): 'x' is of shape (2,)\n    allowed: one real number",
}
FUNCTION_SLIPS = {
    "none": "batch 0: the loss is None\n    allowed: a tensor with one element, real",
    "text": "batch 0: the loss is a str",
    "complex": "batch 0: the loss is complex (torch.complex64)",
    "vector": "batch 0: the loss is shape (2,)",
    "outcome": "train(): 'accuracy' is a list, [0.5]\n    allowed: one real number",
}


@pytest.mark.parametrize(
    ("trainable", "settings", "message"),
    [
        ("Line", {"bad_at": 1, "how": "raise"}, "batch 1:\n"),
        (
            "Line",
            {"bad_at": 1, "how": "vector"},
            "batch 1:\nloss of player 'line': the loss is shape (2,)\n    allowed: a tensor with one element",
        ),
        ("Line", {"bad_at": 0, "how": "float"}, "batch 0:\nloss of player 'line': the loss is a float"),
        ("Line", {"bad_at": 3, "how": "ends"}, "batch 3: batches() ended after 3 of 4"),
        ("function_too_few", {}, "ctx.batch was called 1 times\n    allowed: 4 (ctx.batches)"),
        ("function_too_many", {}, "batch 4: ctx.batch was called 5 times\n    allowed: 4 (ctx.batches)"),
        ("function_data_twice", {}, "batch 0: ctx.data was called twice\n    allowed: once per batch"),
        ("function_returns_text", {}, "train(): returned a str\n    allowed: a dict of numbers"),
        *(("Slip", {"how": how}, message) for how, message in SLIPS.items()),
        *(("function_slip", {"how": how}, message) for how, message in FUNCTION_SLIPS.items()),
    ],
)
def test_a_broken_contract_fails_the_trial_and_says_where(
    tmp_path: Path, trainable: str, settings: dict[str, Any], message: str
) -> None:
    end, rows, columns = run(tmp_path, trainable, settings=settings)
    assert (end.status, end.kind) == ("failed", "code")
    assert message in end.error
    assert end.error.startswith("trial t")
    assert "(arm plain, block 0), attempt 1" in end.error
    assert columns["failure_kind"] == "code"
    assert columns["error"] == end.error
    assert len(rows) == columns["batches"]


def test_the_users_own_exception_is_shown_with_its_last_lines(tmp_path: Path) -> None:
    end, _, _ = run(tmp_path, "Line", settings={"bad_at": 1, "how": "raise"})
    assert end.error.endswith("ValueError: the user's own mistake")
    assert "small_trainables.py" in end.error


def test_a_numpy_write_between_forward_and_backward_is_found_in_a_function_trainable(tmp_path: Path) -> None:
    end, _, _ = run(tmp_path, "function_alias")
    assert end.status == "done"
    found = [row for row in audits(tmp_path) if row["verdict"] == "overwritten"]
    assert [(row["batch_index"], row["shape"], row["version_moved"]) for row in found] == [(0, [4], False)]
    assert "small_trainables.py" in found[0]["source"]


def test_a_backward_that_runs_after_its_batch_is_still_compared(tmp_path: Path) -> None:
    run(tmp_path, "function_late_backward")
    found = [row for row in audits(tmp_path) if row["verdict"] == "overwritten"]
    assert [(row["batch_index"], row["shape"]) for row in found] == [(0, [4])]


def test_draws_from_the_global_generator_are_named(tmp_path: Path) -> None:
    run(tmp_path, "Line", settings={"bad_at": 0, "how": "draw"})
    assert drawn(tmp_path) == ["global generator of torch, in the step"]


def drawn(root: Path) -> list[str]:
    return [row["near"] for row in audits(root) if row["verdict"] == "drawn"]


def test_draws_in_batches_are_named_too(tmp_path: Path) -> None:
    run(tmp_path, "RandomData")
    assert drawn(tmp_path) == ["global generator of torch, in batches()", "global generator of numpy, in batches()"]


def test_making_the_model_in_a_function_is_no_draw_but_what_follows_is(tmp_path: Path) -> None:
    run(tmp_path / "a", "function_line")
    assert not drawn(tmp_path / "a")
    run(tmp_path / "b", "function_random", guard=GuardPlan(first=2, every=0))
    assert drawn(tmp_path / "b") == ["global generator of torch, in train"] * 2


def test_stored_weights_are_loaded_and_hashed_before_the_perturbation(tmp_path: Path) -> None:
    torch.manual_seed(7)
    weights = store(torch.nn.Linear(3, 1), StorePaths(tmp_path).initial)
    _, _, plain = run(tmp_path, "Line", weights=weights)
    _, _, moved = run(tmp_path, "Line", weights=weights, numerics=Numerics(perturb="one-ulp"))
    _, _, other = run(tmp_path, "Line", arm="other")
    assert plain["initial_hash"] == moved["initial_hash"] != other["initial_hash"]
    assert plain["perturbation_hash"] is None
    assert moved["perturbation_hash"] not in (None, moved["initial_hash"])
    assert plain["order_hash"] == moved["order_hash"]
    assert plain["draw_hash"] == moved["draw_hash"]


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_another_precision_gets_the_same_draws_cast(tmp_path: Path, precision: str) -> None:
    _, _, plain = run(tmp_path / "a", "Line")
    end, rows, columns = run(tmp_path / "b", "Line", numerics=Numerics(precision=precision))
    assert end.status == "done"
    assert columns["precision"] == precision
    assert (columns["initial_hash"], columns["draw_hash"]) == (plain["initial_hash"], plain["draw_hash"])
    step = torch.finfo(getattr(torch, precision)).eps
    assert all(loss == torch.tensor(loss).to(getattr(torch, precision)).item() for loss in rows["loss"]), step


def test_provenance_is_recorded(tmp_path: Path) -> None:
    _, _, columns = run(tmp_path, "Line")
    assert columns["threads_set"] == 1
    assert columns["torch"] == torch.__version__
    assert columns["capability"] == torch.backends.cpu.get_cpu_capability()
    assert len(columns["source_hash"]) == 16
    assert columns["wall_s"] > 0
    assert columns["peak_memory_bytes"] > 10**7
    assert json.loads(columns["env"]) is not None


def test_a_trainable_that_exits_has_failed_at_that_line(tmp_path: Path) -> None:
    end, rows, columns = run(tmp_path, "Line", settings={"bad_at": 2, "how": "exit"})
    assert (end.status, end.kind, len(rows), columns["status"]) == ("failed", "code", 2, "failed")
    assert "batch 2:\nTraceback" in end.error
    assert "sys.exit(0)\nSystemExit: 0" in end.error


def test_an_error_that_cannot_be_printed_is_a_failure_like_any_other(tmp_path: Path) -> None:
    end, rows, _ = run(tmp_path, "Line", settings={"bad_at": 2, "how": "unprintable"})
    assert (end.status, end.kind, len(rows)) == ("failed", "code", 2)
    assert "raise Unprintable\nsmall_trainables.Unprintable: <exception str() failed>" in end.error
