"""Circles through places in queues, permits and upgrades; and what a long queue costs."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from redis_locks import scripts
from redis_locks.keys import lock_keys
from tests.scripts.bench import WHO, Bench
from tests.scripts.test_detect import X, Y, detect

S = ("s",)


def stand(bench: Bench, token: str, names: tuple[str, ...], mode: str = "exclusive") -> object:
    heard = bench.listen(token)
    bench.queue_up(token, names=names, mode=mode)
    return heard


WANTED = {"A.2": (X, "exclusive"), "B.2": (X, "shared"), "C.2": (Y, "exclusive")}


@pytest.mark.parametrize("order", list(permutations(WANTED)), ids="".join)
def test_a_place_alone_can_close_a_circle_whoever_looks_last(
    bench: Bench, order: tuple[str, ...]
) -> None:
    """C shares x, and B could; but A, who holds nothing, stands between them. C waits for B's y."""
    bench.acquire("C.1", names=X, mode="shared")
    bench.acquire("B.1", names=Y)
    heard = {token: stand(bench, token, *wanted) for token, wanted in WANTED.items()}
    *early, last = order
    for token in early:
        assert "0" == look(bench, token)
    found = look(bench, last)
    if last == "C.2":
        assert "1" == found
        return
    assert "0" == found
    message = bench.heard(heard["C.2"])  # it is the youngest, and told to look
    assert message is not None
    assert ["C.2", "0"] == message[:2]
    assert "1" == look(bench, "C.2")


def look(bench: Bench, token: str) -> str:
    names, mode = WANTED[token]
    return detect(bench, token, names, mode=mode, look=token[0] != "A")


def permits(bench: Bench, *tokens: str, capacity: int) -> None:
    for token in tokens:
        assert "1" == bench.acquire(token, names=S, mode=f"permit:{capacity}")[0]


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_wait_for_a_permit_is_a_dead_end_when_all_who_have_one_are_stuck(
    bench: Bench, capacity: int
) -> None:
    """A has x and wants a permit; one after the other all who have one come to want x."""
    bench.acquire("A.1", names=X)
    holders = [f"{letter}.1" for letter in "PQR"[:capacity]]
    permits(bench, *holders, capacity=capacity)
    mode = f"permit:{capacity}"
    stand(bench, "A.2", S, mode)
    assert "0" == detect(bench, "A.2", S, mode=mode)
    for holder in holders:
        waiter = holder.replace("1", "2")
        stand(bench, waiter, X)
        expected = "1" if holder == holders[-1] else "0"
        assert expected == detect(bench, waiter, X)


@pytest.mark.parametrize(("theirs", "wanted"), [(1, 2), (2, 1)])
def test_the_smallest_capacity_of_the_stuck_and_the_waiter_counts(
    bench: Bench, theirs: int, wanted: int
) -> None:
    """P's permit is the only one that is out, and one of the two allows no second one."""
    bench.acquire("A.1", names=X)
    permits(bench, "P.1", capacity=theirs)
    stand(bench, "A.2", S, f"permit:{wanted}")
    assert "0" == detect(bench, "A.2", S, mode=f"permit:{wanted}")
    stand(bench, "P.2", X)
    assert "1" == detect(bench, "P.2", X)


def test_who_waits_for_a_permit_that_it_has_itself_waits_for_ever(bench: Bench) -> None:
    permits(bench, "A.1", capacity=1)
    stand(bench, "A.2", S, "permit:1")
    assert "1" == detect(bench, "A.2", S, mode="permit:1")


def test_permits_are_in_the_way_of_who_wants_the_lock_alone(bench: Bench) -> None:
    bench.acquire("A.1", names=X)
    permits(bench, "P.1", "Q.1", capacity=3)
    stand(bench, "P.2", X)
    assert "0" == detect(bench, "P.2", X)
    stand(bench, "A.2", S)
    assert "1" == detect(bench, "A.2", S)


def test_a_permit_to_spare_ends_a_circle_of_those_before_it_in_queue_too(bench: Bench) -> None:
    """A stands behind W for a permit that Q gives back some day, though P waits for A."""
    bench.acquire("A.1", names=X)
    permits(bench, "P.1", "Q.1", capacity=2)
    stand(bench, "W.1", S, "permit:2")
    assert "0" == detect(bench, "W.1", S, mode="permit:2", look=False)
    stand(bench, "P.2", X)
    assert "0" == detect(bench, "P.2", X)
    stand(bench, "A.2", S, "permit:2")
    assert "0" == detect(bench, "A.2", S, mode="permit:2")
    bench.release("Q.1", names=S)  # W has its permit
    assert "0" == detect(bench, "A.2", S, mode="permit:2")
    stand(bench, "W.2", X)
    assert "1" == detect(bench, "W.2", X)


