"""Every code: a store that fires it, and one beside it that does not."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ablate.design.spec import Arm
from ablate.design.trial_spec import Numerics, TrialSpec
from ablate.record.check import CODES, check
from ablate.record.finding import Finding
from ablate.record.reader import Run
from ablate.record.recorder import Recorder
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

GIVEN = b"study: demo\n"
FAST, SLOW = make_spec("fast"), make_spec("slow")


def record(store: Store, spec: TrialSpec, order: int = 1, content: int = 2, loss: float = 0.5, **columns: Any) -> None:
    attempt = store.next_attempt(spec.trial_id)
    with Recorder(store.paths, spec, attempt) as recorder:
        for k in range(4):
            recorder.record(k, loss, 0.01, {}, order if k == 3 else None, content if k == 0 else None)
        recorder.finish("done", **columns)
    store.absorb(spec.trial_id, attempt)


def pair(root: Path, grid: Any = None, **of_slow: Any) -> list[Finding]:
    """Check a store in which ``slow`` differs from ``fast`` in some columns."""
    same = {"initial_hash": "w", "data_hash": "d", "draw_hash": "r", "source_hash": "s", "torch": "2", "ablate": "0"}
    with Store.open(root, grid or make_grid(), GIVEN) as store:
        record(store, FAST, **same)
        record(store, SLOW, **{**same, **of_slow})
    return check(Run(root))


def rewrite(path: Path, change: Any) -> None:
    """Change a part's rows by hand, keeping its metadata."""
    table, metadata = pq.ParquetFile(path).read(), pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(change(table))
        writer.add_key_value_metadata({k: v for k, v in metadata.items() if k.startswith(b"ablate")})


def part(root: Path) -> Path:
    (path,) = (root / "batches").iterdir()
    return path


def only(findings: list[Finding], code: str, severity: str = "error") -> Finding:
    assert [(finding.code, finding.severity) for finding in findings] == [(code, severity)]
    assert code in CODES
    return findings[0]


def test_a_sound_store_has_no_finding(root):
    assert pair(root) == []


def test_c0_a_file_that_cannot_be_read(root):
    pair(root)
    part(root).write_bytes(b"nonsense")
    assert "cannot be read as Parquet" in str(only(check(Run(root)), "C0"))


def test_c1_a_batch_twice(root):
    pair(root)
    rewrite(part(root), lambda t: pa.concat_tables([t, t.slice(1, 2)]))
    findings = check(Run(root))
    assert [finding.code for finding in findings] == ["C1", "C3"]
    assert str(findings[0]).startswith(f"C1 error: trial {FAST.trial_id}, batch 1: 2 batches twice\n    restore")


@pytest.mark.parametrize("gone", [0, 2])
def test_c2_a_batch_missing(root, gone):
    pair(root)
    rewrite(part(root), lambda t: t.filter((pc.field("arm") != "fast") | (pc.field("batch_index") != gone)))
    findings = check(Run(root))
    assert [finding.code for finding in findings] == ["C2", "C3"]
    assert str(findings[0]).startswith(f"C2 error: trial {FAST.trial_id}, batch {gone}: 1 batches missing")


def test_c3_the_last_batch_missing(root):
    pair(root)
    rewrite(part(root), lambda t: t.filter((pc.field("arm") != "fast") | (pc.field("batch_index") != 3)))
    assert only(check(Run(root)), "C3").found == "3 of 4 recorded batches"


def test_c3_no_batches_at_all(root):
    pair(root)
    part(root).unlink()
    findings = check(Run(root))
    assert [(finding.code, finding.found) for finding in findings] == [("C3", "0 of 4 recorded batches")] * 2


def test_c3_done_too_early_but_diverged_may_be(root):
    with Store.open(root, make_grid(), GIVEN) as store:
        for spec, status in ((FAST, "done"), (SLOW, "diverged")):
            with Recorder(store.paths, spec, 1) as recorder:
                recorder.record(0, 0.5, 0.1, {})
                recorder.finish(status)
            store.absorb(spec.trial_id, 1)
    finding = only(check(Run(root)), "C3")
    assert (finding.where, finding.found) == (f"trial {FAST.trial_id}", "done with 1 of 4 planned batches")


def test_c4_batches_of_no_trial(root):
    pair(root)
    (root / "trials" / "trials.parquet").unlink()
    findings = check(Run(root))
    assert [(finding.code, finding.severity) for finding in findings] == [("C4", "error")] * 2
    with Store.open(root, make_grid(), GIVEN) as store:
        record(store, FAST)
        record(store, SLOW)
    assert check(Run(root)) == []


def test_c4_is_a_note_while_a_launch_writes(root):
    pair(root)
    (root / "trials" / "trials.parquet").unlink()
    findings: list[Finding] = []
    other = make_grid()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_set_strays_aside", lambda self: None)
        with Store.open(root, other, GIVEN):
            findings = check(Run(root))
    assert [(finding.code, finding.severity) for finding in findings] == [("C4", "note")] * 2 + [("C7", "note")]
    assert "is being written by process" in findings[-1].found


@pytest.mark.parametrize(
    ("column", "words"),
    [("initial_hash", "initial weights"), ("data_hash", "data set"), ("draw_hash", "draws")],
)
def test_c5_arms_that_began_unequal(root, column, words):
    finding = only(pair(root, **{column: "other"}), "C5")
    assert finding.where == "block 0, lr=0.1, clip=True"
    assert finding.found == f"{words} differ between arms 'fast' and 'slow'"
    assert finding.advice == "their gap is CONFOUNDED"


