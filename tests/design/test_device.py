"""Device options of an arm: what a CUDA arm asks for, and what is refused before anything starts."""

# ruff: noqa: E501  (an expected message reads best in one piece)
from __future__ import annotations

import pytest

from ablate.design.trial_spec import Numerics

BESIDE = "write `device: cuda` beside it, or remove it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: {device: gpu}}", 'arms.a.device: found "gpu" (text)\n    allowed: cpu or cuda'),
        ('{a: {device: "cuda:0"}}', 'arms.a.device: found "cuda:0" (text)\n    allowed: cpu or cuda'),
        ("{a: {cudnn: false}}", f"arms.a.cudnn: cudnn on a CPU arm, which uses no GPU\n    {BESIDE}"),
        ("{a: {cudnn: true}}", f"arms.a.cudnn: cudnn on a CPU arm, which uses no GPU\n    {BESIDE}"),
        ("{a: {cudnn_benchmark: true}}", f"arms.a.cudnn_benchmark: cudnn_benchmark on a CPU arm, which uses no GPU\n    {BESIDE}"),
        ("{a: {device: cpu, tf32: true}}", f"arms.a.tf32: tf32 on a CPU arm, which uses no GPU\n    {BESIDE}"),
        ("{a: {tf32: 1}}", "arms.a.tf32: found 1 (a whole number)\n    allowed: true or false"),
        ("{a: {compile: 1}}", "arms.a.compile: found 1 (a whole number)\n    allowed: true or false"),
        ("{a: {resources: {GPU: 1}}}", f"arms.a.resources.GPU: a CPU arm would hold a GPU and compute on the CPU\n    {BESIDE}"),
        ('{a: {env: {CUBLAS_WORKSPACE_CONFIG: ":4096:8"}}}', f"arms.a.env.CUBLAS_WORKSPACE_CONFIG: CUBLAS_WORKSPACE_CONFIG on a CPU arm, which uses no GPU\n    {BESIDE}"),
        ("{a: {device: cuda, resources: {GPU: 1.5}}}", "arms.a.resources.GPU: found 1.5\n    allowed: a share of one GPU, at most 1, or a whole number of GPUs"),
        ("{a: {device: cuda, cudnn: false, cudnn_benchmark: true}}", "arms.a.cudnn_benchmark: cudnn_benchmark without cuDNN changes nothing\n    write `cudnn: true`"),
        ("{a: {device: cuda, tf32: true, precision: bfloat16}}", "arms.a.tf32: TF32 rounds the inputs of float32 products, and this arm computes in bfloat16\n    remove it, or write `precision: float32`"),
        ('{a: {device: cuda, env: {NVIDIA_TF32_OVERRIDE: "0"}}}', "arms.a.env.NVIDIA_TF32_OVERRIDE: NVIDIA_TF32_OVERRIDE cannot be set here\n    use the arm's `tf32`"),
        ('{a: {device: cuda, env: {CUDA_DEVICE_ORDER: "PCI_BUS_ID"}}}', "arms.a.env.CUDA_DEVICE_ORDER: CUDA_DEVICE_ORDER cannot be set here\n    leave it out: the tool numbers GPUs as nvidia-smi does"),
        ('{a: {env: {TORCHDYNAMO_DISABLE: "1"}}}', "arms.a.env.TORCHDYNAMO_DISABLE: TORCHDYNAMO_DISABLE cannot be set here\n    use the arm's `compile`"),
        ("{a: {device: cuda}, b: {repeat: a, device: cuda}}", "arms.b.device: device beside `repeat`, which copies it from a\n    allowed: perturb, blocks\n    remove it, or remove `repeat`"),
    ],
)  # fmt: skip
def test_one_thing_wrong(complaints, text, message):
    assert complaints(f"arms: {text}\n") == [f"grid.yaml:6: {message}"]


def test_options_of_a_cuda_arm_are_taken(load):
    grid = load("arms: {a: {device: cuda, cudnn: false, deterministic: true, compile: true, tf32: true}}\n")
    assert grid.arms["a"].numerics == Numerics(device="cuda", cudnn=False, deterministic=True, compile=True, tf32=True)


def test_a_cuda_arm_asks_for_one_gpu(load):
    grid = load("arms: {a: {device: cuda, threads: 2}, b: {device: cuda, resources: {GPU: 0.25}}, c: {}}\n")
    assert grid.arms["a"].resources == {"CPU": 2.0, "GPU": 1.0}
    assert grid.arms["b"].resources == {"CPU": 1.0, "GPU": 0.25}
    assert grid.arms["c"].resources == {"CPU": 1.0}


def test_a_repeat_computes_on_its_originals_device(load):
    grid = load("arms: {a: {device: cuda, cudnn: false}, again: {repeat: a}, ulp: {repeat: a, perturb: one-ulp}}\n")
    assert grid.arms["again"].numerics == grid.arms["a"].numerics
    assert grid.arms["again"].resources == grid.arms["ulp"].resources == {"CPU": 1.0, "GPU": 1.0}
    assert grid.arms["ulp"].numerics == Numerics(device="cuda", cudnn=False, perturb="one-ulp")


def test_arms_that_differ_in_the_device_alone_are_two_arms(load):
    grid = load("arms: {cpu: {}, gpu: {device: cuda}}\n")
    assert [contrast.arms for contrast in grid.contrasts] == [("cpu", "gpu")]


def test_compile_is_no_cuda_option(load):
    assert load("arms: {a: {compile: true}}\n").arms["a"].numerics.compile
