"""SIGTERM to a trial's process, from its first moment on."""

from __future__ import annotations

import subprocess
import sys

SERVE = """
import os, signal, socket, sys
from ablate.trial import server
from ablate.trial.notice import NOTICE, Notice

plain = Notice.listen

def listen(notice):
    os.kill(os.getpid(), signal.SIGTERM)  # between the fork and the moment at which it is listened for
    plain(notice)

Notice.listen = listen
server._run_child = lambda connection, request: 0 if NOTICE.given else 7
server.unfit_to_fork = lambda: ""
made = server.Server(sys.argv[1])
ours, theirs = socket.socketpair()
made._connections[ours] = None
made._selector.register(ours, server.selectors.EVENT_READ, "peer")
made._fork(ours, {"task": {}})
code = os.waitstatus_to_exitcode(os.waitpid(made._connections[ours], 0)[1])
left = signal.pthread_sigmask(signal.SIG_BLOCK, [])
sys.exit(code if not left else 8)
"""


def test_a_notice_between_the_fork_and_the_trial_s_first_line_is_heard(tmp_path):
    done = subprocess.run([sys.executable, "-c", SERVE, str(tmp_path / "s")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
