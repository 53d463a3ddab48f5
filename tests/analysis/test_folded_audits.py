"""Of each batch the last attempt counts, and folding what was quiet changes no count."""

from auditing import table, who
from synthetic import clean, distance, generator, overwritten

from ablate.record.columns import AUDIT_COLUMNS
from analysis.folded_audits import COLUMNS, audit_rows
from analysis.guard_findings import coverage


def test_what_an_earlier_attempt_saw_of_batches_that_a_resumed_one_skipped_still_counts():
    early = who([distance(batch, "loss", "model", error=1.0) for batch in (0, 1)], attempt=1)
    late = who([distance(1, "loss", "model", error=2.0)], attempt=2)
    found = audit_rows([table(early), table(late)])
    assert [(row.batch_index, row.error) for row in found] == [(0, 1.0), (1, 2.0)]


def test_rows_of_quiet_batches_are_folded_and_counted_as_if_each_had_been_kept():
    draws = generator("quiet")
    found = []
    for trial_id in ("t1", "t2", "t3"):
        for attempt, batches in ((1, range(0, 40)), (2, range(20, 60))):
            columns = [clean(batch, int(draws.integers(1, 99))) for batch in batches if draws.random() < 0.8]
            columns += [overwritten(batch)[1] for batch in batches for _ in range(2) if draws.random() < 0.1]
            columns += [{"batch_index": None, "check": "scope", "verdict": None, "detail": "nothing"}]
            found += who(columns, trial_id, attempt=attempt if trial_id != "t3" else 1)
    last = {}
    for row in found:
        last[row["trial_id"], row["batch_index"]] = max(
            last.get((row["trial_id"], row["batch_index"]), 0), row["attempt"]
        )
    kept = [row for row in found if row["attempt"] == last[row["trial_id"], row["batch_index"]]]
    saved = [row for row in kept if row["check"] == "saved_tensors"]
    whole = table(found)
    read = audit_rows([whole])
    assert audit_rows([whole.slice(at, 50) for at in range(0, len(whole), 50)]) == read
    for trials in (["t1"], ["t2", "t3"], ["t1", "t2", "t3"]):
        own = [row for row in saved if row["trial_id"] in trials]
        seen = coverage("arm a", trials, read)
        assert seen.batches == len({(row["trial_id"], row["batch_index"]) for row in own})
        assert seen.tensors == sum(row["count"] for row in own)
        assert seen.fault.batches == len({(r["trial_id"], r["batch_index"]) for r in own if r["verdict"] != "clean"})
    assert len([row for row in read if row.check == "saved_tensors"]) < len(saved) / 2
    assert [row.detail for row in read if row.check == "scope"] == [r["detail"] for r in kept if r["check"] == "scope"]


def test_every_column_that_is_read_is_written():
    assert set(COLUMNS) - {"trial_id", "arm", "block", "attempt"} <= set(AUDIT_COLUMNS)
