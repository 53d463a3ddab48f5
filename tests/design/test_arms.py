# ruff: noqa: E501  (an expected message reads best in one piece)
from __future__ import annotations

import pytest

from ablate.design.environment import CAPABILITIES
from ablate.design.trial_spec import Numerics

OPTIONS = (
    "device, env, threads, onednn, precision, deterministic, compile, memory_format, gradient_noise, workers, cudnn, "
    "cudnn_benchmark, tf32, settings, resources, kind, machine, repeat, perturb, blocks"
)
ARM_NAME = "for an arm, a name of lower-case letters, digits, _ and - that begins with a letter"
SHORE = "an arm under comparison trains on all blocks"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "arms: found an empty mapping\n    allowed: a mapping of at least one arm name to its options"),
        ("", "arms: found nothing (null)\n    allowed: a mapping of at least one arm name to its options"),
        ("[a]", "arms: found a list of 1\n    allowed: a mapping of at least one arm name to its options"),
        ("{a: null}", "arms.a: found nothing (null)\n    allowed: a mapping of options ({} for none)"),
        ("{A: {}}", f'arms.A: the name "A" cannot be used\n    allowed: {ARM_NAME}'),
        ("{-a: {}}", f'arms.-a: the name "-a" cannot be used\n    allowed: {ARM_NAME}'),
        ("{a: {treads: 1}}", f"arms.a.treads: unknown key \"treads\"\n    did you mean 'threads'?\n    allowed: {OPTIONS}"),
        ("{a: {threads: 0}}", "arms.a.threads: found 0 (a whole number)\n    allowed: a whole number from 1"),
        ("{a: {threads: 1.0}}", "arms.a.threads: found 1.0 (a number)\n    allowed: a whole number from 1"),
        ('{a: {threads: "2"}}', 'arms.a.threads: found "2" (text)\n    allowed: a whole number from 1\n    remove the quotes: 2'),
        ("{a: {onednn: 1}}", "arms.a.onednn: found 1 (a whole number)\n    allowed: true or false"),
        ('{a: {onednn: "true"}}', 'arms.a.onednn: found "true" (text)\n    allowed: true or false\n    remove the quotes: true'),
        ("{a: {onednn: off}}", 'arms.a.onednn: off is the boolean false in YAML 1.1\n    write false if you mean it, or "off" for the text'),
        ("{a: {precision: float16}}", 'arms.a.precision: found "float16" (text)\n    allowed: float32, float64 or bfloat16'),
        ("{a: {deterministic: 0}}", "arms.a.deterministic: found 0 (a whole number)\n    allowed: true or false"),
        ("{a: {settings: [1]}}", "arms.a.settings: found a list of 1\n    allowed: a mapping of the trainable's settings to values"),
        ("{a: {resources: {CPU: 0}}}", "arms.a.resources.CPU: found 0 (a whole number)\n    allowed: a positive number"),
        ("{a: {resources: 2}}", "arms.a.resources: found 2 (a whole number)\n    allowed: a mapping of resource names to positive numbers"),
        ('{a: {resources: {"": 2}}}', 'arms.a.resources.: the name "" cannot be used\n    allowed: names of resources: any text but the empty one'),
        ("{a: {env: x}}", 'arms.a.env: found "x" (text)\n    allowed: a mapping of environment variables to text'),
        ("{a: {env: {X: 1}}}", 'arms.a.env.X: found 1 (a whole number)\n    allowed: text\n    quote it: "1"'),
        ("{a: {env: {X: true}}}", 'arms.a.env.X: found true (a boolean)\n    allowed: text\n    quote it: "true"'),
        ("{a: {env: {A-B: x}}}", 'arms.a.env.A-B: the name "A-B" cannot be used\n    allowed: names of environment variables: letters, digits and _, not beginning with a digit'),
        ('{a: {env: {X: "a\\0"}}}', "arms.a.env.X: the value contains a zero byte, which no environment can hold"),
        ('{a: {env: {OMP_NUM_THREADS: "1"}}}', "arms.a.env.OMP_NUM_THREADS: OMP_NUM_THREADS cannot be set here\n    use the arm's `threads`"),
        ('{a: {env: {MKL_NUM_THREADS: "1"}}}', "arms.a.env.MKL_NUM_THREADS: MKL_NUM_THREADS cannot be set here\n    use the arm's `threads`"),
        ('{a: {env: {CUDA_VISIBLE_DEVICES: ""}}}', "arms.a.env.CUDA_VISIBLE_DEVICES: CUDA_VISIBLE_DEVICES cannot be set here\n    leave it out: the tool sets it from the arm's `resources`"),
        ("{a: {env: {ATEN_CPU_CAPABILITY: avx_2}}}", "arms.a.env.ATEN_CPU_CAPABILITY: torch does not know the capability \"avx_2\" and would silently use its own choice\n    did you mean 'avx2'?\n    allowed: default, avx2, avx512, vsx, zvector, sve256"),
        ("{a: {kind: cpu}}", "arms.a.kind: `kind` without `machine`\n    write `machine: NAME` beside it: kinds are compared over their machines"),
        ("{a: {machine: m}}", "arms.a.machine: `machine` without `kind`\n    write `kind: NAME` beside it: kinds are compared over their machines"),
        ("{a: {kind: GPU, machine: m}}", 'arms.a.kind: found "GPU" (text)\n    allowed: a name of lower-case letters, digits, _ and - that begins with a letter, such as cpu or gpu'),
        ("{a: {kind: gpu, machine: 1}}", "arms.a.machine: found 1 (a whole number)\n    allowed: a name of lower-case letters, digits, _ and - that begins with a letter: the machine that its trials run on"),
        ("{a: {kind: cpu, machine: m}, b: {repeat: a, kind: cpu}}", "arms.b.kind: kind beside `repeat`, which copies it from a\n    allowed: perturb, blocks\n    remove it, or remove `repeat`"),
        ("{a: {}, b: {repeat: c}}", 'arms.b.repeat: no arm is called "c"\n    allowed: a'),
        ("{copied: {}, b: {repeat: copid}}", "arms.b.repeat: no arm is called \"copid\"\n    did you mean 'copied'?\n    allowed: copied"),
        ("{a: {}, b: {repeat: b}}", "arms.b.repeat: an arm cannot repeat itself\n    allowed: a"),
        ("{a: {}, b: {repeat: a}, c: {repeat: b}}", "arms.c.repeat: b is itself a repeat\n    write `repeat: a`"),
        ("{a: {}, b: {repeat: a, threads: 1}}", "arms.b.threads: threads beside `repeat`, which copies it from a\n    allowed: perturb, blocks\n    remove it, or remove `repeat`"),
        ("{a: {}, b: {repeat: a, blocks: 7}}", "arms.b.blocks: found 7\n    allowed: at most 6, the study's number of blocks"),
        ("{a: {}, b: {repeat: a, blocks: 0}}", "arms.b.blocks: found 0 (a whole number)\n    allowed: a whole number from 1: how many of the study's first blocks"),
        ("{a: {blocks: 2}}", f"arms.a.blocks: {SHORE}\n    remove it; only a control, an arm with `repeat`, may train on fewer blocks"),
        ("{a: {perturb: one-ulp}}", "arms.a.perturb: `perturb` without `repeat`\n    write `repeat: ARM` beside it, with the arm that this one is a control of"),
        ("{a: {}, b: {repeat: a, perturb: two-ulp}}", 'arms.b.perturb: found "two-ulp" (text)\n    allowed: one-ulp or permute-rows'),
        ("{a: {perturb: permute-rows}}", "arms.a.perturb: `perturb` without `repeat`\n    write `repeat: ARM` beside it, with the arm that this one is a control of"),
        ("{a: {memory_format: nhwc}}", 'arms.a.memory_format: found "nhwc" (text)\n    allowed: contiguous or channels_last'),
        ("{a: {gradient_noise: -1}}", "arms.a.gradient_noise: found -1 (a whole number)\n    allowed: a number from 0: units in a gradient's last place"),
        ("{a: {gradient_noise: .inf}}", "arms.a.gradient_noise: .inf is not a finite number\n    write a number, or null for none"),
        ("{a: {gradient_noise: bfloat16}}", "arms.a.gradient_noise: found \"bfloat16\" (text)\n    allowed: a number from 0: units in a gradient's last place"),
        ("{a: {}, b: {repeat: a, gradient_noise: 1}}", "arms.b.gradient_noise: gradient_noise beside `repeat`, which copies it from a\n    allowed: perturb, blocks\n    remove it, or remove `repeat`"),
        ("{a: {}, b: {repeat: 3}}", "arms.b.repeat: found 3 (a whole number)\n    allowed: the name of another arm"),
        ("{a: {threads: 2}, b: {threads: 2}}", "arms.b: differs in nothing from a\n    if it is a control, write `repeat: a`"),
    ],
)  # fmt: skip
def test_one_thing_wrong(complaints, text, message):
    assert complaints(f"arms: {text}\n") == [f"grid.yaml:6: {message}"]


