"""A grant that nobody heard uses its fencing tokens up.

Whoever heard it elsewhere has one that nobody else gets.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_locks import scripts
from redis_locks.run_once import scripts as run_once_scripts
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.scripts.test_dead_holders import acquire_for_process, crash_release

AHEAD = 1_999_999_999_999_999
"""The last fencing token, as if the clock had been ahead. So the next ones show how many were given
out.
"""

UNHEARD = AHEAD + 1
"""The token that the first grant tells."""


def queue_up_behind_the_dead(bench: Bench, mode: str = "exclusive") -> None:
    """Let one wait that dies then, and one behind it that lives."""
    dying = bench.stand("dead", mode=mode)
    bench.stand("living", mode=mode)
    bench.die(dying)
    assert ["dead", "living"] == bench.queued()[-2:]


def release(bench: Bench) -> None:
    assert bench.release("a")


def force_release(bench: Bench) -> None:
    fence, *_ = bench.words(scripts.FORCE_RELEASE, "operator", "a")
    assert UNHEARD == int(fence)
    assert bench.fence() > UNHEARD + 1  # which is what the dead one was told


ENDS: dict[str, tuple[str, str, Callable[[Bench], object]]] = {
    "release": ("exclusive", "exclusive", release),
    "release to those who share": ("exclusive", "shared", release),
    "release by one who shares": ("shared", "exclusive", release),
    "release of a permit": ("permit:1", "permit:1", release),
    "commit": ("exclusive", "exclusive", lambda bench: bench.words(scripts.COMMIT, "a")),
    "give_up": ("exclusive", "exclusive", lambda bench: bench.give_up("a")),
    "force_release": ("exclusive", "exclusive", force_release),
    "downgrade": ("exclusive", "shared", lambda bench: bench.words(scripts.DOWNGRADE, "a")),
}
"""How a hold ends or makes room: its mode, that of those who wait, and what ends it."""

TAKE = (60_000, "exclusive", WHO, "living", 1, "1", 1, 0)
QUESTIONS: dict[str, Callable[[Bench], object]] = {
    "an acquire": lambda bench: bench.acquire("living"),
    "take": lambda bench: bench.words(scripts.TAKE, "living", *TAKE),
    "begin": lambda bench: bench.words(
        run_once_scripts.BEGIN, "living", 60_000, WHO, "living", 1, 60_000
    ),
}
"""What finds a lock whose lease has ended, and waiters that are dead."""


def require_a_later_token(bench: Bench) -> None:
    _, _, _, held, *_ = bench.inspect()
    claims = dict(zip(held[::3], held[2::3], strict=True))
    assert b"dead" not in claims
    assert int(claims[b"living"].split()[0]) > UNHEARD


@pytest.mark.parametrize(("held", "waited_for", "end"), ENDS.values(), ids=ENDS)
def test_the_next_grant_has_a_token_above_one_that_nobody_heard(
    bench: Bench, held: str, waited_for: str, end: Callable[[Bench], object]
) -> None:
    bench.acquire("a", mode=held)
    queue_up_behind_the_dead(bench, waited_for)
    bench.set_fence(AHEAD)
    end(bench)
    require_a_later_token(bench)


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_who_asks_behind_the_dead_has_a_token_above_theirs(
    bench: Bench, ask: Callable[[Bench], object]
) -> None:
    bench.acquire("a")
    bench.queue_up("dead")
    bench.end_lease()
    bench.set_fence(AHEAD)
    ask(bench)
    require_a_later_token(bench)


def test_so_has_a_waiter_that_asks_again(bench: Bench) -> None:
    bench.acquire("a")
    queue_up_behind_the_dead(bench)
    bench.end_lease()
    bench.set_fence(AHEAD)
    assert "1" == bench.acquire("living", wait=FOR_EVER, listener="living")[0]
    require_a_later_token(bench)


def test_so_has_a_set(bench: Bench) -> None:
    names = (bench.name, "other")
    bench.acquire("a", names=names)
    bench.queue_up("dead", names=names)
    bench.stand("living", names)
    for name in names:
        bench.set_fence(AHEAD, name)
    assert bench.release("a", names=names)
    assert bench.last_fence("other") > UNHEARD
    require_a_later_token(bench)


def test_so_has_who_follows_a_dead_process(bench: Bench) -> None:
    acquire_for_process(bench, "a", bench.channel("nobody"))
    queue_up_behind_the_dead(bench)
    bench.set_fence(AHEAD)
    assert 1 == crash_release(bench)
    require_a_later_token(bench)


def test_so_has_who_stood_behind_a_wait_that_is_cancelled(bench: Bench) -> None:
    bench.acquire("a", mode="shared")
    bench.stand("w")
    queue_up_behind_the_dead(bench, "shared")
    bench.set_fence(AHEAD)
    assert ["1"] == bench.words(scripts.CANCEL, "operator", "w")
    require_a_later_token(bench)
