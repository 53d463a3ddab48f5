from __future__ import annotations

import json
import re

import pytest

from ablate.design.trial_spec import (
    ArtifactPlan,
    AuditPlan,
    CheckpointPlan,
    CurvaturePlan,
    GuardPlan,
    Numerics,
    ProbePlan,
    SketchPlan,
    TrialSpec,
)


def trial(**changes):
    given = {
        "study": "retracted_gap",
        "trainable": "trainables.prednet:PredNet",
        "settings": {"learning_rate": 0.001, "layers": [3, 48], "nested": {"b": 1, "a": "é"}},
        "arm": "copied",
        "numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2),
        "factors": {"clip": "bikes"},
        "block": 3,
        "batches": 300,
        "guard": GuardPlan(),
        "resources": {"CPU": 2.0},
    }
    return TrialSpec(**{**given, **changes})


def test_golden_id():
    """Fails if ids ever change: every store written so far would then lose its trials."""
    assert trial().trial_id == "t15513eb44df3b42"


def test_golden_id_of_an_arm_on_a_gpu():
    numerics = Numerics(device="cuda", cudnn=False, compile=True)
    assert trial(numerics=numerics).trial_id == "t56e1d5aa56d380f"


def test_an_id_is_a_letter_and_15_hex_digits():
    assert re.fullmatch(r"t[0-9a-f]{15}", trial().trial_id)


@pytest.mark.parametrize(
    "changes",
    [
        {"study": "other"},
        {"trainable": "trainables.prednet:Other"},
        {"settings": {"learning_rate": 0.001, "layers": [3, 48]}},
        {"settings": {"learning_rate": 0.001, "layers": [48, 3], "nested": {"b": 1, "a": "é"}}},
        {"arm": "reused"},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "default"}, threads=2)},
        {"numerics": Numerics(threads=2)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=1)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, onednn=False)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, precision="bfloat16")},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, deterministic=True)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, perturb="one-ulp")},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, device="cuda")},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, cudnn=False)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, cudnn_benchmark=True)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, tf32=True)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, compile=True)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, memory_format="channels_last")},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, gradient_noise=1.0)},
        {"numerics": Numerics(env={"ATEN_CPU_CAPABILITY": "avx2"}, threads=2, workers=2)},
        {"factors": {"clip": "other"}},
        {"factors": {}},
        {"block": 4},
        {"batches": 301},
    ],
)
def test_what_decides_arithmetic_or_identity_changes_the_id(changes):
    assert trial(**changes).trial_id != trial().trial_id


@pytest.mark.parametrize(
    "changes",
    [
        {"guard": GuardPlan(first=0, every=0)},
        {"resources": {"CPU": 1.0, "node": 1.0}},
        {"audit": AuditPlan(first=0, at=(4,))},
        {"checkpoint": CheckpointPlan(batches=5)},
        {"artifacts": ArtifactPlan(at=(3,))},
        {"sketches": SketchPlan(every=0)},
        {"probes": ProbePlan(curvature=CurvaturePlan(at=(0, 4)))},
        {"stall_minutes": 1.0},
    ],
)
def test_where_it_runs_and_what_is_watched_do_not_change_the_id(changes):
    assert trial(**changes).trial_id == trial().trial_id


def test_every_field_is_in_the_id_or_known_not_to_be():
    """A field added later must be put into one of the tests above."""
    assert set(TrialSpec.model_fields) == {
        *("study", "trainable", "settings", "arm", "numerics", "factors", "block", "batches"),
        *("guard", "audit", "resources", "checkpoint", "artifacts", "sketches", "probes", "stall_minutes"),
    }
    assert set(Numerics.model_fields) == {
        *("env", "threads", "onednn", "precision", "deterministic", "perturb"),
        *("device", "cudnn", "cudnn_benchmark", "tf32", "compile", "memory_format", "gradient_noise", "workers"),
    }


def test_the_order_of_keys_does_not_change_the_id():
    shuffled = {"nested": {"a": "é", "b": 1}, "layers": [3, 48], "learning_rate": 0.001}
    assert trial(settings=shuffled).trial_id == trial().trial_id


@pytest.mark.parametrize(("one", "two"), [(1, 1.0), (1, True), (0.0, -0.0), ("1", 1), (None, "null"), (0, False)])
def test_values_that_a_trainable_can_tell_apart_are_different_settings(one, two):
    """1 and 1.0 too: `torch.full((2,), 1)` and `torch.full((2,), 1.0)` are tensors of different types."""
    assert trial(settings={"x": one}).trial_id != trial(settings={"x": two}).trial_id
    assert trial(factors={"x": one or 0}).trial_id != trial(factors={"x": two}).trial_id or one is None


def test_the_id_survives_json():
    again = TrialSpec.model_validate_json(trial().model_dump_json())
    assert again == trial()
    assert again.trial_id == trial().trial_id
    json.loads(trial().model_dump_json())


@pytest.mark.parametrize(
    ("plan", "covered"),
    [
        (GuardPlan(), [0, 1, 2, 50, 100]),
        (GuardPlan(first=0, every=40), [0, 40, 80]),
        (GuardPlan(first=2, every=0), [0, 1]),
        (GuardPlan(first=0, every=0), []),
    ],
)
def test_guard_plan_covers(plan, covered):
    assert [index for index in range(101) if plan.covers(index)] == covered
