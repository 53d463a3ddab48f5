"""What the audit must say of arms that are right, rounded, reduced, confounded or wrong: every kind by its verdict.

Each case trains two arms on one block through the real loop and store and takes the verdict that ``ablate gap`` gives.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audited_study import Judged, arm, judge
from audited_trainables import ARCHITECTURES
from spec_factory import make_task

from ablate.design.trial_spec import AuditPlan
from ablate.record.journal import read_journal
from ablate.record.paths import StorePaths
from ablate.trial.runner import run_trial

FAST = ("Mlp", "Conv", "Dropout", "Clipped", "Sparse", "Duel")


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


TRAINABLES = ("audited_trainables.py", "audited_mlp.py", "audited_layers.py", "planted_faults.py")
CALM = ("equal", "rounding", "reduced", "clean", "drawn")


def wrong(judged: Judged) -> list[str]:
    return [
        f"{row['batch_index']} {row['check']} {row['name']}: {row['detail']}"
        for row in judged.rows
        if row["verdict"] == "bug"
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.mark.parametrize("architecture", [one if one in FAST else slow(one) for one in ARCHITECTURES])
def test_the_same_arm_twice_is_bitwise_equal_and_the_audit_changes_nothing(tmp_path: Path, architecture: str) -> None:
    judged = judge(tmp_path / "run", architecture, arm(repeat="reference"), batches=3, audit=2)
    assert judged.cause == "BITWISE EQUAL", wrong(judged)
    compared = {(row["check"], row["quantity"]) for row in judged.rows}
    assert compared >= {("distance", "loss"), ("distance", "gradient"), ("distance", "update"), ("free", "loss")}
    assert {row["verdict"] for row in judged.rows} <= {*CALM, "kink"}
    losses, left = {}, {}
    for first in (0, 2):
        plan = AuditPlan(first=first)
        task = make_task(tmp_path / str(first), f"audited_trainables:{architecture}", batches=3, audit=plan)
        end = run_trial(task)
        assert end.status == "done", end.error
        losses[first] = read_journal(StorePaths(Path(task.root)).rows(task.spec.trial_id, 1)).rows["loss"].tolist()
        numbers = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()
        flags = torch.get_num_threads(), torch.get_default_dtype(), torch.backends.mkldnn.enabled
        left[first] = (*numbers, *flags, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
    assert losses[0] == losses[2]
    assert left[0] == left[2]


@pytest.mark.parametrize(
    ("trainable", "fault", "found"),
    [
        ("Mlp", "scaled", {("gradient", "0.weight")}),
        slow("Lstm", "scaled", {("gradient", "cell.weight_ih_l0")}),
        slow("Attention", "scaled", {("gradient", "attend.in_proj_weight")}),
        ("Sparse", "scaled", {("gradient", "table.weight")}),
        slow("Mlp", "sign", {("gradient", "0.weight")}),
        ("Mlp", "term", {("loss", "all"), ("gradient", "4.bias")}),
        ("Mlp", "rate", {("update", "0.weight")}),
        ("BatchNorm", "stale buffer", {("state", "1.running_mean"), ("state", "1.running_var")}),
    ],
)
def test_a_fault_in_one_arm_is_found_at_batch_0_and_what_is_wrong_is_named(
    root: Path, trainable: str, fault: str, found: set[tuple[str, str]]
) -> None:
    judged = judge(root, trainable, arm(fault=fault), batches=1, audit=1)
    assert judged.cause == "BUG"
    assert judged.named() == found


@pytest.mark.parametrize(
    ("trainable", "fault", "some"),
    [
        slow("Mlp", "backward", ("gradient", "4.weight")),
        slow("Mlp", "reduction", ("loss", "all")),
        slow("Mlp", "broadcast", ("loss", "all")),
        slow("Mlp", "loss scale", ("gradient", "0.weight")),
        slow("Mlp", "detached", ("gradient", "0.weight")),
        slow("Mlp", "stepped twice", ("update", "0.weight")),
        slow("Tied", "decay", ("update", "code.weight")),
        ("Clipped", "clip", ("gradient", "0.weight")),
        slow("Duel", "cut", ("gradient", "maker.0.weight")),
    ],
)
def test_further_mistakes_in_one_arm_are_found_at_batch_0(
    root: Path, trainable: str, fault: str, some: tuple[str, str]
) -> None:
    judged = judge(root, trainable, arm(fault=fault), batches=1, audit=1)
    assert judged.cause == "BUG"
    assert some in judged.named()


@pytest.mark.parametrize("fault", ["scaled", slow("sign")])
def test_a_wrong_gradient_in_all_arms_is_found_by_its_slope(root: Path, fault: str) -> None:
    judged = judge(root, "Mlp", arm(repeat="reference"), settings={"fault": fault}, batches=1, audit=1)
    assert judged.cause == "BUG"
    assert (judged.named(), judged.named("slope")) == (set(), {("gradient", "0.weight")})


@pytest.mark.slow
def test_a_wrong_backward_in_all_arms_is_found_in_every_parameter_before_it(root: Path) -> None:
    judged = judge(root, "Mlp", arm(repeat="reference"), settings={"fault": "backward"}, batches=1, audit=1)
    assert judged.cause == "BUG"
    named = {name for _, name in judged.named("slope")}
    # the last bias has a second term in the loss, which does not pass through the wrong backward
    assert {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight"} <= named


@pytest.mark.parametrize("common", [False, slow(True)], ids=["one arm", "all arms"])
def test_a_target_buffer_that_is_used_again_is_found_and_named(root: Path, common: bool) -> None:
    other = arm(repeat="reference") if common else arm(fault="alias")
    judged = judge(root, "Window", other, settings={"fault": "alias"} if common else {}, batches=1, audit=1)
    assert judged.cause == "BUG"
    saved = [row for row in judged.rows if row["verdict"] == "overwritten"]
    assert {(row["batch_index"], tuple(row["shape"]), row["role"]) for row in saved} == {
        (0, (1,), "target of MseLossBackward0")
    }
    assert ("gradient", "line.weight") in judged.named()


@pytest.mark.slow
@pytest.mark.parametrize("common", [False, True], ids=["one arm", "all arms"])
def test_prednet_with_a_target_buffer_that_is_used_again(root: Path, common: bool) -> None:
    other = arm(repeat="reference") if common else arm(fault="alias")
    judged = judge(root, "SmallPredNet", other, settings={"fault": "alias"} if common else {}, batches=1, audit=1)
    assert judged.cause == "BUG"
    assert {row["batch_index"] for row in judged.rows if row["verdict"] == "overwritten"} == {0}
    assert judged.named()
    assert judged.named("slope")


@pytest.mark.parametrize("fault", [slow("carry"), "forgotten carry"])
def test_a_carry_that_is_used_wrongly_is_found_at_the_first_batch_that_has_one(root: Path, fault: str) -> None:
    judged = judge(root, "Lstm", arm(fault=fault), batches=2, audit=2)
    assert judged.cause == "BUG"
    assert judged.named() == set()
    assert ("gradient", "cell.weight_hh_l0") in judged.named(batch=1)


def test_a_weight_that_is_moved_between_two_batches_is_named(root: Path) -> None:
    judged = judge(root, "Mlp", arm(fault="nudge"), batches=2, audit=2)
    assert judged.cause == "BUG"
    assert judged.named("continuity", batch=1) == {("state", "model.0.weight")}
    assert judged.named("free", batch=1) == {("loss", "all")}


def test_a_free_run_is_confounded_where_a_gpu_drew_what_no_rerun_repeats(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablate.trial.auditor._drew", lambda at: (True, True))
    judged = judge(root, "Mlp", arm(fault="nudge"), batches=2, audit=2)
    (free,) = (row for row in judged.rows if row["check"] == "free")
    assert free["verdict"] == "confounded", free


@pytest.mark.parametrize("fault", ["detached", "data"])
def test_a_gradient_that_is_stopped_on_purpose_in_all_arms_is_no_bug_and_its_line_is_said(
    root: Path, fault: str
) -> None:
    judged = judge(root, "Mlp", arm(repeat="reference"), settings={"fault": fault}, batches=1, audit=1)
    assert judged.cause == "BITWISE EQUAL", wrong(judged)
    (slope,) = (row for row in judged.rows if row["check"] == "slope")
    assert slope["verdict"] == "unjudged"
    assert "planted_faults.py" in slope["detail"]


def test_a_straight_through_estimator_in_all_arms_is_no_bug_and_is_named(root: Path) -> None:
    settings = {"fault": "straight through"}
    judged = judge(root, "Mlp", arm(repeat="reference"), settings=settings, batches=1, audit=1)
    assert judged.cause == "BITWISE EQUAL", wrong(judged)
    (steps,) = (row for row in judged.rows if row["check"] == "slope")  # every parameter is behind it
    assert steps["verdict"] == "unjudged"
    assert steps["detail"].startswith("the gradient of _Straight (")
    assert "planted_faults.py:" in steps["detail"]
    assert "4.weight" in steps["detail"]


def test_a_loss_that_is_attached_where_it_does_no_harm_is_equal(root: Path) -> None:
    """The judge's loss reaches the maker's weights too, whose gradient is put to zero before its own turn."""
    assert judge(root, "Duel", arm(fault="detach"), batches=2, audit=2).cause == "BITWISE EQUAL"


@pytest.mark.parametrize(
    ("trainable", "numerics"),
    [
        ("Mlp", {"perturb": "one-ulp"}),
        slow("Divided", {"perturb": "one-ulp"}),
        slow("Chain", {"perturb": "one-ulp"}),
        ("Conv", {"onednn": False}),
        ("Conv", {"memory_format": "channels_last"}),
        ("BatchNorm", {"perturb": "permute-rows"}),
    ],
    ids=str,
)
def test_another_order_of_rounding_is_rounding(root: Path, trainable: str, numerics: dict[str, Any]) -> None:
    judged = judge(root, trainable, arm(numerics), batches=2, audit=2)
    # One ulp in every weight moves a loss; but not always Divided's, where 1 - cos(small) comes in steps of 6e-8.
    moved = numerics.get("perturb") == "one-ulp" and trainable != "Divided"
    assert judged.cause in (("ROUNDING",) if moved else ("ROUNDING", "BITWISE EQUAL")), wrong(judged)


@pytest.mark.parametrize("trainable", ["Mlp", slow("Conv"), slow("BatchNorm"), slow("Lstm"), slow("Chain")])
def test_bfloat16_is_reduced_precision(root: Path, trainable: str) -> None:
    judged = judge(root, trainable, arm({"precision": "bfloat16"}), batches=2, audit=2)
    assert judged.cause == "REDUCED PRECISION", wrong(judged)


@pytest.mark.parametrize("trainable", ["Mlp", slow("Conv"), slow("BatchNorm")])
def test_mantissas_cut_as_in_tf32_are_reduced_precision(root: Path, trainable: str) -> None:
    judged = judge(root, trainable, arm(bits=10), batches=2, audit=2)
    assert judged.cause == "REDUCED PRECISION", wrong(judged)
    (seen,) = (row for row in judged.rows if row["check"] == "precision")
    assert "tf32-like (11 bits)" in seen["detail"]


@pytest.mark.parametrize("kind", ["float32", slow("float16"), "bfloat16"])
def test_a_cast_inside_the_loss_is_no_bug_in_one_arm_or_all(tmp_path: Path, kind: str) -> None:
    settings = {"fault": f"{kind} inside"}
    both = judge(tmp_path / "both", "Mlp", arm(repeat="reference"), settings=settings, batches=1, audit=1)
    assert both.cause == "BITWISE EQUAL", wrong(both)
    reference = arm(fault="float32 inside")
    one = judge(tmp_path / "one", "Mlp", arm(**settings), reference, batches=1, audit=1)
    assert one.cause == ("BITWISE EQUAL" if kind == "float32" else "REDUCED PRECISION"), wrong(one)
    assert kind == "float32" or f"rounding in {kind} (arm other)" in one.contrast.verdict.sentence


def test_weights_drawn_in_another_type_are_confounded(root: Path) -> None:
    judged = judge(root, "Mlp", arm(fault="own weights"), batches=1, audit=1)
    assert judged.cause == "CONFOUNDED"
    assert "initial weights" in judged.contrast.verdict.sentence


def test_another_data_order_is_confounded(root: Path) -> None:
    judged = judge(root, "Mlp", arm(order=1), batches=1, audit=1)
    assert judged.cause == "CONFOUNDED"
    assert "data order" in judged.contrast.verdict.sentence


def test_a_dropout_that_one_arm_leaves_out_is_confounded(root: Path) -> None:
    judged = judge(root, "Dropout", arm(fault="eval mode"), batches=1, audit=1)
    assert judged.cause == "CONFOUNDED"
    assert "draws of torch's global generator" in judged.contrast.verdict.sentence


def test_data_augmented_from_numpys_global_generator_is_confounded_and_no_bug(root: Path) -> None:
    judged = judge(root, "Augmented", arm({"onednn": False}), batches=1, audit=1)
    assert judged.cause == "CONFOUNDED"
    assert "draws of NumPy's global generator outside the streams" in judged.contrast.verdict.sentence
    assert not wrong(judged)  # each arm is right by its own numbers


def test_a_gradient_that_underflows_in_float16_is_reduced_precision_and_says_what_helps(root: Path) -> None:
    judged = judge(root, "Faint", arm(fault="float16 inside"), arm(fault="float32 inside"), batches=1, audit=1)
    assert judged.cause == "REDUCED PRECISION", wrong(judged)
    words = [row["detail"] for row in judged.rows if row["quantity"] == "gradient" and row["check"] == "distance"]
    assert any(text.endswith("% of its elements underflow to zero in float16: scale the loss") for text in words), words


def test_a_free_run_beside_gradients_that_underflow_in_float16_is_reduced_precision(root: Path) -> None:
    """The arm hardly moves, float64 does; what float16 loses has to be lost in the simulation of the run too."""
    judged = judge(root, "Faint", arm(fault="float16 inside"), arm(fault="float32 inside"), batches=3, audit=3)
    assert judged.cause == "REDUCED PRECISION", wrong(judged)
    free = [row for row in judged.rows if row["check"] == "free"]
    assert [row["batch_index"] for row in free] == [1, 2]
    assert any(row["noise"] for row in free), free  # farther off than the plain bound


@pytest.mark.slow
def test_a_gradient_that_overflows_in_float16_is_reduced_precision(root: Path) -> None:
    judged = judge(root, "Steep", arm(fault="float16 inside"), arm(fault="float32 inside"), batches=1, audit=1)
    assert judged.cause == "REDUCED PRECISION", wrong(judged)
    words = [row["detail"] for row in judged.rows if row["quantity"] == "gradient"]
    assert any(text.startswith("not finite: float16 cannot hold what the reference holds") for text in words), words


def test_a_fault_beside_a_cast_to_float16_is_a_bug(root: Path) -> None:
    other = arm(fault="float16 inside, twice the gradient")
    judged = judge(root, "Mlp", other, arm(fault="float32 inside"), batches=1, audit=1)
    assert judged.cause == "BUG"
    assert ("gradient", "0.weight") in judged.named()
    assert ("loss", "all") not in judged.named()


def test_float16_that_cannot_hold_a_number_is_reduced_precision(root: Path) -> None:
    judged = judge(root, "Overflowing", arm(fault="half"), batches=1, audit=1)
    assert judged.cause == "REDUCED PRECISION", wrong(judged)


@pytest.mark.parametrize(("fault", "cause"), [("half", "REDUCED PRECISION"), ("infinite", "BUG")])
def test_a_first_loss_that_is_not_finite_is_held_against_float64_although_the_trial_ends_there(
    root: Path, fault: str, cause: str
) -> None:
    judged = judge(root, "Exploding", arm(fault=fault), batches=1, audit=1)
    assert judged.cause == cause, judged.rows
    (loss,) = (row for row in judged.rows if row["check"] == "distance")
    says = "float16 cannot hold what the reference holds (aten.mul.Tensor gives "
    assert (says if fault == "half" else "though nothing the reference computes is beyond the range") in loss["detail"]


def test_float16_inside_a_coarser_arm_keeps_its_range_and_its_name(root: Path) -> None:
    low = {"precision": "bfloat16"}
    other, reference = arm(low, fault="float16 inside"), arm(low, fault="float32 inside")
    judged = judge(root, "Faint", other, reference, batches=2, audit=2)
    assert judged.cause == "REDUCED PRECISION", wrong(judged)
    (seen,) = (row for row in judged.rows if row["check"] == "precision")
    assert seen["dtype"] == "bfloat16 with float16"
    assert "float16 at " in seen["detail"]
    assert any("underflow to zero in float16" in row["detail"] for row in judged.rows if row["quantity"] == "gradient")


def test_a_carry_that_is_not_detached_fails_the_trial_in_torchs_words(root: Path) -> None:
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        judge(root, "Lstm", arm(fault="attached carry"), batches=2, audit=2)


def test_what_works_in_float32_only_trains_on_and_nothing_is_claimed(root: Path) -> None:
    judged = judge(root, "OneType", arm({"onednn": False}, order=0), batches=2, audit=2)
    (row,) = (row for row in judged.rows if row["check"] == "scope")
    assert row["verdict"] == "unseen"
    assert "could not be run a second time" in row["detail"]
    assert "only float32 is supported" in row["detail"]
    assert judged.cause in ("UNKNOWN", "BITWISE EQUAL")


GRID = """
arms:
  reference: {threads: 1}
  other: %s
