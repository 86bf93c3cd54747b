"""A grant that nobody heard uses its fencing tokens up: whoever heard it elsewhere has one that nobody else gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_locks import scripts
from redis_locks.run_once import scripts as run_once_scripts
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.scripts.test_dead_holders import acquire_for_process, crash_release
from tests.support.world import until

AHEAD = 1_999_999_999_999_999
"""The last fencing token, as if the clock had been ahead. So the next ones show how many were given
out.
"""

UNHEARD = AHEAD + 1
"""The token that the first grant tells."""


def queue_up_behind_the_dead(bench: Bench, mode: str = "exclusive") -> None:
    """Let one wait that dies then, and one behind it that lives."""
    dying = bench.listen("dead")
    bench.listen("living")
    bench.queue_up("dead", "living", mode=mode)
    dying.close()
    channel = bench.channel("dead")
    until(lambda: bench.client.pubsub_numsub(channel) == [(channel.encode(), 0)])
    assert ["dead", "living"] == bench.queued()[-2:]


def ahead(bench: Bench, *names: str) -> None:
    for name in names or (bench.name,):
        bench.set_fence(AHEAD, name)


def of_release(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench)
    ahead(bench)
    assert bench.release("a")


def of_release_of_a_set(bench: Bench) -> None:
    names = (bench.name, "other")
    bench.acquire("a", names=names)
    bench.listen("living")
    bench.queue_up("dead", "living", names=names)
    ahead(bench, *names)
    assert bench.release("a", names=names)
    assert bench.last_fence("other") > UNHEARD


def of_release_to_those_who_share(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench, "shared")
    ahead(bench)
    assert bench.release("a")


def of_release_by_one_who_shares(bench: Bench) -> None:
    bench.acquire("a", mode="shared")
    queue_up_behind_the_dead(bench)
    ahead(bench)
    assert bench.release("a")


def of_a_permit(bench: Bench) -> None:
    bench.acquire("a", mode="permit:1")
    queue_up_behind_the_dead(bench, "permit:1")
    ahead(bench)
    assert bench.release("a")


def of_commit(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench)
    ahead(bench)
    assert ["1"] == bench.words(scripts.COMMIT, "a")


def of_abandon(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench)
    ahead(bench)
    bench.abandon("a")


def of_force_release(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench)
    ahead(bench)
    fence, *_ = bench.words(scripts.FORCE_RELEASE, "operator", "a")
    assert UNHEARD == int(fence)
    assert bench.fence() > UNHEARD + 1  # which is what the dead one was told


def of_crash_release(bench: Bench) -> None:
    acquire_for_process(bench, "a", bench.channel("nobody"))
    queue_up_behind_the_dead(bench)
    ahead(bench)
    assert 1 == crash_release(bench)


def of_cancel(bench: Bench) -> None:
    bench.acquire("a", mode="shared")
    bench.listen("w")
    bench.queue_up("w")
    queue_up_behind_the_dead(bench, "shared")
    ahead(bench)
    assert ["1"] == bench.words(scripts.CANCEL, "operator", "w")


def of_downgrade(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench, "shared")
    ahead(bench)
    assert ["1"] == bench.words(scripts.DOWNGRADE, "a")


def of_a_waiter_that_asks_again(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench)
    bench.end_lease()
    ahead(bench)
    assert "1" == bench.acquire("living", wait=FOR_EVER, listener="living")[0]


def of_an_acquire_behind_the_dead(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("dead")
    bench.end_lease()
    ahead(bench)
    assert "1" == bench.acquire("living")[0]


def of_take(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("dead")
    bench.end_lease()
    ahead(bench)
    argv = (60_000, "exclusive", WHO, "living", 1, "1", 1, 0)
    assert "1" in bench.words(scripts.TAKE, "living", *argv)


def of_a_job_that_begins(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("dead")
    bench.end_lease()
    ahead(bench)
    argv = (60_000, WHO, "living", 1, 60_000)
    assert "begun" == bench.words(run_once_scripts.BEGIN, "living", *argv)[0]


@pytest.mark.parametrize(
    "passing_on",
    [
        *(of_release, of_release_of_a_set, of_release_to_those_who_share),
        *(of_release_by_one_who_shares, of_a_permit, of_commit, of_abandon, of_force_release),
        *(of_crash_release, of_cancel, of_downgrade, of_a_waiter_that_asks_again),
        *(of_an_acquire_behind_the_dead, of_take, of_a_job_that_begins),
    ],
    ids=lambda each: each.__name__,
)
def test_the_next_grant_has_a_token_above_one_that_nobody_heard(
    bench: Bench, passing_on: Callable[[Bench], None]
) -> None:
    passing_on(bench)
    _, _, _, held, *_ = bench.inspect()
    claims = dict(zip(held[::3], held[2::3], strict=True))
    assert b"dead" not in claims
    assert int(claims[b"living"].split()[0]) > UNHEARD
