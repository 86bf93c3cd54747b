"""Circles through places in queues, and who in them answers; and what a long queue costs."""

from __future__ import annotations

import json
from itertools import permutations
from time import sleep
from typing import Any

import pytest

from redis_locks import scripts
from tests.scripts.bench import WHO, Bench
from tests.scripts.test_detect import LOOK, X, Y, detect

WANTED = {"A.2": (X, "exclusive"), "B.2": (X, "shared"), "C.2": (Y, "exclusive")}


def look(bench: Bench, token: str) -> str:
    names, mode = WANTED[token]
    return detect(bench, token, names, mode=mode)


def stand_in_order(bench: Bench, *tokens: str) -> dict[str, Any]:
    """C shares x, and B has y; then these begin to wait. Return what each of them listens to."""
    bench.acquire("C.1", names=X, mode="shared")
    bench.acquire("B.1", names=Y)
    heard = {}
    for token in tokens:
        heard[token] = bench.stand(token, *WANTED[token])
        sleep(0.006)  # of a younger wait nothing is noted: its grant would not forget that
    return heard


def told_to_look(bench: Bench, heard: dict[str, Any]) -> set[str]:
    """Return who heard that it is to look."""
    messages = {token: bench.heard(subscription) for token, subscription in heard.items()}
    told = {token: message for token, message in messages.items() if message}
    assert all(message[:2] == [token, "0"] for token, message in told.items())
    return set(told)


@pytest.mark.parametrize("looks", list(permutations(["B.2", "C.2"])), ids="".join)
@pytest.mark.parametrize("order", ["ABC", "ACB", "CAB"])
def test_a_place_alone_can_close_a_circle_whoever_looks_last(
    bench: Bench, order: str, looks: tuple[str, ...]
) -> None:
    """C shares x, and B could; but A, who holds nothing, stands between them. C waits for B's y.

    A does not look by itself: it is told when it is in a circle, as is who came last.
    """
    heard = stand_in_order(bench, *(f"{letter}.2" for letter in order))
    youngest = f"{order[-1]}.2"
    first, last = looks
    assert "0" == look(bench, first)
    assert not told_to_look(bench, heard)
    assert "0" == look(bench, last)
    assert {"A.2", youngest} - {last} == told_to_look(bench, heard) - {last}
    assert "0" == look(bench, "A.2")
    assert {youngest} == told_to_look(bench, heard)
    assert "1" == look(bench, youngest)


@pytest.mark.parametrize("size", [1, 2])
def test_a_dead_waiters_place_closes_no_circle(bench: Bench, size: int) -> None:
    """A, who would have to look, is dead.

    B waits for nothing but A's place, and gets the lock in its stead.
    """
    bench.acquire("C.1", names=X, mode="shared")
    bench.acquire("B.1", names=Y)
    dying = bench.stand("A.2", (*X, "z")[:size])
    heard = {token: bench.stand(token, *WANTED[token]) for token in ("B.2", "C.2")}
    bench.die(dying)
    assert "0" == look(bench, "C.2")
    assert "0" == look(bench, "B.2")
    message = bench.heard(heard["B.2"])
    assert message is not None
    assert "B.2" == message[0]
    assert int(message[1]) > 0
    assert {"B.2", "C.1"} == set(bench.holders("x"))
    assert "0" == look(bench, "C.2")
    assert bench.heard(heard["C.2"]) is None


def test_a_dead_waiter_that_looked_closes_no_circle(bench: Bench) -> None:
    """A, dead, still has x, which B waits for: until A's lease ends.

    That A waited for B's y is over.
    """
    bench.acquire("A.1", names=X)
    bench.acquire("B.1", names=Y)
    dying = bench.stand("A.2", Y)
    bench.stand("B.2", X)
    assert "0" == detect(bench, "A.2", Y)
    bench.die(dying)
    assert "0" == detect(bench, "B.2", X)


def test_who_hears_but_does_not_look_is_passed_over(bench: Bench) -> None:
    """A, who came last, is stopped, and it alone would do.

    C, who came before it, is ended in its stead.
    """
    heard = stand_in_order(bench, "C.2", "A.2", "B.2")
    assert "0" == look(bench, "B.2")
    assert "0" == look(bench, "C.2")
    assert {"A.2", "B.2"} == told_to_look(bench, heard)
    assert "0" == look(bench, "C.2")  # they may yet
    assert {"A.2", "B.2"} == told_to_look(bench, heard)
    age_what_was_told(bench)
    where = [wait["where"] for wait in circle(bench, "C.2", Y)]
    assert ["C.2:1", "bank.py:7", "an unknown line"] == where
    assert "0" == look(bench, "B.2")


@pytest.mark.parametrize("looks", ["B.2", "C.2"])
def test_who_dies_after_it_was_told_to_look_is_not_passed_over(bench: Bench, looks: str) -> None:
    """Without A, B shares x with C at once: nobody is to be ended."""
    heard = stand_in_order(bench, "A.2", "B.2", "C.2")
    assert "0" == look(bench, "B.2")
    assert "0" == look(bench, "C.2")
    bench.die(heard["A.2"])
    age_what_was_told(bench)
    assert "0" == look(bench, looks)
    assert ["B.2", "C.1"] == sorted(bench.holders("x"))


