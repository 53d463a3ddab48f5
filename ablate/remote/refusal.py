"""What pyarrow says when a store refuses or does not answer, in words that say what to do."""

from __future__ import annotations

import re

from ablate.errors import Problem, StoreError
from ablate.remote.location import name_of

_AWAY = re.compile(
    r"NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING|timed? ?out|"
    r"HTTP status 50\d|Connection (?:refused|reset)|Stale file handle|Transport endpoint|UNAVAILABLE",
    re.IGNORECASE,
)
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|bucket does not exist|NoSuchBucket", re.IGNORECASE)
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN|UNRECOGNIZED_CLIENT|"
    r"MISSING_AUTHENTICATION|EXPIRED_TOKEN|ExpiredToken|INVALID_SIGNATURE|HTTP status 40[13]|"
    r"Permission denied|PERMISSION_DENIED|UNAUTHENTICATED|InvalidToken",
    re.IGNORECASE,
)
_SKEWED = re.compile(r"REQUEST_TIME_TOO_SKEWED|RequestTimeTooSkewed", re.IGNORECASE)


class Unreachable(StoreError):
    """The store does not answer now; it may come back."""


def refusal(uri: str, error: Exception) -> StoreError:
    """Return what to raise for an error of pyarrow's about the store at ``uri``."""
    text = str(error)
    said = text.splitlines()[0] if text else type(error).__name__
    where = uri.partition("?")[0]
    if _NO_BUCKET.search(text):
        bucket = where.partition("://")[2].partition("/")[0]
        return StoreError(Problem(where, f"there is no bucket {bucket!r}", advice="make it, or correct --runs"))
    if _SKEWED.search(text):
        advice = "set this machine's clock (`timedatectl set-ntp true`)"
        return StoreError(Problem(where, "refuses requests because this machine's clock is wrong", advice=advice))
    if _DENIED.search(text):
        advice = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or the profile, and what they may do there"
        return StoreError(Problem(where, f"access is refused ({_short(said)})", advice=advice))
    if _AWAY.search(text):
        advice = "check the network, the endpoint and the region, then run the same command again: nothing is lost"
        return Unreachable(Problem(where, f"does not answer ({_short(said)})", advice=advice))
    advice = f"try it with other tools: list {name_of(uri)!r} there"
    return StoreError(Problem(where, f"cannot be used ({_short(said)})", advice=advice))


def _short(said: str) -> str:
    """Leave out which object it was about: what the service said comes after."""
    found = re.search(r"AWS Error .*", said)
    return (found.group() if found else said)[:200]
