"""While the set of sharers is missing, no script forgets them: the caller asks again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from redis.exceptions import ResponseError

from redis_locks import scripts
from redis_locks.run_once import scripts as run_once_scripts
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.support import stored

REFUSED = r"TRYAGAIN|sharers are not on"


@contextmanager
def missing(bench: Bench) -> Iterator[None]:
    """Let the set of sharers be somewhere else, as a part of a slot that moves."""
    elsewhere = f"{bench.prefix}:elsewhere"
    bench.client.rename(bench.keys.sharers, elsewhere)
    yield
    bench.client.rename(elsewhere, bench.keys.sharers)


CASES: dict[str, Callable[[Bench], object]] = {
    "extend": lambda bench: bench.words(scripts.EXTEND, "a", 90_000),
    "confirm": lambda bench: bench.words(scripts.CONFIRM, "a", 90_000),
    "an acquire": lambda bench: bench.acquire("n"),
    "an acquire that may wait": lambda bench: bench.acquire("n", wait=FOR_EVER),
    "an acquire that shares": lambda bench: bench.acquire("n", mode="shared"),
    "an acquire of a permit": lambda bench: bench.acquire("n", mode="permit:5"),
    "an acquire of a row": lambda bench: bench.acquire("n", mode="intent:1:shared"),
    "a sharer that asks again": lambda bench: bench.acquire("a", mode="shared"),
    "a waiter that asks again": lambda bench: bench.acquire("w", wait=FOR_EVER, listener="w"),
    "an upgrade": lambda bench: bench.acquire("u", mode="upgrade:a"),
    "release": lambda bench: bench.release("a"),
    "commit": lambda bench: bench.words(scripts.COMMIT, "a", 3, "SET", f"{bench.prefix}:x", "1"),
    "give_up": lambda bench: bench.give_up("a", mode="shared"),
    "adopt": lambda bench: bench.words(scripts.ADOPT, "a", "heir", 60_000, WHO, 0),
    "take": lambda bench: bench.words(
        scripts.TAKE, "n", 60_000, "shared", WHO, "nobody", 1, "1", 1, 0
    ),
    "fence": lambda bench: bench.words(scripts.FENCE, "a", 60_000, 1),
    "downgrade": lambda bench: bench.words(scripts.DOWNGRADE, "a"),
    "force_release": lambda bench: bench.words(scripts.FORCE_RELEASE, "operator", "a"),
    "begin": lambda bench: bench.words(run_once_scripts.BEGIN, "n", 60_000, WHO, "n", 1, 60_000),
    "inspect": lambda bench: bench.inspect(),
}


def shared_by_two(bench: Bench, mode: str) -> None:
    bench.acquire("a", mode=mode, lease=30_000)
    bench.acquire("b", mode=mode)
    bench.stand("w")


@pytest.mark.parametrize("mode", ["shared", "permit:2"])
@pytest.mark.parametrize("case", CASES)
def test_who_shares_is_not_forgotten_while_their_set_is_missing(
    bench: Bench, case: str, mode: str
) -> None:
    shared_by_two(bench, mode)
    with missing(bench), pytest.raises(ResponseError, match=REFUSED):
        CASES[case](bench)
    assert {"a", "b"} == set(bench.holders())
    assert "w" == bench.queued()[0]


@pytest.mark.parametrize("case", CASES)
def test_once_the_last_lease_has_ended_a_missing_set_keeps_nobody_out(
    bench: Bench, case: str
) -> None:
    shared_by_two(bench, "shared")
    stored.lose_sharers(bench.client, bench.keys.lock, bench.keys.sharers)
    CASES[case](bench)
    assert "b" not in bench.holders()


def test_a_cancelled_wait_ends_though_the_set_of_sharers_is_missing(bench: Bench) -> None:
    shared_by_two(bench, "shared")
    with missing(bench), pytest.raises(ResponseError, match=REFUSED):
        bench.words(scripts.CANCEL, "operator", "w")
    assert ["1"] == bench.words(scripts.CANCEL, "operator", "w")
    assert ({"a", "b"}, []) == (set(bench.holders()), bench.queued())
