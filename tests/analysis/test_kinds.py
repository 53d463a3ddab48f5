"""Kinds of machines in reports: over machines, in words, and where kind and machine cannot be told apart."""

import json
import subprocess
import sys

import pytest
from rich.console import Console
from synthetic import Told, arm, block_losses, clean, generator, grid, write_run

from ablate.design.spec import Contrast
from analysis.gap import gap
from analysis.gap_table import print_gap
from analysis.kind_words import FEW, METHOD
from analysis.verdict import verdict
from analysis.verdict_text import print_verdict


def machine(kind, name, **options):
    return arm(**options).model_copy(update={"kind": kind, "machine": name})


def machines(cpus, gpus):
    return {f"c{i}": machine("cpu", f"cm{i}") for i in range(cpus)} | {
        f"g{i}": machine("gpu", f"gm{i}") for i in range(gpus)
    }


CONTRAST = (Contrast(arms=("c0", "g0")),)


@pytest.fixture
def analyse(tmp_path):
    """Analyse a study of machines; ``effect`` says by how much each trial's outcome is moved."""

    def analyse(
        arms, effect=lambda trial: 0.0, hosts=None, fails=lambda trial: False, own=0.05, scatter=0.01, **options
    ):
        def tell(trial):
            moved = own * generator("machine", trial.arm).normal()
            moved += scatter * generator(trial.arm, trial.block).normal()
            losses = block_losses(trial.block) * (1 + moved + effect(trial))
            status = "failed" if fails(trial) else "done"
            host = (hosts or {}).get(trial.arm, trial.arm)
            return Told(losses, status=status, audits=[clean(0)], hashes={"host": host}, error="E: x")

        run = write_run(tmp_path / "run", grid(arms, contrasts=CONTRAST, **options), tell)
        report = gap(run)
        json.dumps(report.to_json(), allow_nan=False)
        return run, report

    return analyse


def of_kinds(report):
    return [note for note in report.notes if note.startswith("Kind ")]


def test_machines_that_differ_make_no_kind_effect_and_the_contrast_says_what_it_cannot_tell(analyse, capsys):
    run, report = analyse(machines(4, 8))
    (one,) = report.kinds
    assert (one.label, one.blocks, one.lost, one.inseparable) == ("kind gpu against cpu", 6, 0, False)
    assert one.machines == (("cm0", "cm1", "cm2", "cm3"), tuple(f"gm{i}" for i in range(8)))
    assert one.effect.p == one.adjusted_p > 0.05
    assert report.contrasts[0].effect.test.p < 0.05, "the two machines differ, and the paired test says so"
    (note,) = of_kinds(report)
    assert note.startswith("Kind gpu against cpu: no difference between the kinds is shown: ")
    assert "over 6 blocks on 4 machines of kind cpu and 8 machines of kind gpu (p = 0." in note
    assert " degrees of freedom). Standard deviations: between machines 0.00" in note
    assert METHOD in report.notes
    assert FEW not in report.notes
    assert report.contrasts[0].kinds.startswith(
        "kind gpu on machine gm0 against kind cpu on machine cm0: one machine of each, so this gap cannot tell the "
        "kinds from these machines; kind gpu against cpu: no difference between the kinds is shown: "
    )
    assert ("kinds", report.contrasts[0].kinds) in verdict(run).contrasts[0].evidence
    print_gap(report, Console(width=100))
    print_verdict(verdict(run), Console(width=100))
    words = " ".join(capsys.readouterr().out.split())
    assert words.count("kinds kind gpu on machine gm0 against kind cpu on machine cm0: one machine of each") == 2
    assert "trials on one machine are no independent evidence about its kind" in words


def test_a_kind_effect_beyond_the_machines_scatter_is_found(analyse):
    _, report = analyse(machines(4, 8), lambda trial: 0.5 * trial.arm.startswith("g"))
    (one,) = report.kinds
    assert one.adjusted_p < 0.001
    assert one.effect.low < one.effect.difference < one.effect.high
    assert of_kinds(report)[0].startswith("Kind gpu against cpu: the kinds differ: +")


@pytest.mark.parametrize(
    ("cpus", "gpus", "lack"),
    [
        (1, 8, "cpu has one machine (cm0)"),
        (4, 1, "gpu has one machine (gm0)"),
        (1, 1, "cpu has one machine (cm0) and gpu has one machine (gm0)"),
    ],
)
def test_one_machine_of_a_kind_leaves_kind_and_machine_inseparable(analyse, capsys, cpus, gpus, lack):
    run, report = analyse(machines(cpus, gpus))
    reason = f"{lack}, so what is the kind's and what is the machine's own cannot be separated"
    (one,) = report.kinds
    assert (one.effect, one.adjusted_p, one.reason, one.inseparable) == (None, None, reason, True)
    assert of_kinds(report) == [
        f"Kind gpu against cpu: no mixed model: {reason}. A gap between them is one of these machines. At least 2 of "
        "each kind are needed; 4 show far more."
    ]
    assert METHOD not in report.notes
    assert report.contrasts[0].kinds.endswith(f"; kind gpu against cpu: no mixed model: {reason}")
    assert report.to_json()["kinds"][0]["inseparable"] is True
    print_verdict(verdict(run), Console(width=100))
    assert "cannot be separated" in " ".join(capsys.readouterr().out.split())