"""


def launched(place: Any, trainable: str, other: str, **changes: Any) -> tuple[str, list[dict[str, Any]]]:
    """Launch two arms as a user does; return the cause of their contrast and the other's audit rows."""
    from ablate.record.reader import Run

    for name in TRAINABLES:
        shutil.copy(Path(__file__).with_name(name), place.folder)
    keys = {"study": "audited", "trainable": f"audited_trainables:{trainable}", "blocks": 1, "batches": 3}
    grid = place.grid(GRID % other, audit="{first: 3}", **{**keys, "outcome": "{metric: loss, last: 1}", **changes})
    done = place.ablate("launch", "--local", grid.name)
    assert done.code in (0, 5), done.text
    found = json.loads(place.ablate("gap", "--json", "runs/audited").out)
    rows = [row for row in Run(place.root("audited")).audits().to_pylist() if row["arm"] == "other"]
    (contrast,) = found["contrasts"]
    return contrast["verdict"]["cause"], rows


@pytest.mark.slow
@pytest.mark.parametrize("trainable", ["Mlp", "Conv", "SmallPredNet"])
@pytest.mark.parametrize("other", ["{threads: 2}", "{env: {ATEN_CPU_CAPABILITY: default}}", "{onednn: false}"])
def test_another_thread_count_or_instruction_set_is_rounding(place: Any, trainable: str, other: str) -> None:
    cause, rows = launched(place, trainable, other)
    assert cause in ("ROUNDING", "BITWISE EQUAL"), [row for row in rows if row["verdict"] == "bug"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler for the CPU")
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the fault is in torch 2.13")
def test_inductors_wrong_gradient_is_found_although_the_loss_is_right(place: Any) -> None:
    cause, rows = launched(place, "Pooled", "{compile: true}")
    assert cause == "BUG"
    at_0 = {
        (row["quantity"], row["name"]): row["verdict"]
        for row in rows
        if row["check"] == "distance" and row["batch_index"] == 0
    }
    assert at_0["loss", "all"] in ("equal", "rounding")
    assert at_0["gradient", "weight"] == "bug"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler for the CPU")
def test_compiled_code_that_is_right_is_rounding(place: Any) -> None:
    cause, rows = launched(place, "Conv", "{compile: true}")
    assert cause in ("ROUNDING", "BITWISE EQUAL"), [row for row in rows if row["verdict"] == "bug"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler for the CPU")
def test_a_dropout_compiled_by_the_arm_keeps_eager_modes_mask(place: Any) -> None:
    cause, rows = launched(place, "Dropout", "{compile: true}")
    assert cause in ("ROUNDING", "BITWISE EQUAL"), [row for row in rows if row["verdict"] in ("bug", "confounded")]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler for the CPU")
def test_a_dropout_that_the_trainable_compiles_itself_draws_another_mask_and_is_confounded(place: Any) -> None:
    """Inductor draws one seed from the global generator and makes masks of it; eager mode draws each number."""
    cause, rows = launched(place, "SelfCompiled", "{settings: {compiled: true}}")
    assert cause == "CONFOUNDED", rows
    assert [row["detail"] for row in rows if row["verdict"] == "bug"] == []
    sentence = json.loads(place.ablate("gap", "--json", "runs/audited").out)["contrasts"][0]["verdict"]["sentence"]
    assert "draws of torch's global generator" in sentence
