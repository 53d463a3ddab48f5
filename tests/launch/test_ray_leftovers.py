"""What a killed launch's Ray leaves is ended once the launch is gone, and nothing else is."""

import subprocess
import sys

import pytest

from ablate.launch.ray_leftovers import raylets_own, watch


@pytest.fixture
def sleeping():
    """Start processes that sleep; all end with the test."""
    found = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
    yield found
    for process in found:
        process.kill()
        process.wait()


def test_what_is_watched_ends_with_who_started_the_watch_and_nothing_else_does(sleeping):
    agent, other = sleeping
    keeper = watch([agent.pid, 2**22 + 1])  # no process has the second id: Linux gives out at most 2^22
    with pytest.raises(subprocess.TimeoutExpired):
        agent.wait(3)
    keeper.stdin.close()  # as the kernel does when the launch is killed
    assert agent.wait(30) == -9
    assert keeper.wait(10) == 0
    assert other.poll() is None


def test_without_a_raylet_nothing_is_its_own(sleeping):
    assert raylets_own() == []
