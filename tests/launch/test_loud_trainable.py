"""A trainable that prints a lot and leaves a thread running is prepared and trained like any other."""

from tests.conftest import whole

LOUD = """
import sys, threading, time
from doubles import Structured


class Loud(Structured):
    def build(self):
        print({"done": 1}, '{"prepared": {}}', sep="\\n")
        print("x" * 200_000, file=sys.stderr)
        print("half a line", end="", flush=True)
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return super().build()
"""


def test_a_loud_trainable_is_launched(place):
    (place.folder / "loud.py").write_text(LOUD)
    place.grid("arms:\n  only: {}\n", trainable="loud:Loud", blocks=1)
    done = place.ablate("launch", "grid.yaml", "--local")
    assert done.code == 0, done.text
    assert whole(place.root()) == 1
