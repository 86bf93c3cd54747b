"""What deadlock detection costs where many hold and wait; and it finds deadlocks among them.

Costs are counted in commands that the scripts run, which do not depend on the machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from redis_locks import scripts
from tests.scripts.bench import FOR_EVER, WHO, Bench
from tests.support import stored

pytestmark = pytest.mark.ci

LISTENER = "crowd"
"""The connection on which all of the crowd hear."""

MOST_COMMANDS = 800
"""In one script, whatever stands in line."""


class Look(NamedTuple):
    """What a look found, part by part, and what each part cost."""

    kind: str
    pause_ms: int
    costs: list[int]
    circle: list[dict[str, Any]]


class Crowd:
    """Sessions that each have a lock of their own, and wait for others."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.wants: dict[str, tuple[str, ...]] = {}
        self.has: dict[str, tuple[str, ...]] = {}
        self.modes: dict[str, str] = {}
        bench.listen(LISTENER)

    def _acquire(self, asked: Iterable[tuple[str, Sequence[str], int]], mode: str) -> None:
        client = self.bench.client
        with client.pipeline(transaction=False) as self.bench.client:
            for token, names, wait in asked:
                argv = (600_000, mode, WHO, LISTENER, wait, 1)
                self.bench.run(scripts.ACQUIRE, token, *argv, names=names)
            self.bench.client.execute()
        self.bench.client = client

    def hold(self, has: dict[str, tuple[str, ...]], mode: str = "exclusive") -> None:
        self.has |= has
        self._acquire(((f"{who}.1", names, 0) for who, names in has.items()), mode)

    def wait(self, wants: dict[str, tuple[str, ...]], mode: str = "exclusive") -> None:
        self.wants |= wants
        self.modes |= dict.fromkeys(wants, mode)
        self._acquire(((f"{who}.2", names, FOR_EVER) for who, names in wants.items()), mode)

    def _commands(self) -> int:
        stats = self.bench.client.info("commandstats")
        own = {"cmdstat_info", "cmdstat_eval", "cmdstat_evalsha", "cmdstat_del"}
        return sum(each["calls"] for word, each in stats.items() if word not in own)

    def look(self, who: str, why: str = "first") -> Look:
        """Look as `who` until the look has come to its end, or has to wait."""
        keys = [f"{self.bench.prefix}{{0}}:lock:{name}" for name in self.has.get(who, ())]
        costs, rest = [], ""
        while True:
            argv = (self.modes[who], WHO, f"{who}.py:1", "", json.dumps(keys), why, rest)
            before = self._commands()
            reply = self.bench.run(scripts.DETECT, f"{who}.2", *argv, names=self.wants[who])
            costs.append(self._commands() - before)
            _, kind, said = reply.decode().split(" ", 2)
            if kind == "1":
                return Look(kind, 0, costs, json.loads(said))
            pause, _, left = said.partition(" ")
            if kind == "0" or left == rest:
                return Look(kind, int(pause), costs, [])
            rest = left

    def look_all(self, whom: Iterable[str], why: str = "first") -> list[Look]:
        return [self.look(who, why) for who in whom]

    def taken(self) -> int:
        """How many steps looks had taken when the last one ended."""
        return int(self.bench.client.get(f"{self.bench.prefix}{{0}}:looks").split()[0])

    def pause(self) -> None:
        """Let the looks' part of the server's time be there again, as after a while."""
        self.bench.client.delete(f"{self.bench.prefix}{{0}}:looks")


@pytest.fixture
def crowd(bench: Bench) -> Crowd:
    return Crowd(bench)


def names(count: int) -> list[str]:
    return [f"S{i}" for i in range(count)]


def hot(crowd: Crowd, count: int) -> list[str]:
    """Each has a lock that nobody wants, and waits for the hot one."""
    whom = names(count)
    crowd.hold({"H": ("hot",)} | {who: (f"own-{who}",) for who in whom})
    crowd.wait(dict.fromkeys(whom, ("hot",)))
    return whom


def chain(crowd: Crowd, count: int, order: str = "random") -> list[str]:
    """Each has what the one before it wants; nobody waits in the last one's way."""
    crowd.hold({f"S{i}": (f"c{i}",) for i in range(count + 1)})
    whom = list(range(count))
    if order == "last first":
        whom.reverse()
    elif order == "random":
        random.Random(1).shuffle(whom)
    crowd.wait({f"S{i}": (f"c{i + 1}",) for i in whom})
    return [f"S{i}" for i in whom]


