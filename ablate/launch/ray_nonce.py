"""Whether every node writes into the store that this process reads: each leaves a file there, to be found here.

A path such as /home/me/runs names another disk on every machine unless it is shared. Trials would then write their
journals where nobody looks for them.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ablate.errors import Problem, StoreError
from ablate.launch.ray_nodes import Answer, alive, ask_all
from ablate.record.paths import StorePaths
from ablate.trial.task import TrialEnd, TrialTask

PATIENCE_S = 5.0
"""A network file system may show a new file of another machine a few seconds late."""

MISSED_S = 75.0
"""From asking until a node that went meanwhile counts as lost. Ray gives up on one after five checks 3 s apart, each of
which waits up to 10 s where the machine itself is gone (its defaults): after 15 to 65 s. A silent node costs it."""

LOOK_S = 0.5

ADVICE = (
    "A launch on a cluster needs a store that every node reaches: with --runs a folder that all of them mount at the "
    "same path, or a URI (--runs s3://bucket/runs)."
)

ADVICE_SILENT = "Look at it (`ablate doctor --address`), and launch again once it answers or Ray has missed it."


def check_shared(store: Path) -> None:
    """Check that what each node of the connected cluster writes into the store can be read here.

    Nodes without a core and without a GPU run no trial and are not asked. One that gave no answer may be lost, which
    says nothing of the store and keeps no launch from starting; Ray takes a while to miss it.

    Raises:
        StoreError: naming the nodes where it is not so, and what was seen there.
    """
    missed = time.monotonic() + MISSED_S
    name = f"nonce-{secrets.token_hex(8)}"
    nodes = [node for node in alive() if runs_trials(node["Resources"])]
    try:
        answers = ask_all(_writer(), str(store.resolve()), name, nodes=nodes)
        judge(store, [answer for answer in answers if answer.value or not _lost(answer.node, missed)])
    finally:
        ask_all(_remover(), str(store.resolve()), name, nodes=nodes)


def runs_trials(resources: Mapping[str, float]) -> bool:
    """Say whether a node with these resources can run any trial."""
    return any(resources.get(name, 0) > 0 for name in ("CPU", "GPU"))


def judge(store: Path, answers: Iterable[Answer], patience_s: float = PATIENCE_S) -> None:
    """Compare what nodes say that they wrote with what is found here.

    Args:
        store: the store, as this process sees it.
        answers: of the nodes, each with (name of its file, what it wrote into it, what went wrong).
        patience_s: how long a file may take to be seen here.

    Raises:
        StoreError: for nodes that gave no answer or could not write, or whose file is not here or not theirs.
    """
    deadline = time.monotonic() + patience_s
    problems, elsewhere = [], []
    for answer in answers:
        if not answer.value:
            silent = f"node {answer.host} counts as live, and does not say what it writes: {answer.error}"
            problems.append(Problem(str(store), silent, advice=ADVICE_SILENT))
            continue
        file, text, complaint = answer.value
        if not complaint and _wait_for(store / file, text, deadline):
            continue
        found = f"node {answer.host} does not write into this store: " + (
            complaint or "there the same path is another folder, since what it wrote to it is not here"
        )
        elsewhere.append(Problem(str(store), found))
    if elsewhere:
        problems += [*elsewhere[:-1], replace(elsewhere[-1], advice=ADVICE)]
    if problems:
        raise StoreError(*problems)


def without_store(task: TrialTask) -> TrialEnd | None:
    """Return the end of a trial that landed where its store is not; None where it is.

    Nodes that join later were not asked by ``check_shared``, so each trial looks for itself.
    """
    if task.remote or StorePaths(Path(task.root)).spec_json.exists():
        return None
    spec = task.spec
    where = f"trial {spec.trial_id} (arm {spec.arm}, block {spec.block})"
    return TrialEnd(
        trial_id=spec.trial_id,
        attempt=task.attempt,
        status="failed",
        kind="store",
        error=f"node {socket.gethostname()} does not have this store: {where} cannot be recorded there\n    {ADVICE}",
    )


def _lost(node: str, deadline: float) -> bool:
    """Wait until Ray has missed a node that gave no answer; say whether it has."""
    while any(one["NodeID"] == node for one in alive()):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _wait_for(path: Path, text: str, deadline: float) -> bool:
    while True:
        try:
            if path.read_text() == text:
                return True
        except OSError:
            pass
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)


def _writer() -> Callable[[str, str], tuple[str, str, str]]:
    def write(store: str, begin: str) -> tuple[str, str, str]:
        import os
        import uuid

        name = f"{begin}-{uuid.uuid4().hex}.tmp"  # .tmp: if left behind, cleared at the next launch
        text = uuid.uuid4().hex
        try:
            with open(os.path.join(store, name), "x") as file:
                file.write(text)
        except OSError as error:
            return name, text, f"{error.strerror}: {store}"
        return name, text, ""

    return write


def _remover() -> Callable[[str, str], None]:
    def remove(store: str, begin: str) -> None:
        import contextlib
        import glob
        import os

        for path in glob.glob(os.path.join(glob.escape(store), begin + "*")):
            with contextlib.suppress(OSError):  # on a shared disk another node was faster
                os.unlink(path)

    return remove
