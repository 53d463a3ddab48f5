"""One writer per store, by an object that names its owner and is written again every few seconds.

S3 gives no lock, and pyarrow no conditional write: a lease is written, then read back after ``SETTLE_S``. Of two
launches that both saw it free, the one that wrote last has it, if each wrote within ``SETTLE_S`` of its look; a beat
that finds another owner ends the launch. Ages are told by the store's clock alone, since nodes' clocks may be an hour
apart.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from ablate.errors import Problem, StoreError
from ablate.remote.objects import Objects
from ablate.remote.refusal import Unreachable

NAME = "lease.json"
BEAT_S = 10.0
STALE_S = 60.0
"""A lease not renewed for so long is free: its launch was killed, or cannot reach the store."""
SETTLE_S = 1.0


class LeaseLost(StoreError):
    """Another launch took the store over."""


@dataclass(frozen=True)
class Owner:
    """Who has a store.

    Attributes:
        launch: the launch's id.
        host: its machine's name.
        machine: tells machines and containers apart, also those of one name.
        pid: its process.
        began: when that process began, seconds since that machine's boot clock's epoch; tells a reused number.
        user: whose it is.
        since: when it took the store, by its own clock, for people.
        released: whether it is over.
    """

    launch: str
    host: str
    machine: str
    pid: int
    began: float
    user: str
    since: str
    released: bool = False

    @staticmethod
    def here(launch: str) -> Owner:
        """Return this process as the owner."""
        return Owner(
            launch,
            socket.gethostname(),
            _machine(),
            os.getpid(),
            psutil.Process().create_time(),
            _user(),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @property
    def is_dead(self) -> bool:
        """Whether it certainly runs no more: it ran on this machine and is gone."""
        if self.machine != _machine():
            return False
        try:
            return bool(abs(psutil.Process(self.pid).create_time() - self.began) > 1.0)
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False

    def __str__(self) -> str:
        return f"process {self.pid} of {self.user} on {self.host} since {self.since}"


def read_owner(objects: Objects) -> Owner | None:
    """Return who has, or had, the store; None if nobody ever had, or what is there cannot be understood.

    Raises:
        StoreError: if the store refuses.
    """
    content = objects.read(NAME)
    try:
        return None if content is None else Owner(**json.loads(content))
    except (ValueError, TypeError):
        return None


def live_owner(objects: Objects) -> Owner | None:
    """Return who has the store now; None if it is free.

    Whoever may only read the store has to tell the lease's age by this machine's clock, not the store's: one that is
    a minute off may then be wrong about a launch on another machine.

    Raises:
        StoreError: if the store refuses.
    """
    owner = read_owner(objects)
    if owner is None or owner.released or owner.is_dead:
        return None
    written = objects.modified(NAME)
    return owner if written is not None and _now(objects) - written < STALE_S else None


class Lease:
    """The right to write one store; made by ``Lease.take``.

    Attributes:
        previous: who had the store before; None if nobody.
    """

    def __init__(self, objects: Objects, owner: Owner, previous: Owner | None) -> None:
        self.previous = previous
        self._objects = objects
        self._owner = owner
        self._stop = threading.Event()
        self._lost = ""
        self._thread: threading.Thread | None = None

    @classmethod
    def take(cls, objects: Objects, launch: str, told: Callable[[str], None] = lambda _: None) -> Lease:
        """Take the store, also from a launch that is dead.

        Raises:
            StoreError: if another launch has it, or the store refuses.
        """
        previous = read_owner(objects)
        if previous is not None and not previous.released:
            written, now = objects.modified(NAME), objects.now()
            age = now - written if written is not None else STALE_S
            if not previous.is_dead and age < STALE_S:
                raise StoreError(_held(objects.uri, previous, age))
            told(f"taking the store over from a launch that is gone: {previous}, last seen {age:.0f} s ago")
        owner = Owner.here(launch)
        objects.write(NAME, _encoded(owner))
        time.sleep(SETTLE_S)
        found = read_owner(objects)
        if found != owner:
            raise StoreError(_held(objects.uri, found, 0.0))
        return cls(objects, owner, previous)

    def keep(self, told: Callable[[str], None]) -> None:
        """Renew the lease from a thread of its own until released; ``told`` hears of a store that went or came back."""
        self._thread = threading.Thread(target=self._beat, args=(told,), daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Read whose the store is.

        Raises:
            LeaseLost: if it is another launch's now.
            StoreError: if the store refuses.
        """
        found = read_owner(self._objects)
        if found is None or found.launch != self._owner.launch:
            self._lost = str(found) if found else "nobody: its lease object was deleted"
        self.check_known()

    def check_known(self) -> None:
        """Raise ``LeaseLost`` if a beat, or a check, found that the store is another launch's. Asks nobody."""
        if self._lost:
            advice = "this launch stops; what it had recorded is in the store or is run again by the other"
            where = self._objects.uri.partition("?")[0]
            raise LeaseLost(Problem(where, f"the store was taken over by {self._lost}", advice=advice))

    def release(self) -> None:
        """Say that the launch is over; quiet if another has the store.

        Raises:
            StoreError: if the store refuses; the lease then goes stale.
        """
        self._stop.set()
        if self._thread:
            self._thread.join()
        try:
            self.check()
        except LeaseLost:
            return
        self._objects.write(NAME, _encoded(Owner(**{**asdict(self._owner), "released": True})))

    def _beat(self, told: Callable[[str], None]) -> None:
        away = False
        while not self._stop.wait(BEAT_S):
            try:
                self.check()
                if self._stop.is_set():
                    return
                self._objects.write(NAME, _encoded(self._owner))
            except LeaseLost:
                return
            except StoreError as error:
                if not away:
                    words = "trials go on, their rows stay on their nodes until it is back"
                    told(f"{error.problems[0].where} {error.problems[0].found}: {words}")
                away = True
            else:
                if away:
                    told(f"{self._objects.uri.partition('?')[0]} answers again")
                away = False


def _now(objects: Objects) -> float:
    try:
        return objects.now()
    except Unreachable:
        raise
    except StoreError:  # it may not be written
        return time.time()


def _held(uri: str, owner: Owner | None, age_s: float) -> Problem:
    who = f"{owner}, last seen {age_s:.0f} s ago" if owner else "another launch"
    lapse = f"one that was killed on another machine loses the store after {STALE_S:.0f} s"
    advice = f"wait until that launch is over, or stop it; {lapse}"
    return Problem(uri.partition("?")[0], f"the store is being written by {who}", advice=advice)


def _encoded(owner: Owner) -> bytes:
    return json.dumps(asdict(owner), indent=1).encode()


def _machine() -> str:
    """Return what differs between any two machines, boots, and process number spaces (containers)."""
    parts = [socket.gethostname()]
    for path in (Path("/proc/sys/kernel/random/boot_id"), Path("/etc/machine-id")):
        try:
            parts.append(path.read_text().strip())
        except OSError:
            continue
    try:
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        parts.append(f"{psutil.boot_time():.0f}")
    return " ".join(parts)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