@pytest.mark.parametrize("why", ["first", "again"])
def test_a_look_costs_the_same_however_many_wait_if_nobody_waits_for_what_the_caller_has(
    crowd: Crowd, why: str
) -> None:
    looks = crowd.look_all(hot(crowd, 150), why)
    assert {"0"} == {look.kind for look in looks}
    assert max(cost for look in looks for cost in look.costs) <= 15


def test_a_look_passes_over_a_bounded_part_of_what_others_have_left(
    crowd: Crowd, bench: Bench
) -> None:
    crowd.hold({"me": ("mine",), "other": ("hot",)})
    crowd.wait({"first": ("mine",), "last": ("mine",), "me": ("hot",)})
    stored.move_last(bench.client, bench.lock_key("mine"), by=1_000_000)
    look = crowd.look("me")
    assert "0" == look.kind
    assert max(look.costs) < MOST_COMMANDS


def test_a_look_of_who_holds_many_locks_that_many_want_reads_a_bounded_part(crowd: Crowd) -> None:
    names = tuple(f"mine{place}" for place in range(100))
    crowd.hold({"me": names, "other": ("hot",)})
    crowd.wait({f"{name}-{place}": (name,) for name in names for place in range(60)})
    crowd.wait({"me": ("hot",)})
    assert max(crowd.look("me").costs) < 2 * MOST_COMMANDS


def test_looks_are_the_rarer_the_more_wait(crowd: Crowd) -> None:
    pauses = [look.pause_ms for look in crowd.look_all(hot(crowd, 150))]
    assert 2000 == pauses[0] == pauses[99]
    assert 3000 == pauses[149]


@pytest.mark.parametrize("order", ["first first", "last first", "random"])
def test_the_first_looks_of_a_chain_cost_a_few_steps_each(crowd: Crowd, order: str) -> None:
    looks = crowd.look_all(chain(crowd, 200, order))
    assert "1" not in {look.kind for look in looks}
    costs = [cost for look in looks for cost in look.costs]
    assert sum(costs) / len(looks) < 40
    assert max(costs) < MOST_COMMANDS


def test_a_look_takes_its_steps_from_what_all_looks_share(crowd: Crowd) -> None:
    crowd.look_all(chain(crowd, 25, "last first"))
    crowd.pause()
    few = crowd.look("S20", "again")
    assert crowd.taken() < 20
    crowd.pause()
    many = crowd.look("S1", "again")
    assert 40 < crowd.taken() < 60
    assert ["0", "0"] == [few.kind, many.kind]
    assert len(few.costs) == len(many.costs) == 1
    assert few.costs < many.costs


@pytest.mark.parametrize("size", [150, 1000])
def test_a_long_circle_is_found_step_by_step(crowd: Crowd, size: int) -> None:
    crowd.look_all(chain(crowd, size, "last first"))
    crowd.wait({f"S{size}": ("c0",)})
    found = crowd.look(f"S{size}")
    assert "1" == found.kind
    assert size + 1 == len(found.circle)
    *parts, _ = (
        found.costs
    )  # the last one walks the whole circle once more, and only that may take so long
    assert size // 60 <= len(parts)
    assert max(parts) < MOST_COMMANDS


def test_a_deadlock_behind_many_waiters_is_found_at_the_first_look(crowd: Crowd) -> None:
    crowd.look_all(hot(crowd, 100))
    crowd.hold({"A": ("x",)})
    crowd.wait({"H": ("x",)})
    crowd.look("H")
    crowd.wait({"A": ("hot",)})
    found = crowd.look("A")
    assert ["A.py:1", "H.py:1"] == [wait["where"] for wait in found.circle]
    assert 1 == len(found.costs)


