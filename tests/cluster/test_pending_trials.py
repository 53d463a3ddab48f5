"""The whole grid's demand is in front of the autoscaler at once, and a scarce resource holds up no other trial."""

from __future__ import annotations

import json

import pytest

from ablate.launch.after import Then
from ablate.launch.pending import FEW, pending_limit
from ablate.launch.placement import available_cores
from ablate.launch.preparation import Preparation
from ablate.launch.study import read_study
from ablate.launch.tasks import make_task
from ablate.record.store import Store
from ablate.trial.task import TrialEnd, TrialTask
from tests.conftest import wait_for

SCARCE = 203
"""More than the 200 that Tune lets wait unless told otherwise."""

PLAIN = 3

ARMS = """\
arms:
  scarce: {resources: {CPU: 0.5, lone_gpu: 1}, settings: {fault: hang}}
  plain: {resources: {CPU: 0.5}}
"""


def test_all_ask_where_nodes_may_come_or_requests_differ():
    one, other = {"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0}
    assert pending_limit([one] * 1000, on_cluster=True) == 1000
    assert pending_limit([one] * 500 + [other] * 500, on_cluster=False) == 1000
    assert pending_limit([one] * 1000, on_cluster=False) == max(FEW, available_cores())


def told_to_the_autoscaler() -> int:
    """Return how many trials wait, as the autoscaler's own report has it: it reads Ray's load every 5 s."""
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.experimental.internal_kv import _internal_kv_get

    report = json.loads(_internal_kv_get(DEBUG_AUTOSCALING_STATUS) or "{}")
    return sum(count for _, count in report.get("load_metrics_report", {}).get("pg_demand", []))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trials_that_wait_for_a_scarce_gpu_are_all_seen_and_hold_up_nobody(place, monkeypatch):
    """The first scarce trial hangs on the only such resource, the others wait for it, and only then come plain ones."""
    from ablate.launch.tune import TuneLauncher

    monkeypatch.chdir(place.folder)
    name, _, value = place.mark.partition("=")
    monkeypatch.setenv(name, value)
    read = read_study(place.grid(ARMS, study="pending", blocks=SCARCE))
    (place.folder / "runs").mkdir()
    ended: list[str] = []
    seen: list[int] = []
    with Store.open(place.root("pending"), read.grid, read.path.read_bytes()) as store:
        prepared = Preparation(read.specs, store.paths.initial, read.search).wait(lambda n, of: None)
        specs = [spec for spec in read.specs if spec.arm == "scarce"]
        specs += [spec for spec in read.specs if spec.arm == "plain"][:PLAIN]
        launcher = TuneLauncher("pending", offered={"lone_gpu": 1.0})

        def after(task: TrialTask, end: TrialEnd) -> Then:
            ended.append(task.spec.arm)
            if len(ended) < PLAIN:
                return Then.GO_ON
            wait_for(lambda: told_to_the_autoscaler() == SCARCE - 1, 60)
            seen.append(told_to_the_autoscaler())
            return Then.STOP

        try:
            launcher.start()
            launcher.run([make_task(read, store, spec, prepared) for spec in specs], after)
        finally:
            launcher.close()
    assert ended == ["plain"] * PLAIN
    assert seen == [SCARCE - 1]
