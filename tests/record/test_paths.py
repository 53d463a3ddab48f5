from __future__ import annotations

from ablate.record.paths import AttemptKey, StorePaths, temporary


def test_attempts_are_found_by_any_of_their_files(tmp_path):
    paths = StorePaths(tmp_path / "spaces and ünïcode 'quoted'")
    paths.journal.mkdir(parents=True)
    for attempt, path in enumerate(paths.journal_files("tab", 1), start=8):
        path.with_name(path.name.replace("-1.", f"-{attempt}.")).touch()
    (paths.journal / "notes.txt").touch()
    temporary(paths.trial_json("tcd", 1)).touch()
    assert paths.journal_attempts() == [AttemptKey("tab", n) for n in (8, 9, 10, 11, 12, 13)]
    assert paths.temporaries() == [temporary(paths.trial_json("tcd", 1))]


def test_names_cover_everything_a_store_makes(tmp_path):
    paths = StorePaths(tmp_path)
    assert {"grid.yaml", "spec.json.tmp", "lock", "journal", "initial", "trials"} <= paths.names
    assert paths.initial_weights("ab").name == "ab.safetensors"