def test_a_deadlock_through_a_place_before_many_waiters_is_found(crowd: Crowd) -> None:
    """A has x and stands behind B, who holds nothing and wants hot with y; Z has y, and wants x."""
    crowd.hold({"H": ("hot",), "A": ("x",), "Z": ("y",)})
    crowd.wait({"B": ("hot", "y")})
    whom = names(1000)
    crowd.hold({who: (f"own-{who}",) for who in whom})
    crowd.wait(dict.fromkeys(whom, ("hot",)))
    crowd.wait({"Z": ("x",)})
    crowd.look_all([*whom, "Z"])
    crowd.wait({"A": ("hot",)})
    found = crowd.look("A")
    assert max(found.costs) < MOST_COMMANDS
    # B is told to say in which line of code it waits. Then A, who came last, gives way.
    assert "0" == crowd.look("B", "told").kind
    found = crowd.look("A", "told")
    assert {"A.py:1", "B.py:1", "Z.py:1"} == {wait["where"] for wait in found.circle}


def others_took_their_part(bench: Bench) -> None:
    seconds, microseconds = bench.client.time()
    now = seconds * 1000 + microseconds // 1000
    bench.client.set(f"{bench.prefix}{{0}}:looks", f"1000000 {now}", px=60_000)


def test_who_looks_while_others_took_their_part_waits_and_who_is_told_does_not(
    crowd: Crowd, bench: Bench
) -> None:
    crowd.look_all(chain(crowd, 30, "last first"))
    crowd.wait({"S30": ("c0",)})
    others_took_their_part(bench)
    first = crowd.look("S30")
    assert "2" == first.kind
    assert first.pause_ms > 2000
    assert all(cost < 100 for cost in first.costs)
    assert "0" == crowd.look("S30", "again").kind
    assert "1" == crowd.look("S30", "told").kind


def test_a_short_look_takes_nothing_of_what_looks_wait_for(crowd: Crowd, bench: Bench) -> None:
    """Or those of a crowd, which come again and again, would keep each other from looking on."""
    crowd.look_all(chain(crowd, 30, "last first"))
    crowd.wait({"S30": tuple(f"c{i}" for i in range(20))})
    others_took_their_part(bench)
    for _ in range(3):
        crowd.look("S30")
    assert 1_000_000 == crowd.taken()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_small_circle_is_found_although_others_took_their_part(
    crowd: Crowd, bench: Bench, size: int
) -> None:
    """It is small, as nearly all circles are.

    Its look must not stand behind those of a crowd for half a minute.
    """
    crowd.look_all(chain(crowd, size))
    crowd.wait({f"S{size}": ("c0",)})
    others_took_their_part(bench)
    assert size + 1 == len(crowd.look(f"S{size}").circle)


def test_what_was_written_of_a_wait_that_is_over_is_forgotten(crowd: Crowd, bench: Bench) -> None:
    crowd.hold({"A": ("x",), "B": ("y",), "C": ("z",)})
    crowd.wait({"A": ("y",), "B": ("x",), "C": ("y",)})
    crowd.look("A")
    waits = f"{bench.prefix}{{0}}:waits"
    note = json.loads(bench.client.hget(waits, "A")) | {"token": "B.0"}
    bench.client.hset(waits, "B", json.dumps(note))
    crowd.look("C", "told")
    assert not bench.client.hexists(waits, "B")


def crossed(crowd: Crowd, count: int) -> list[str]:
    """Many have a permit each of A and want one of B; ten have B's and want one of A.

    One of A's waits for nothing.
    """
    whom, few = names(count), [f"T{i}" for i in range(10)]
    of_a, of_b = f"permit:{count + 1}", "permit:10"
    crowd.hold(dict.fromkeys([*whom, "last"], ("A",)), of_a)
    crowd.hold(dict.fromkeys(few, ("B",)), of_b)
    crowd.wait(dict.fromkeys(few, ("A",)), of_a)
    crowd.wait(dict.fromkeys(whom, ("B",)), of_b)
    return [*few, *whom]


@pytest.mark.parametrize("count", [50, 150])
def test_a_look_among_many_permits_does_a_bounded_part_at_a_time(crowd: Crowd, count: int) -> None:
    whom = crossed(crowd, count)
    crowd.look_all(whom)
    crowd.pause()
    looks = crowd.look_all(whom[:20], "told")
    assert {"0"} == {look.kind for look in looks}
    assert max(cost for look in looks for cost in look.costs) < 2 * MOST_COMMANDS


