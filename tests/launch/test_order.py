"""Which trial a free actor takes over: the first, but none whose own actor is about to start."""

from __future__ import annotations

from types import SimpleNamespace

from ablate.launch import tune


class Controller:
    """Stands in for Tune's: ``starting`` are trials whose actor has its place, ``free`` the cached actors' places."""

    def __init__(self, starting=(), free=()):
        self._trial_to_actor = {trial: trial.name for trial in starting}
        self._actor_manager = SimpleNamespace(is_actor_started=lambda actor: True)
        self._actor_cache = SimpleNamespace(has_cached_object=lambda place: place in free)


class TrialDouble(SimpleNamespace):
    __hash__ = object.__hash__


def order_of(controller, *trials):
    order = tune._Order()
    for trial in trials:
        order.on_trial_add(SimpleNamespace(_tune_controller=controller), trial)  # as Tune wraps it
    return order


def trial(name, status="PENDING", place="one core"):
    return TrialDouble(name=name, status=status, placement_group_factory=place)


def test_trials_come_in_the_order_given():
    first, second = trial("first"), trial("second")
    order = order_of(Controller(free=["one core"]), first, second)
    assert order.choose_trial_to_run(order._controller) is first
    assert order.choose_trial_to_run(order._controller) is first
    first.status = "RUNNING"
    assert order.choose_trial_to_run(order._controller) is second
    second.status = "TERMINATED"
    assert order.choose_trial_to_run(order._controller) is None
    again = trial("again")
    order.on_trial_add(order._controller, again)
    assert order.choose_trial_to_run(order._controller) is again


def test_a_trial_whose_own_actor_starts_is_left_to_it():
    first, second = trial("first"), trial("second")
    order = order_of(Controller(starting=[first], free=["one core"]), first, second)
    assert order.choose_trial_to_run(order._controller) is second
    second.status = "RUNNING"
    assert order.choose_trial_to_run(order._controller) is None


def test_an_actor_that_only_waits_for_its_place_is_not_waited_for():
    first = trial("first")
    controller = Controller(starting=[first], free=["one core"])
    controller._actor_manager = SimpleNamespace(is_actor_started=lambda actor: False)
    order = order_of(controller, first)
    assert order.choose_trial_to_run(controller) is first


def test_a_free_actor_takes_the_first_trial_of_its_kind():
    big, small = trial("big", place="a GPU"), trial("small")
    order = order_of(Controller(free=["one core"]), big, small)
    assert order.choose_trial_to_run(order._controller) is small
    order = order_of(Controller(), big, small)
    assert order.choose_trial_to_run(order._controller) is big
    order = order_of(Controller(free=["one core", "a GPU"]), big, small)
    assert order.choose_trial_to_run(order._controller) is big


def test_for_a_free_actor_the_trials_of_another_kind_are_not_gone_through():
    others, small = [trial(f"big {n}", place="a GPU") for n in range(1000)], trial("small")
    order = order_of(Controller(free=["one core"]), *others, small)
    looked = []
    order._starts = lambda one: looked.append(one)
    assert order.choose_trial_to_run(order._controller) is small
    assert looked == [others[0], small]