def test_few_machines_are_said_to_show_little(analyse):
    _, report = analyse(machines(2, 3))
    assert FEW in report.notes
    assert FEW == "With fewer than 4 machines of a kind only a gap many times their scatter can be shown."
    assert "t with 1 degree of freedom)" in of_kinds(report)[0]


def test_a_machine_of_both_kinds_is_compared_by_itself(analyse):
    arms = machines(2, 2) | {"g0": machine("gpu", "cm0")}
    _, report = analyse(arms)
    reason = "machine cm0 has arms of both kinds: compare those arms, machine by machine"
    assert (report.kinds[0].reason, report.kinds[0].inseparable) == (reason, False)
    assert of_kinds(report) == [f"Kind gpu against cpu: no mixed model: {reason}."]
    assert report.contrasts[0].kinds == (
        "both arms are on machine cm0: a gap is one of their kinds there, and on no other machine"
    )


def test_arms_of_one_machine_are_averaged_and_controls_take_no_part(analyse):
    arms = machines(2, 2) | {"g0-no-cudnn": machine("gpu", "gm0")}
    arms["again"] = machine("cpu", "cm0", repeat="c0")
    _, report = analyse(arms)
    assert report.kinds[0].machines == (("cm0", "cm1"), ("gm0", "gm1"))
    assert report.kinds[0].lost == 0


def test_each_cell_of_the_factors_is_compared_and_adjusted_together(analyse):
    _, report = analyse(
        machines(4, 4),
        lambda trial: 0.5 * (trial.arm.startswith("g") and trial.factors["input"] == "reused"),
        factors={"input": ("copied", "reused")},
    )
    copied, reused = report.kinds
    assert [one.label for one in report.kinds] == [
        "kind gpu against cpu where input=copied",
        "kind gpu against cpu where input=reused",
    ]
    assert copied.adjusted_p > 0.05 > reused.adjusted_p
    assert reused.adjusted_p == pytest.approx(2 * reused.effect.p)
    assert "(Holm p " in of_kinds(report)[1]


def test_every_kind_is_compared_with_the_first(analyse):
    arms = machines(2, 2) | {f"t{i}": machine("tpu", f"tm{i}") for i in range(2)} | {"bare": arm()}
    assert [one.label for one in analyse(arms)[1].kinds] == ["kind gpu against cpu", "kind tpu against cpu"]


def test_a_machines_block_with_a_lost_trial_is_left_out_and_counted(analyse):
    _, report = analyse(machines(4, 4), fails=lambda trial: trial.arm == "g1" and trial.block < 2)
    assert report.kinds[0].lost == 2
    assert of_kinds(report)[0].endswith(" 2 blocks of a machine left out: a trial there has no outcome.")


def test_a_machine_without_any_outcome_is_none(analyse):
    _, report = analyse(machines(2, 1), fails=lambda trial: trial.arm == "g0")
    reason = (
        "gpu has no machine with an outcome, so what is the kind's and what is the machine's own cannot be separated"
    )
    assert (report.kinds[0].reason, report.kinds[0].reference_mean is None) == (reason, False)


def test_one_block_is_too_few(analyse):
    arms = {name: one.model_copy(update={"blocks": (0,)}) for name, one in machines(2, 2).items()}
    _, report = analyse(arms)
    assert report.kinds[0].reason == "1 block of at least 2"


def test_machines_with_equal_outcomes_need_no_model(analyse):
    _, report = analyse(machines(2, 2), own=0.0, scatter=0.0)
    assert report.kinds[0].reason == "all machines have the same outcome in every block"


def test_variances_that_cannot_be_told_apart_are_said(analyse, monkeypatch):
    monkeypatch.setattr("analysis.kinds.kind_effect", lambda *data: None)
    _, report = analyse(machines(2, 2))
    assert report.kinds[0].reason == (
        "the outcomes do not vary enough, or are too few, to tell the model's variances apart"
    )


def test_machines_on_one_host_are_several_by_the_grids_word_only(analyse):
    _, report = analyse(machines(2, 2), hosts={"c0": "vm", "g0": "vm"})
    said = [note for note in report.notes if "trained on host" in note]
    assert said == ["Machines cm0, gm0 all trained on host vm: they are several by the grid's word only."]


def test_a_report_without_kinds_does_not_wait_for_the_mixed_model():
    code = "import sys, analysis.gap; sys.exit('statsmodels.regression.mixed_linear_model' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arms", [{"c0": arm(), "g0": arm()}, {"c0": machine("cpu", "a"), "g0": machine("cpu", "b")}])
def test_without_two_kinds_nothing_is_said(analyse, arms):
    _, report = analyse(arms)
    assert (report.kinds, report.contrasts[0].kinds, of_kinds(report)) == ((), "", [])
    assert METHOD not in report.notes


def test_a_reference_below_zero_has_no_percentage(analyse):
    _, report = analyse(machines(2, 2), lambda trial: -2.0)
    assert report.kinds[0].reference_mean < 0
    assert "%" not in of_kinds(report)[0].split(" over ")[0]
