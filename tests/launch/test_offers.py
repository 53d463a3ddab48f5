"""``--offer``: tags that this machine is said to offer, for arms that ask for a machine by its tag."""

from __future__ import annotations

import pytest

from ablate.errors import BadInput
from ablate.launch.launchers import new_launcher
from ablate.launch.placement import check, read_offers, this_machine
from tests.conftest import whole

TAGGED = """\
arms:
  plain: {}
  tagged: {resources: {cpu_i5: 1}, settings: {step_s: 0.001}}
"""


def test_a_tag_is_worth_one_unless_said_otherwise():
    assert read_offers(["a", "b=2", "c-d=0.5"]) == {"a": 1.0, "b": 2.0, "c-d": 0.5}
    assert read_offers([]) == {}


@pytest.mark.parametrize("word", ["", "=1", "a=0", "a=-1", "a=x", "a=inf", "a=nan"])
def test_what_is_no_offer_is_refused(word):
    with pytest.raises(BadInput) as caught:
        read_offers([word])
    assert str(caught.value) == (f"--offer {word}: is no offer\n    allowed: TAG, or TAG=AMOUNT with an amount above 0")


@pytest.mark.parametrize("name", ["CPU", "GPU"])
def test_what_is_counted_cannot_be_claimed(name):
    with pytest.raises(BadInput) as caught:
        read_offers([f"{name}=64"])
    assert str(caught.value) == (
        f"--offer {name}=64: this machine's {name}s are counted, not claimed\n    allowed: a tag"
    )


def test_this_machine_offers_it_beside_its_cores():
    check({"arm": {"CPU": 1.0, "tag": 1.0}}, [this_machine({"tag": 1.0})])
    assert this_machine({"CPU": 1e9}).resources["CPU"] == this_machine().resources["CPU"]


def test_a_cluster_says_itself_what_its_nodes_offer():
    with pytest.raises(BadInput) as caught:
        new_launcher(local=False, address="10.0.0.1:6379", offers=["a"])
    assert str(caught.value) == (
        "--offer: with a cluster at 10.0.0.1:6379\n    allowed: without --address\n"
        "    start each node with what it offers: ray start --resources '{\"TAG\": 1}'"
    )


def test_without_an_offer_the_arm_is_refused_and_with_it_it_runs(place):
    grid = place.grid(TAGGED)
    refused = place.ablate("launch", "--local", grid)
    assert refused.code == 4
    assert "arms.tagged.resources.cpu_i5: asks for cpu_i5: 1, no node offers it" in refused.words
    done = place.ablate("launch", "--local", "--offer", "cpu_i5", grid)
    assert done.code == 0, done.text
    assert whole(place.root()) == 4


@pytest.mark.slow
def test_an_embedded_ray_has_it_too(place):
    done = place.ablate("launch", "--offer", "cpu_i5=1", place.grid(TAGGED, blocks=1))
    assert done.code == 0, done.text
    assert whole(place.root()) == 2