def test_a_setting_is_either_a_factor_or_an_arms(complaints):
    assert complaints("factors: {lr: [1, 2]}\narms: {a: {settings: {lr: 3}}}\n") == [
        "grid.yaml:7: arms.a.settings.lr: lr is a factor, so its levels and this arm would both decide it\n"
        "    remove it here, or from `factors`"
    ]


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_capabilities_of_every_architecture(load, capability):
    grid = load(f"arms: {{a: {{env: {{ATEN_CPU_CAPABILITY: {capability}}}}}}}\n")
    assert grid.arms["a"].numerics.env == {"ATEN_CPU_CAPABILITY": capability}


def test_arms_that_differ_only_in_where_they_run_are_two_arms(load):
    grid = load("arms: {old: {resources: {cpu_old: 1}}, new: {resources: {cpu_new: 1}}}\n")
    assert grid.arms["new"].resources == {"CPU": 1.0, "cpu_new": 1.0}


def test_cpus_default_to_the_threads(load):
    grid = load("arms: {a: {threads: 3}, b: {threads: 3, resources: {CPU: 1.5}}}\n")
    assert grid.arms["a"].resources == {"CPU": 3.0}
    assert grid.arms["b"].resources == {"CPU": 1.5}


def test_a_repeat_may_stand_before_its_original(load):
    grid = load("arms: {again: {repeat: a}, a: {threads: 2}, b: {}}\n")
    assert grid.arms["again"].numerics == grid.arms["a"].numerics
    assert [contrast.arms for contrast in grid.contrasts] == [("a", "b")]