@pytest.mark.parametrize(("column", "batch", "words"), [("order", 3, "data order"), ("content", 0, "batch contents")])
def test_c5_arms_that_saw_other_data(root, column, batch, words):
    finding = only(pair(root, **{column: 7}), "C5")
    assert finding.where == f"block 0, lr=0.1, clip=True, batch {batch}"
    assert finding.found.startswith(f"{words} differ")


def test_c5_is_a_note_where_the_arms_settings_differ(root):
    arms = make_grid().arms
    arms = {"fast": arms["fast"], "slow": arms["slow"].model_copy(update={"settings": {"width": 2}})}
    finding = only(pair(root, make_grid(arms=arms), initial_hash="other"), "C5", "note")
    assert finding.advice.endswith("unless the arms' different settings are the question")


def test_c5_does_not_compare_blocks_or_levels(root):
    with Store.open(root, make_grid(), GIVEN) as store:
        record(store, FAST, initial_hash="a")
        record(store, make_spec("slow", block=1), initial_hash="b", order=9)
        record(store, make_spec("slow", lr=0.2), initial_hash="c", content=9)
    assert check(Run(root)) == []


@pytest.mark.parametrize(("deterministic", "severity"), [(True, "error"), (False, "note")])
def test_c6_attempts_that_differ(root, deterministic, severity):
    arm = Arm(numerics=Numerics(deterministic=deterministic), settings={}, resources={}, blocks=(0,))
    with Store.open(root, make_grid(arms={"fast": arm}), GIVEN) as store:
        for number, losses in enumerate([(0.5, 0.25), (0.5, 0.25 + 2**-54)], start=1):
            with Recorder(store.paths, FAST, number) as recorder:
                for k, loss in enumerate(losses):
                    recorder.record(k, loss, 0.1, {})
            store.fail(FAST, number, "infrastructure", "killed")
        run_trial(store, FAST, loss=lambda k: 0.5 / 2**k)
    # the journal is taken in by the next open
    Store.open(root, make_grid(arms={"fast": arm}), GIVEN).close()
    finding = only(check(Run(root)), "C6", severity)
    assert finding.where == f"trial {FAST.trial_id}, attempt 2, batch 1"
    assert "first here, in 1 batches" in finding.found
    assert "arm 'fast' does not repeat itself" in finding.advice


def test_c6_equal_attempts_even_in_nan_and_signed_zero(root):
    losses = [float("nan"), -0.0, float("inf"), 1.0]
    with Store.open(root, make_grid(), GIVEN) as store:
        with Recorder(store.paths, FAST, 1) as recorder:
            for k, loss in enumerate(losses[:3]):
                recorder.record(k, loss, 0.1, {})
        store.fail(FAST, 1, "memory", "killed")
        store.absorb(FAST.trial_id, run_trial(store, FAST, loss=lambda k: losses[k]))
    assert check(Run(root)) == []


def test_c6_attempts_on_two_machines_may_differ(root):
    with Store.open(root, make_grid(), GIVEN) as store:
        with Recorder(store.paths, FAST, 1) as recorder:
            recorder.record(0, 0.5, 0.1, {})
        store.fail(FAST, 1, "infrastructure", "its node was lost")
        record(store, FAST, loss=0.25, host="another")
    finding = only(check(Run(root)), "C6", "note")
    here = socket.gethostname()
    assert finding.advice == f"it ran on {here}, the one that counts on another: their arithmetic differs"
    assert Run(root).attempts(["host"]).to_pylist() == [{"host": here}]


def test_c7_leftovers(root):
    pair(root)
    with Store.open(root, make_grid(), GIVEN) as store:
        Recorder(store.paths, make_spec("fast", block=1), 1).close()
    (root / "batches" / "part-0.parquet.tmp").touch()
    findings = check(Run(root))
    assert [(finding.code, finding.severity) for finding in findings] == [("C7", "note")] * 2
    Store.open(root, make_grid(), GIVEN).close()
    assert check(Run(root)) == []


def test_c8_a_file_from_another_store(root, tmp_path):
    pair(root)
    other = tmp_path / "runs" / "other"
    with Store.open(other, make_grid(study="other"), GIVEN) as store:
        store.absorb(FAST.trial_id, run_trial(store, FAST))
    shutil.copy(part(other), root / "batches" / "part-ffff.parquet")
    finding = next(f for f in check(Run(root)) if f.code == "C8")
    assert finding.severity == "error"
    assert finding.found.startswith(f"belongs to another grid (hash {Run(other).spec.hash};")


def test_c8_a_file_of_another_schema(root):
    pair(root)
    pq.write_table(pq.ParquetFile(part(root)).read().replace_schema_metadata(None), part(root))
    assert only(check(Run(root)), "C8").found == "has store schema none, not 1"


@pytest.mark.parametrize(
    ("column", "where"), [("source_hash", "all trials"), ("torch", "arm fast"), ("ablate", "arm fast")]
)
def test_c9_mixed_code(root, column, where):
    with Store.open(root, make_grid(), GIVEN) as store:
        record(store, FAST, **{column: "1"})
        record(store, make_spec("fast", block=1), **{column: "2"})
    finding = only(check(Run(root)), "C9", "note")
    assert (finding.where, finding.found) == (where, f"mixed code: {column} is 1, 2")


def test_c9_arms_may_run_other_torches(root):
    assert pair(root, torch="3") == []


def test_c12_a_trial_that_moved_to_another_machine(root):
    with Store.open(root, make_grid(), GIVEN) as store:
        record(store, FAST, host="west", resumed_at=2, moved_from="east (Xeon) to batch 1")
    finding = only(check(Run(root)), "C12", "note")
    assert finding.where == f"trial {FAST.trial_id} (arm fast, block 0)"
    assert finding.found == "continued on west after east (Xeon) to batch 1"
    assert "a gap in its pairs may be the machines'" in finding.advice
