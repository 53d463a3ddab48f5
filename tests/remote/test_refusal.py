"""What pyarrow says, in words; the texts are those that pyarrow 26 gave for real servers and for our stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.errors import BadInput
from ablate.remote import location, patience
from ablate.remote.patience import backoff, patiently
from ablate.remote.refusal import Unreachable, refusal

URI = "s3://bkt/runs/demo?region=x"
UPLOAD = "When uploading object with key 'a' in bucket 'bkt': "


@pytest.mark.parametrize(
    ("text", "said", "away"),
    [
        (UPLOAD + "AWS Error NO_SUCH_BUCKET during PutObject operation: no", "there is no bucket 'bkt'", False),
        (
            "AWS Error ACCESS_DENIED during HeadObject operation: No response body.",
            "access is refused (AWS Error",
            False,
        ),
        ("AWS Error SIGNATURE_DOES_NOT_MATCH during GetObject operation: x", "access is refused", False),
        ("AWS Error REQUEST_TIME_TOO_SKEWED during PutObject operation: x", "this machine's clock is wrong", False),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7", "does not answer (AWS Error", True),
        ("AWS Error SLOW_DOWN during PutObject operation: x", "does not answer", True),
        ("AWS Error UNKNOWN (HTTP status 503) during PutObject operation: x", "does not answer", True),
        ("something else", "cannot be used (something else)\n    try it with other tools: list 'demo' there", False),
    ],
)
def test_a_refusal_is_told_in_words(text, said, away):
    found = refusal(URI, OSError(text))
    assert str(found).startswith("s3://bkt/runs/demo: ")
    assert said in str(found)
    assert isinstance(found, Unreachable) is away
    assert found.exit_code == 6


def test_waiting_ends_with_patience_or_when_told(monkeypatch):
    monkeypatch.setattr(patience, "_SOONEST_S", 0.001)
    answers = [Unreachable(*refusal(URI, OSError("timed out")).problems)] * 3
    told = []

    def call():
        if answers:
            raise answers.pop()
        return "here"

    assert patiently(call, told.append, 60) == "here"
    assert told == [
        "s3://bkt/runs/demo does not answer (timed out): waiting for it, at most 1 min",
        "the store answers again",
    ]

    def never():
        raise refusal(URI, OSError("timed out"))

    with pytest.raises(Unreachable):
        patiently(never, told.append, 0.01)
    assert [backoff(tries) for tries in (0, 1, 4, 50)] == [0.001, 0.002, 0.016, 1.024]


def test_a_refusal_that_waiting_does_not_mend_is_not_waited_for():
    with pytest.raises(type(refusal(URI, OSError("ACCESS_DENIED")))):
        patiently(lambda: (_ for _ in ()).throw(refusal(URI, OSError("ACCESS_DENIED"))), print, 60)


def test_uris_are_told_from_folders_and_joined_before_their_options(monkeypatch):
    monkeypatch.setenv("ABLATE_CACHE", "/cache")
    assert location.is_uri("s3://b/runs")
    assert not location.is_uri("runs/x")
    assert not location.is_uri(Path("/s3/b"))
    assert location.within("runs", "demo") == Path("runs/demo")
    assert location.within("s3://b/runs/?a=1&b=2", "demo") == "s3://b/runs/demo?a=1&b=2"
    assert location.parent("s3://b/runs/demo?a=1") == "s3://b/runs?a=1"
    assert location.name_of("s3://b/runs/demo/?a=1") == "demo"
    one, other = location.working_copy("s3://b/r/demo?a=1&b=2"), location.working_copy("s3://b/r/demo?b=2&a=1")
    assert one == other
    assert one.parent == Path("/cache/stores")
    assert one.name.endswith("-demo")
    assert location.working_copy("s3://c/r/demo?a=1&b=2") != one
    assert location.reading_copy("s3://b/r/demo?a=1&b=2") == Path("/cache/reading") / one.name
    with pytest.raises(BadInput, match=r"s3://b/runs: is no folder of this machine"):
        location.refuse_uri(Path("s3://b/runs"))
    assert location.refuse_uri(Path("runs")) == Path("runs")