def test_noise_in_the_gradients_makes_an_arm_and_no_control(load):
    """It is what a study compares; a repeat copies it, noise and all, and must come out the same bit for bit."""
    grid = load("arms: {none: {gradient_noise: 0}, some: {gradient_noise: 100}, again: {repeat: some}}\n")
    assert [grid.arms[name].numerics.gradient_noise for name in ("none", "some", "again")] == [0, 100, 100]
    assert [contrast.arms for contrast in grid.contrasts] == [("none", "some")]


def test_noise_of_size_0_is_no_difference_between_two_arms(complaints):
    assert "arms.b: differs in nothing from a" in complaints("arms: {a: {}, b: {gradient_noise: 0}}\n")[0]


def test_permuted_rows_make_a_control_of_the_arm_that_is_repeated(load):
    grid = load("arms: {a: {memory_format: channels_last}, p: {repeat: a, perturb: permute-rows}}\n")
    assert grid.arms["p"].control
    assert grid.arms["p"].numerics == Numerics(memory_format="channels_last", perturb="permute-rows")


def test_a_control_carries_the_kind_and_machine_of_what_it_repeats(load):
    grid = load("arms: {a: {kind: cpu, machine: m-1}, again: {repeat: a}, b: {kind: gpu, machine: m-2}, c: {}}\n")
    assert [(arm.kind, arm.machine) for arm in grid.arms.values()] == [
        ("cpu", "m-1"),
        ("cpu", "m-1"),
        ("gpu", "m-2"),
        (None, None),
    ]
