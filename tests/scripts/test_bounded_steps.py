"""A script works off a bounded part of a crowd, and what is left is done by the next questions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scripts.bench import Bench

pytestmark = pytest.mark.ci

MANY = 1_500
ASK_AGAIN = "-2"


def crowd(
    bench: Bench, number: int, mode: str = "exclusive", *, listener: str = "nobody"
) -> list[str]:
    """Let so many wait, all of whom listen on one channel."""
    tokens = [f"{mode}{place}.1" for place in range(number)]
    for token in tokens:
        bench.acquire(token, mode=mode, wait=-1, listener=listener)
    return tokens


def end_leases(bench: Bench, tokens: list[str]) -> None:
    """Let the leases of these sharers end."""
    bench.client.zadd(bench.keys.sharers, dict.fromkeys(tokens, 1))


def asks_until_granted(bench: Bench, token: str, mode: str = "exclusive") -> int:
    """Let a waiter ask as often as it is told to ask again at once; return how often it took."""
    asked = 1
    while (reply := bench.acquire(token, mode=mode, wait=-1, listener=token))[0] != "1":
        assert int(reply[2]) <= int(reply[1])
        asked += 1
    return asked


def tries_until_granted(bench: Bench, *names: str) -> int:
    """Let one after the other ask that does not wait; return how many asked."""
    asked = 1
    while bench.acquire(f"me{asked}", names=names)[0] == "0":
        asked += 1
    return asked


def test_a_waiter_behind_the_dead_is_asked_to_ask_until_it_has_the_lock(bench: Bench) -> None:
    bench.acquire("a")
    crowd(bench, MANY)
    listener = bench.stand("last")
    assert bench.release("a")
    told = bench.heard(listener)
    assert told
    assert ["last", ASK_AGAIN] == told[:2]
    assert 1 <= asks_until_granted(bench, "last") <= MANY / 150
    assert bench.release("last")
    assert bench.is_idle()


def test_a_waiter_that_asks_behind_the_dead_is_told_to_ask_at_once(bench: Bench) -> None:
    """A waiter that is neither first nor last learns of it from its reply alone."""
    bench.acquire("a")
    crowd(bench, MANY)
    bench.queue_up("b", "dead")
    bench.drop_holder()
    assert 2 <= asks_until_granted(bench, "b") <= MANY / 150


def test_one_that_does_not_wait_gets_the_lock_once_the_dead_are_gone(bench: Bench) -> None:
    bench.acquire("a")
    crowd(bench, MANY)
    bench.release("a")
    asked = tries_until_granted(bench)
    assert 1 < asked <= MANY / 150
    assert f"me{asked}" == bench.holder()


def test_readers_that_wait_are_let_in_by_each_other(bench: Bench) -> None:
    bench.acquire("a")
    listener = bench.listen("readers")
    readers = crowd(bench, 300, "shared", listener="readers")
    bench.release("a")
    told = []
    while heard := bench.heard(listener):
        told.append(heard[1])
        if heard[1] == ASK_AGAIN:
            bench.acquire(heard[0], mode="shared", wait=-1, listener="readers")
    assert sorted(readers) == sorted(bench.holders())
    assert 1 <= told.count(ASK_AGAIN) <= 300 / 20
    assert [] == bench.queued()


def test_waiters_of_two_locks_that_died_are_worked_off(bench: Bench) -> None:
    pair = (bench.name, f"{bench.name}-other")
    bench.acquire("a", names=pair)
    for place in range(300):
        bench.acquire(f"dead{place}.1", wait=-1, names=pair)
    bench.release("a", names=pair)
    asked = tries_until_granted(bench, *pair)
    assert 1 < asked <= 300 / 40
    bench.release(f"me{asked}", names=pair)
    assert bench.is_idle(*pair)


def a_pair_behind_places_that_were_left(bench: Bench, left: int, *before: str) -> Any:
    """Let a waiter want this lock and another, where so many before it have left their places.

    Return what it listens to. Of those `left`, some 1,000 are passed over at once.
    """
    other = f"{bench.name}-other"
    bench.acquire("a")
    bench.acquire("b", names=(other,))
    gone = [f"gone{place}.1" for place in range(left)]
    for token in ("first", *gone):
        bench.acquire(token, wait=-1, names=(other,))
    for token in before:
        bench.stand(token, names=(other,))
    listener = bench.stand("pair", names=(bench.name, other))
    for token in (*gone, "first"):
        bench.give_up(token, names=(other,))
    bench.drop_holder(other)
    return listener


def test_a_waiter_of_two_locks_asks_again_where_too_many_have_left_one_of_them(
    bench: Bench,
) -> None:
    listener = a_pair_behind_places_that_were_left(bench, 2 * MANY)
    bench.release("a")
    told = bench.heard(listener)
    assert told
    assert ["pair", ASK_AGAIN] == told[:2]
    pair = (bench.name, f"{bench.name}-other")
    asked = 1
    while bench.acquire("pair", wait=-1, listener="pair", names=pair)[0] != "1":
        asked += 1
    assert asked <= MANY / 150


def test_a_waiter_of_two_locks_is_not_asked_where_another_stands_behind_those_who_left(
    bench: Bench,
) -> None:
    listener = a_pair_behind_places_that_were_left(bench, MANY, "before")
    bench.release("a")
    assert bench.heard(listener) is None


def test_places_that_many_have_left_are_passed_over(bench: Bench) -> None:
    bench.acquire("a")
    bench.queue_up("first")
    gone = crowd(bench, MANY * 2)
    listener = bench.stand("last")
    for token in gone:
        bench.give_up(token)
    bench.give_up("first")
    bench.release("a")
    told = bench.heard(listener)
    assert told
    if told[1] == ASK_AGAIN:
        asks_until_granted(bench, "last")
    assert "last" == bench.holder()


@pytest.mark.parametrize("mode", ["exclusive", "shared", "permit:1"])
def test_leases_that_have_ended_keep_nobody_out(bench: Bench, mode: str) -> None:
    readers = [f"reader{place}" for place in range(350)]
    for reader in readers:
        bench.acquire(reader, mode="shared" if mode == "exclusive" else mode.replace(":1", ":350"))
    end_leases(bench, readers)
    assert "1" == bench.acquire("me", mode=mode)[0]
    assert ["me"] == bench.holders()
    assert "0" == bench.acquire("her", mode="permit:1" if mode == "permit:1" else "exclusive")[0]


def test_a_hold_that_has_ended_never_comes_back(bench: Bench) -> None:
    """Not even if it has not been forgotten yet: another may have got its permit."""
    mode = "permit:350"
    holders = [f"holder{place:03}" for place in range(350)]
    for holder in holders:
        bench.acquire(holder, mode=mode)
    end_leases(bench, holders)
    bench.acquire("me", mode=mode)
    late = holders[-1]
    assert bench.client.zscore(bench.keys.sharers, late)
    assert ["0"] == bench.extend(late, 60_000)
    assert not bench.release(late)
    assert ["me"] == bench.holders()


def test_permits_are_counted_beside_those_that_have_ended(bench: Bench) -> None:
    holders = [f"holder{place:03}" for place in range(350)]
    for holder in holders:
        bench.acquire(holder, mode="permit:350")
    end_leases(bench, holders[:-2])
    # One of those whose lease has ended comes again, with its old token.
    assert "1" == bench.acquire(holders[-3], mode="permit:4", wait=-1)[0]
    assert "1" == bench.acquire("fourth", mode="permit:4")[0]
    assert "0" == bench.acquire("fifth", mode="permit:4")[0]
    assert 4 == len(bench.holders())
    for holder in (*holders[-3:], "fourth"):
        assert bench.release(holder)
    assert bench.is_idle()


def test_names_whose_time_is_over_leave_the_index_by_and_by(bench: Bench) -> None:
    bench.client.zadd(bench.index_key, {f"over{place}": 1 for place in range(350)})
    bench.client.pexpire(bench.index_key, 1000)
    left = []
    for place in range(6):
        bench.acquire(f"me{place}", lease=60_000 + place)
        bench.release(f"me{place}")
        left.append(bench.client.zcard(bench.index_key) - 1)
    assert [250, 150, 50, 0, 0, 0] == left


def heard_by(bench: Bench, listener: object) -> list[list[str]]:
    """Everything that was said on a channel."""
    found = []
    while message := bench.heard(listener):
        found.append(message)
    return found


@pytest.mark.parametrize("wanted", ["all", "one", "one of each"])
@pytest.mark.parametrize("size", [5, 40, 300])
def test_a_set_that_waits_for_one_more_lock_makes_nobody_ask_at_once(
    bench: Bench, size: int, wanted: str
) -> None:
    """Each of its free locks is looked at, and nothing is done there.

    That is no work that is left.
    """
    bench.acquire("holder", names=["other"])
    rows = [[f"{word}:{number:03}" for number in range(size)] for word in ("row", "line")]
    listeners = []
    for place, its in enumerate(rows):
        listeners.append(bench.listen(f"set{place}"))
        bench.acquire(f"set{place}", wait=-1, listener=f"set{place}", names=["other", *its])
    names = {"all": rows[0], "one": rows[0][3:4], "one of each": [rows[0][3], rows[1][3]]}[wanted]
    bench.listen("second")
    for _ in range(2):
        reply = bench.acquire("second", wait=-1, listener="second", names=names)
        assert "0" == reply[0]
        assert int(reply[2].split("/")[0]) - int(reply[1]) >= 500
    assert [] == heard_by(bench, listeners[0]) + heard_by(bench, listeners[1])


def test_a_set_with_one_lock_that_is_held_works_off_the_line_of_another(bench: Bench) -> None:
    """The one that was told to ask again is the last in line.

    Its question reaches the living one before it.
    """
    bench.acquire("holder", names=["a"])
    bench.acquire("b", names=["b"])
    for number in range(250):
        bench.acquire(f"dead{number}.1", wait=-1, listener="nobody", names=["b"])
    living = bench.listen("living")
    bench.acquire("living", wait=-1, listener="living", names=["b"])
    last = bench.listen("last")
    bench.acquire("last", wait=-1, listener="last", names=["a", "b"])
    bench.release("b", names=["b"])
    assert ["last", ASK_AGAIN] == heard_by(bench, last)[0][:2]
    bench.acquire("last", wait=-1, listener="last", names=["a", "b"])
    (told,) = heard_by(bench, living)
    assert ASK_AGAIN != told[1], "it has the lock"


def test_a_set_whose_locks_all_have_waiters_lets_some_in_and_asks_the_others(bench: Bench) -> None:
    names = [f"row:{place}" for place in range(400)]
    bench.acquire("all.1", names=names)
    listener = bench.listen("crowd")
    wants = {f"waiter{place}.1": [name] for place, name in enumerate(names)}
    for token, its in wants.items():
        bench.acquire(token, wait=-1, listener="crowd", names=its)
    assert bench.release("all.1", names=names)
    told = heard_by(bench, listener)
    assert sorted(wants) == sorted(token for token, *_ in told)
    asked = [token for token, fence, *_ in told if fence == ASK_AGAIN]
    assert len(names) - 50 <= len(asked) < len(names)
    for token in asked:
        assert "1" == bench.acquire(token, wait=-1, listener="crowd", names=wants[token])[0]


def test_a_dead_last_waiter_does_not_hide_the_living_before_it(bench: Bench) -> None:
    bench.acquire("a")
    crowd(bench, 250)
    listener = bench.stand("living")
    for number in range(5):
        bench.acquire(f"late{number}.1", wait=-1, listener="nobody")
    bench.release("a")
    assert ["living", ASK_AGAIN] == heard_by(bench, listener)[0][:2]


def test_ended_holds_of_another_mode_keep_nobody_waiting(bench: Bench) -> None:
    """The counts of modes have them until they are forgotten.

    So the asker is told to ask again at once.
    """
    ended = [f"reader{number}.1" for number in range(MANY)]
    for token in ended:
        bench.acquire(token, mode="shared")
    end_leases(bench, ended)
    asked = 0
    for token in ("first", "second"):
        bench.listen(token)
        asked += asks_until_granted(bench, token, "intent:no_key")
    assert asked <= MANY / 100 + 4