def age_what_was_told(bench: Bench) -> None:
    """Have it be told more than a second ago."""
    (key,) = (key for key in bench.all_keys() if key.endswith(b":waits"))
    for session, noted in bench.client.hgetall(key).items():
        wait = json.loads(noted)
        if "told" in wait:
            bench.client.hset(key, session, json.dumps(wait | {"told": wait["told"] - 1001}))


def test_who_looks_when_it_is_told_is_not_passed_over_later(bench: Bench) -> None:
    stand_in_order(bench, "C.2", "A.2", "B.2")
    assert "0" == look(bench, "B.2")
    assert "0" == look(bench, "C.2")
    assert "0" == look(bench, "A.2")  # as B came later
    age_what_was_told(bench)
    assert "0" == look(bench, "C.2")
    assert "1" == look(bench, "A.2")


def test_a_claim_that_somebody_deleted_ends_the_place_and_nothing_else(bench: Bench) -> None:
    bench.acquire("C.1", names=X, mode="shared")
    bench.acquire("B.1", names=Y)
    bench.stand("A.2", (*X, "z"))
    heard = {token: bench.stand(token, *WANTED[token]) for token in ("B.2", "C.2")}
    bench.drop_line("z")
    assert "0" == look(bench, "C.2")
    assert "0" == look(bench, "B.2")
    message = bench.heard(heard["B.2"])
    assert message is not None
    assert ["B.2", "C.1"] == sorted(bench.holders("x"))


def test_what_a_set_waits_for_is_known_by_its_claim(bench: Bench) -> None:
    """A waits for x and z, and holds neither.

    B stands behind it at z, and has y, for which C waits with x.
    """
    wants = (*X, "z")
    bench.acquire("C.1", names=X)
    bench.acquire("B.1", names=Y)
    heard = {"A.2": bench.stand("A.2", wants), "B.2": bench.stand("B.2", ("z",))}
    sleep(0.002)
    heard["C.2"] = bench.stand("C.2", Y)
    assert "0" == detect(bench, "B.2", ("z",))
    assert "0" == detect(bench, "C.2", Y)
    assert {"A.2"} == told_to_look(bench, heard)
    assert "0" == detect(bench, "A.2", wants)
    assert {"C.2"} == told_to_look(bench, heard)
    assert [[*Y], ["z"], [*wants]] == [wait["names"] for wait in circle(bench, "C.2", Y)]


def test_an_upgrade_is_in_the_way_of_who_could_share(bench: Bench) -> None:
    for token in ("A.1", "B.1"):
        bench.acquire(token, names=X, mode="shared")
    bench.acquire("C.1", names=Y)
    bench.stand("A.2", X, "upgrade:A.1")
    assert "0" == detect(bench, "A.2", X, mode="upgrade:A.1")
    bench.stand("B.2", Y)
    assert "0" == detect(bench, "B.2", Y)
    bench.stand("C.2", X, "shared")
    assert "1" == detect(bench, "C.2", X, mode="shared")


def test_a_set_stands_in_the_way_of_those_behind_it_at_each_of_its_locks(bench: Bench) -> None:
    """A waits for x and y, and holds neither.

    Behind it at y stands B, for whose z C waits with x.
    """
    bench.acquire("C.1", names=X)
    bench.acquire("B.1", names=("z",))
    bench.stand("A.1", X + Y)
    bench.stand("B.2", Y)
    assert "0" == detect(bench, "B.2", Y)
    bench.stand("C.2", ("z",))
    assert "0" == detect(bench, "C.2", ("z",))
    assert "0" == detect(bench, "A.1", X + Y)  # as it was told
    assert "1" == detect(bench, "C.2", ("z",))


def circle(bench: Bench, token: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    argv = (token, "exclusive", WHO, f"{token}:1", "", *LOOK)
    words = bench.words(scripts.DETECT, *argv, names=names)
    assert "1" == words[0]
    found: list[dict[str, Any]] = json.loads(" ".join(words[1:]))
    return found


def test_who_only_stands_between_two_of_a_circle_is_not_part_of_it(bench: Bench) -> None:
    """A's place is in the way of D's; what stands between them is not needed for that."""
    bench.acquire("C.1", names=X, mode="shared")
    bench.acquire("D.1", names=Y)
    heard = {}
    for token, mode in (("A.1", "exclusive"), ("B.1", "shared"), ("D.2", "shared")):
        heard[token] = bench.stand(token, X, mode)
    assert "0" == detect(bench, "D.2", X, mode="shared")
    bench.stand("C.2", Y)
    assert "0" == detect(bench, "C.2", Y)
    assert {"A.1"} == told_to_look(bench, heard)
    assert "0" == detect(bench, "A.1", X)
    where = [wait["where"] for wait in circle(bench, "C.2", Y)]
    assert ["C.2:1", "bank.py:7", "bank.py:7"] == where