def test_an_upgrade_is_in_the_way_of_who_could_share(bench: Bench) -> None:
    for token in ("A.1", "B.1"):
        bench.acquire(token, names=X, mode="shared")
    bench.acquire("C.1", names=Y)
    stand(bench, "A.2", X, "upgrade:A.1")
    assert "0" == detect(bench, "A.2", X, mode="upgrade:A.1")
    stand(bench, "B.2", Y)
    assert "0" == detect(bench, "B.2", Y)
    stand(bench, "C.2", X, "shared")
    assert "1" == detect(bench, "C.2", X, mode="shared")


def test_a_set_stands_in_the_way_of_those_behind_it_at_each_of_its_locks(bench: Bench) -> None:
    """A waits for x and y, and holds neither; behind it at y stands B, for whose z C waits with x."""
    bench.acquire("C.1", names=X)
    bench.acquire("B.1", names=("z",))
    stand(bench, "A.1", X + Y)
    assert "0" == detect(bench, "A.1", X + Y, look=False)
    stand(bench, "B.2", Y)
    assert "0" == detect(bench, "B.2", Y)
    stand(bench, "C.2", ("z",))
    assert "1" == detect(bench, "C.2", ("z",))


def circle(bench: Bench, token: str, names: tuple[str, ...]) -> list[str]:
    words = bench.words(scripts.DETECT, token, "exclusive", WHO, f"{token}:1", "", 1, names=names)
    assert "1" == words[0]
    return [wait["where"] for wait in json.loads(" ".join(words[1:]))]


def test_who_only_stands_between_two_of_a_circle_is_not_part_of_it(bench: Bench) -> None:
    """A's place is in the way of D's; what stands between them is not needed for that."""
    bench.acquire("C.1", names=X, mode="shared")
    bench.acquire("D.1", names=Y)
    for token, mode in (("A.1", "exclusive"), ("B.1", "shared")):
        stand(bench, token, X, mode)
        assert "0" == detect(bench, token, X, mode=mode, look=False)
    stand(bench, "D.2", X, "shared")
    assert "0" == detect(bench, "D.2", X, mode="shared")
    stand(bench, "C.2", Y)
    assert ["C.2:1", "bank.py:7", "bank.py:7"] == circle(bench, "C.2", Y)


@pytest.mark.parametrize("holds", [True, False])
def test_a_look_costs_no_more_than_the_queue_is_long(bench: Bench, *, holds: bool) -> None:
    """Nothing if the caller holds nothing and has looked before: hundreds may wait for one lock."""
    bench.acquire("H.1", names=X)
    tokens = [f"W{number}.1" for number in range(60)]
    bench.queue_up(*tokens, names=X)
    for token in tokens:
        assert "0" == detect(bench, token, X, look=holds)
    before = commands(bench)
    assert "0" == detect(bench, tokens[-1], X, look=holds)
    assert commands(bench) - before < (len(tokens) * 2 if holds else 20)


def test_the_first_looks_of_a_crowd_cost_nothing_for_who_stands_behind(bench: Bench) -> None:
    """Of thousands, each would look at all others."""
    bench.acquire("H.1", names=X)
    bench.acquire("A.1", names=Y)
    bench.acquire("Z.1", names=("z",))
    bench.queue_up("A.2", names=("z",))
    assert "0" == detect(bench, "A.2", ("z",))  # that one waits elsewhere
    tokens = [f"W{number}.1" for number in range(60)]
    bench.queue_up(*tokens, names=X)
    before = commands(bench)
    for token in tokens:
        assert "0" == detect(bench, token, X, look=False)
    assert commands(bench) - before <= len(tokens) * 4


def test_who_could_close_a_circle_is_remembered_for_as_long_as_it_may_stand_there(
    bench: Bench,
) -> None:
    bench.acquire("H.1", names=X)
    keys = {name: lock_keys(bench.prefix, 0, name).looked for name in (*X, *Y)}
    for who, names, look in (("A.1", X, False), ("B.1", X, True), ("C.1", X + Y, False)):
        bench.queue_up(who, names=names)
        bench.client.delete(*keys.values())
        assert "0" == detect(bench, who, names, look=look)
        for name in names:
            left = bench.client.pttl(keys[name])
            assert 5000 < left <= 6000 if who != "A.1" else left == -2


def commands(bench: Bench) -> int:
    stats = bench.client.info("commandstats")
    words = ("hget", "lpos", "hset", "get", "hexists", "lrange")
    return sum(stats.get(f"cmdstat_{word}", {}).get("calls", 0) for word in words)
