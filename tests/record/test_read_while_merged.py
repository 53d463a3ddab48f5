"""A reader that looks while a merge unlinks what it replaced, one part after the other."""

from __future__ import annotations

from ablate.record.part import Part
from ablate.record.reader import Run
from ablate.record.store import Store
from tests.record.conftest import make_grid, make_spec, run_trial

PARTS = 24


def test_a_part_unlinked_at_every_look_at_another_fails_no_reader(tmp_path, monkeypatch):
    root, kept = tmp_path / "demo", {}
    with Store.open(root, make_grid(), b"study: demo\n") as store:
        for block in range(PARTS):
            spec = make_spec(block=block)
            store.absorb(spec.trial_id, run_trial(store, spec))
            store.flush()
        kept = {path: path.read_bytes() for path in store.paths.parts(store.paths.batches)}
    assert len(kept) == PARTS
    for path, data in kept.items():
        path.write_bytes(data)  # as the merge left them, before it unlinked any
    read = Part.read

    def unlinked_beside(path):
        try:
            return read(path)
        finally:
            for later in [one for one in kept if one > path and one.exists()][:1]:
                later.unlink()

    monkeypatch.setattr(Part, "read", staticmethod(unlinked_beside))
    table = Run(root).batches()
    assert table.num_rows == PARTS * make_spec().batches
    assert len(set(table["block"].to_pylist())) == PARTS
