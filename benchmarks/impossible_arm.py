"""How soon a launch says that an arm asks for what no machine has; plain Tune lets its trials wait, without a word.

    PYTHONPATH=. python benchmarks/impossible_arm.py [--repeats N] [--json FILE] [--cut S]

Plain Tune is cut off ``--cut`` seconds after it said that a trial waits; that none began until then is checked.
"""

from __future__ import annotations

import time
from statistics import median

from benchmarks.launched import LONGEST_S, ablate, place, plain
from benchmarks.measured import Comparison, arguments, report

TITLE = "An arm that no machine can run"
TARGET_S = 5
TAG = "accelerator"
ARMS = f"{{one: {{}}, other: {{settings: {{width: 5}}, resources: {{{TAG}: 1}}}}}}"
UNMET = 4
"""The exit code of a placement that is not met."""


def refused_s() -> float:
    """Return the seconds until ``ablate launch`` has ended with the refusal that names the resource.

    Raises:
        RuntimeError: it ended otherwise.
    """
    with place("ours") as here:
        grid = here.grid(blocks=1, arms=ARMS)
        times = here.run(ablate(grid), trials=0, code=UNMET)
        if TAG not in here.printed():
            raise RuntimeError(f"the refusal does not name the resource\n{here.printed()}")
        return times.ended - times.began


def waited_s(cut_s: float) -> float:
    """Return the seconds after which plain Tune was cut off; no trial had begun.

    Raises:
        RuntimeError: it ended by itself, or a trial began.
    """
    with place("plain") as here:
        began, waits_since = time.monotonic(), float("inf")
        process = here.start(plain(here.folder, 2, "--tag", TAG))
        while time.monotonic() - waits_since < cut_s:
            if process.poll() is not None or here.begun() or time.monotonic() - began > LONGEST_S:
                raise RuntimeError(f"plain Tune did not wait\n{here.printed()}")
            time.sleep(0.1)
            if "PENDING" in here.printed():
                waits_since = min(waits_since, time.monotonic())
        waited = time.monotonic() - began
        here.kill(process)
        return waited


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--cut", type=float, default=20.0, help="seconds that plain Tune is given to refuse it")
    asked = parser.parse_args()
    ours, peer = [refused_s() for _ in range(asked.repeats)], waited_s(asked.cut)
    row = Comparison(
        "until an arm is refused that asks for a resource of no node",
        "s",
        tuple(ours),
        "plain Tune",
        (peer,),
        f"< {TARGET_S} s",
        median(ours) < TARGET_S,
        f"plain Tune never ends: cut off {asked.cut:g} s after it said PENDING, no trial begun",
    )
    report(TITLE, [row], asked.json)


if __name__ == "__main__":
    main()
