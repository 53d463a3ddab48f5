"""A store at a URI has one writer, who is told to others, and one that is gone loses it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ablate.errors import Problem, StoreError
from ablate.remote import lease
from ablate.remote.lease import NAME as LEASE
from ablate.remote.objects import Objects
from ablate.remote.refusal import Unreachable
from tests.record.conftest import run_trial
from tests.remote.stores import FAST, crash, elsewhere, opened

pytestmark = pytest.mark.usefixtures("soon")


def test_a_second_launch_is_refused_and_told_whose_the_store_is(uri, monkeypatch, tmp_path):
    with opened(uri):
        with pytest.raises(StoreError, match=r"stores/.*\.lock: the store is being written by process \d+"):
            opened(uri, "two")
        elsewhere(monkeypatch, tmp_path)
        with pytest.raises(StoreError) as caught:
            opened(uri, "two")
    said = str(caught.value)
    assert f"{uri.partition('?')[0]}: the store is being written by process" in said
    assert "one that was killed on another machine loses the store after 60 s" in said


def test_a_lease_that_is_not_renewed_goes_stale(uri, monkeypatch, tmp_path):
    store = opened(uri)
    crash(store, dead=False)
    elsewhere(monkeypatch, tmp_path)
    with pytest.raises(StoreError, match=r"last seen \d+ s ago"):
        opened(uri, "two")
    monkeypatch.setattr(lease, "STALE_S", -1.0)
    with opened(uri, "two"):
        pass


@pytest.mark.parametrize("off_s", [3600.0, -3600.0])
def test_who_writes_a_store_is_told_by_its_clock_and_not_by_the_reader_s(uri, monkeypatch, off_s):
    true = lease.time.time
    store = opened(uri)
    objects = Objects(uri)
    with monkeypatch.context() as clock:
        clock.setattr(lease.time, "time", lambda: true() + off_s)
        assert lease.live_owner(objects).launch == "one"
        clock.setattr(lease, "STALE_S", -1.0)
        assert lease.live_owner(objects) is None
    assert not [name for name in objects.names() if "nonce" in name]
    store.close()
    assert lease.live_owner(objects) is None


def test_who_may_only_read_tells_a_lease_s_age_by_their_own_clock(uri, monkeypatch):
    with opened(uri):
        objects = Objects(uri)

        def denied(name, content):
            raise StoreError(Problem(uri, "access is refused"))

        def away(name, content):
            raise Unreachable(Problem(uri, "does not answer"))

        with monkeypatch.context() as rights:
            rights.setattr(objects, "write", denied)
            assert lease.live_owner(objects).launch == "one"
            rights.setattr(objects, "write", away)
            with pytest.raises(Unreachable):
                lease.live_owner(objects)


def test_a_launch_that_lost_its_lease_writes_no_more(uri, monkeypatch):
    monkeypatch.setattr(lease, "BEAT_S", 60.0)  # else a beat between its look and its write would take the lease back
    store = opened(uri)
    objects = Objects(uri)
    other = dataclasses.replace(lease.Owner.here("two"), host="elsewhere", since="now")
    objects.write(LEASE, json.dumps(dataclasses.asdict(other)).encode())
    before = objects.read("manifest.json")
    store.absorb(FAST.trial_id, run_trial(store, FAST))
    with pytest.raises(StoreError, match=r"the store was taken over by process .* on elsewhere since now"):
        store.close()
    assert objects.read("manifest.json") == before
    assert json.loads(objects.read(LEASE))["launch"] == "two"