@pytest.mark.parametrize("count", [20, 90])
def test_permits_of_which_none_will_be_to_spare_are_a_deadlock(crowd: Crowd, count: int) -> None:
    whom = crossed(crowd, count)
    crowd.look_all(whom)
    crowd.pause()
    crowd.wait({"last": ("B",)}, "permit:10")
    assert "1" == crowd.look("last").kind


def readers(crowd: Crowd, count: int, *also: str) -> list[str]:
    """Many share a lock that W wants alone, and want what H has.

    H waits for nothing, and W has a lock, too.
    """
    whom = names(count)
    crowd.hold(dict.fromkeys([*whom, *also], ("doc",)), "shared")
    crowd.hold({"W": ("mine",), "H": ("hot",)})
    crowd.wait({"V": ("mine",), "W": ("doc",)})
    crowd.wait(dict.fromkeys(whom, ("hot",)))
    return whom


def test_a_look_at_many_readers_that_wait_does_a_bounded_part_at_a_time(crowd: Crowd) -> None:
    whom = readers(crowd, 150)
    crowd.look_all(whom)
    crowd.hold({"V": ("other",)})
    crowd.wait({"X": ("other",)})
    crowd.look_all(["V", "X"])
    crowd.pause()
    look = crowd.look("W")
    assert "0" == look.kind
    assert 100 < max(look.costs) < 2 * MOST_COMMANDS


def test_one_of_many_readers_finds_its_own_circle(crowd: Crowd) -> None:
    whom = readers(crowd, 150, "R")
    crowd.look_all([*whom, "W"])
    crowd.pause()
    crowd.wait({"R": ("mine",)})
    found = crowd.look("R")
    assert ["R.py:1", "W.py:1"] == [wait["where"] for wait in found.circle]


def test_a_circle_through_two_crowds_of_sharers_is_found_sooner_or_later(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two locks is shared by 60 that wait, and only the first 50 count.

    Which ones these are changes.
    """
    passers = {number: [f"{number}P{i}" for i in range(60)] for number in "12"}
    for number, whom in passers.items():
        crowd.hold(dict.fromkeys((*whom, f"R{number}"), (f"doc{number}",)), "shared")
    crowd.hold({"W1": ("m1",), "W2": ("m2",), "H": ("hot",)})
    for whom in passers.values():
        crowd.wait(dict.fromkeys(whom, ("hot",)))
        crowd.look_all(whom)
    crowd.wait({"W1": ("doc1",), "W2": ("doc2",)})
    crowd.wait({"R1": ("m2",), "R2": ("m1",)})
    # A turn lasts a minute; here a moment.
    text = scripts.DETECT.text.replace(b"turn_ms = 60000", b"turn_ms = 20")
    assert text != scripts.DETECT.text
    monkeypatch.setattr(scripts.DETECT, "text", text)
    for _ in range(500):
        crowd.pause()
        for who in ("W1", "W2", "R1", "R2"):
            if circle := crowd.look(who, "told").circle:
                assert {f"{each}.py:1" for each in ("W1", "W2", "R1", "R2")} == {
                    wait["where"] for wait in circle
                }
                return
    pytest.fail("nobody found it")


def test_a_small_circle_through_a_permit_is_found_beside_a_crowd(crowd: Crowd) -> None:
    """A has the only permit and wants the document, which B shares.

    B wants a permit, and so do many others.
    """
    numbers = range(60)
    crowd.hold({"A": ("pool",)}, "permit:1")
    crowd.hold(dict.fromkeys(("B", *(f"R{i}" for i in numbers)), ("doc",)), "shared")
    crowd.hold({f"H{i}": (f"a{i}",) for i in numbers} | {f"K{i}": (f"b{i}",) for i in numbers})
    crowd.wait({"A": ("doc",)})
    crowd.wait({f"R{i}": (f"a{i}",) for i in numbers} | {f"H{i}": (f"b{i}",) for i in numbers})
    crowd.look_all([f"{kind}{i}" for i in numbers for kind in "HR"])
    crowd.pause()
    crowd.look("A")
    crowd.wait({"B": ("pool",)}, "permit:1")
    crowd.pause()
    found = crowd.look("B")
    assert {"A.py:1", "B.py:1"} == {wait["where"] for wait in found.circle}
    assert max(found.costs) <= MOST_COMMANDS
