"""With `replicas`, no hold is lost with the primary; without, each fail-over loses some."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from redis_locks import Hold, Lock, NotReplicated
from tests.faults.succession import Succession
from tests.support import leases, timings
from tests.support.world import PATIENCE, Observer, Threads, World, held, until

T = TypeVar("T")


def fail_over(
    succession: Succession, name: str, replicas: int, chance: random.Random
) -> tuple[int, int]:
    """Acquire locks until the primary is killed; return how many were given, and lost with it.

    At some moment meanwhile the replica gets nothing more, as on a network that parts.
    """
    given = [_acquired(succession, f"{name}:0", replicas)]
    parting = threading.Timer(chance.uniform(0, 0.02), succession.cut_off)
    parting.start()
    after = 0
    with contextlib.suppress(NotReplicated):
        # Of what is given after that, only the primary knows.
        while (after := after + (not parting.is_alive())) <= 3:
            given.append(_acquired(succession, f"{name}:{len(given)}", replicas))
    parting.join()
    for hold in given:
        leases.desert(hold)  # its server is about to go
    succession.fail_over()
    with succession.client() as client:
        observer = Observer(client)
        lost = sum(hold.token != observer.holder(hold.name) for hold in given)
    return len(given), lost


def _acquired(succession: Succession, name: str, replicas: int) -> Hold:
    hold = Lock(name, using=succession.url, replicas=replicas, lease=60, renew=False).acquire()
    assert hold is not None
    return hold


@pytest.mark.verdict
@pytest.mark.parametrize(
    "times", [3, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(300)])]
)
def test_no_hold_that_was_given_is_lost_with_the_primary(name: str, times: int) -> None:
    chance = random.Random(times)
    with Succession() as pair, timings.replicas_may_take(0.1):
        safe = [fail_over(pair, f"{name}:{n}", 1, chance) for n in range(times)]
        plain = [fail_over(pair, f"{name}:plain:{n}", 0, chance) for n in range(1 + times // 5)]
    assert 0 == sum(lost for _, lost in safe), (safe, plain)
    assert times <= sum(given for given, _ in safe)
    assert all(lost for _, lost in plain)  # so the check can fail


@pytest.fixture(scope="module")
def succession() -> Iterator[Succession]:
    with Succession() as served, timings.replicas_may_take(PATIENCE):
        yield served


def fail_over_during(succession: Succession, name: str, token: str, action: Callable[[], T]) -> T:
    """Let a fail-over forget that `action` takes a lock from `token`; return what came of it."""
    succession.cut_off()
    acting = Threads().start(action)
    with succession.client() as client:
        observer = Observer(client)
        until(lambda: observer.holder(name) != token)
    succession.fail_over()
    return acting.result(PATIENCE)


def test_a_fail_over_that_forgets_a_detachment_ends_no_hold(
    world: World, name: str, succession: Succession
) -> None:
    hold = held(world, Lock(name, using=succession.url, replicas=1, lease=60))

    def detach() -> str:
        text: str = world.do(hold, "detach")
        return text

    text = fail_over_during(succession, name, hold.token, detach)
    adopted = Hold.adopt(text, using=succession.url)
    assert hold.fencing_token == adopted.fencing_token
    adopted.release()


def test_a_fail_over_that_forgets_an_adoption_ends_no_hold(
    name: str, succession: Succession
) -> None:
    text = held(Threads(), Lock(name, using=succession.url, replicas=1, lease=60)).detach()
    with succession.client() as client:
        on_its_way = Observer(client).holder(name)
    assert on_its_way

    def adopt() -> Hold:
        return Hold.adopt(text, using=succession.url)

    adopted = fail_over_during(succession, name, on_its_way, adopt)
    with succession.client() as client:
        assert adopted.token == Observer(client).holder(name)
    adopted.release()
