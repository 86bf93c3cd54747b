"""What each script costs the server in a crowd: `python -m tests.benchmarks.crowds`.

Crowds hold, wait or are listed.

The server's own clock measures each call, without its way through the network. The server goes
before all other processes, where that is allowed, so that they do not count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from statistics import median
from typing import Any, NamedTuple

from redis_locks import scripts
from redis_locks.compat import commands as compat
from redis_locks.run_once import scripts as run_once
from redis_locks.scripts import Script
from redis_locks.statistics import scripts as statistics
from redis_locks.testing.server import EmbeddedServer
from redis_locks.values.keys import compat_keys, grant_channel, index_key, lock_keys, set_keys
from tests.benchmarks.processors import goes_first
from tests.support.stored import age_wait

SIZES = (10, 100, 1_000, 10_000)
TIMES = 40
"""How often a question is asked that leaves all as it was."""

LEASE_MS = 600_000
WHO = "web-1\t4711\tthread MainThread\tPOST /accounts/1234/withdraw"
EVERY = (*scripts.ALL, *statistics.ALL, *run_once.ALL, *compat.ALL)
COMPAT_KEYS = compat_keys(b"hot", cluster=False)
COMPAT_SILENT = grant_channel("crowd", "dead")
COMPAT_HEARD = grant_channel("crowd", "living")
FLUSHED = 200
"""How many figures a process adds to the statistics in a call, and twice as many as it adds notes.
"""

_AT_ONCE = 1000
WINDOW_MS = 8000
"""How long a window of `_lock.lua` is in which long waits are noted."""

Question = Callable[[], object]


class Place:
    """One lock and the crowd around it, on a server that has nothing else."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.client: Any = server.client()
        self.client.flushall()
        for script in EVERY:
            self.client.script_load(script.text)
        self._tokens = (f"somebody.{number}" for number in count())
        self._subscription = self.client.pubsub()
        self._subscription.subscribe(grant_channel("crowd", "living"))
        self._subscription.get_message(timeout=5)

    def close(self) -> None:
        """Close the connections."""
        self._subscription.close()
        self.client.close()

    def tokens(self, number: int) -> list[str]:
        """Return tokens that nobody has had."""
        return list(islice(self._tokens, number))

    def token(self) -> str:
        """Return a token that nobody has had."""
        return next(self._tokens)

    def run(self, script: Script, *argv: object, names: Sequence[str] = ("hot",)) -> Any:
        """Run a script on the locks of these names, or on the index alone."""
        return self.send(self.client, script, argv, names)

    def send(self, to: Any, script: Script, argv: Sequence[object], names: Sequence[str]) -> Any:
        """Send the call of a script to a client, or to a pipeline."""
        keys = set_keys("crowd", 0, tuple(names)) if names else (index_key("crowd", 0),)
        return to.evalsha(script.sha.decode(), len(keys), *keys, *argv)

    def acquire(
        self,
        token: str,
        mode: str = "exclusive",
        wait: int = 0,
        listener: str = "dead",
        *,
        first: int = 1,
        names: Sequence[str] = ("hot",),
    ) -> bool:
        """Ask once; whether the lock was granted."""
        argv = acquire_words(token, mode, wait, listener, first)
        reply: bytes = self.run(scripts.ACQUIRE, *argv, names=names)
        return reply.split(b" ")[1] == b"1"

    def come(
        self,
        number: int,
        mode: str = "exclusive",
        wait: int = 0,
        listener: str = "dead",
        names: Callable[[int], Sequence[str]] = lambda _: ("hot",),
    ) -> list[str]:
        """Let so many ask, each with a token of its own, and return the tokens."""
        tokens = self.tokens(number)
        for start in range(0, number, _AT_ONCE):
            with self.client.pipeline(transaction=False) as pipeline:
                for place, token in enumerate(tokens[start : start + _AT_ONCE], start):
                    argv = acquire_words(token, mode, wait, listener)
                    self.send(pipeline, scripts.ACQUIRE, argv, names(place))
                pipeline.execute()
        return tokens

    def ask_compat(
        self, waiter: str, channel: bytes = b"-", *, stay: bool = False, to: Any = None
    ) -> Any:
        """Ask once for the compat lock; the place in its queue, 0 if it was granted."""
        argv = (waiter, waiter, "", channel, int(stay))
        return (to or self.client).evalsha(
            compat.ACQUIRE.sha.decode(), len(COMPAT_KEYS), *COMPAT_KEYS, *argv
        )

    def release_compat(self, token: str) -> Any:
        """Release the compat lock."""
        sha = compat.RELEASE.sha.decode()
        return self.client.evalsha(sha, len(COMPAT_KEYS), *COMPAT_KEYS, token)

    def extend_compat(self, token: str) -> Any:
        """Have a hold of the compat lock last as long as at first."""
        sha = compat.EXTEND.sha.decode()
        return self.client.evalsha(sha, len(COMPAT_KEYS), *COMPAT_KEYS, token, LEASE_MS, "1")

    def come_compat(self, number: int, channel: bytes) -> list[str]:
        """Let so many wait for the compat lock, which somebody holds."""
        tokens = self.tokens(number)
        for start in range(0, number, _AT_ONCE):
            with self.client.pipeline(transaction=False) as pipeline:
                for token in tokens[start : start + _AT_ONCE]:
                    self.ask_compat(token, channel, stay=True, to=pipeline)
                pipeline.execute()
        return tokens

    @property
    def lock(self) -> bytes:
        """The key of the lock's hash."""
        return lock_keys("crowd", 0, "hot").lock

    def end_sharers(self) -> None:
        """Let the leases of all who share the lock end."""
        key = lock_keys("crowd", 0, "hot").sharers
        tokens = self.client.zrange(key, 0, -1)
        for start in range(0, len(tokens), _AT_ONCE):
            self.client.zadd(key, dict.fromkeys(tokens[start : start + _AT_ONCE], 1))

    def durations(self) -> dict[str, list[int]]:
        """Return the microseconds of each call since `forget`, by script."""
        names = {script.sha: full_name(script) for script in EVERY}
        found: dict[str, list[int]] = {}
        for entry in self.client.slowlog_get(100_000):
            words = entry["command"].split(b" ")
            if words[0].upper() == b"EVALSHA":
                found.setdefault(names[words[1]], []).append(entry["duration"])
        return found

    def listen(self) -> None:
        """Note from here on how long each call takes."""
        self.client.config_set("slowlog-max-len", 100_000)
        self.client.config_set("slowlog-log-slower-than", 0)
        self.client.slowlog_reset()


def full_name(script: Script) -> str:
    """Return the name of a script, with its package unless that is the locks' own."""
    package = script.package.removeprefix("redis_locks.").partition(".")[0]
    return script.name if package == "scripts" else f"{package} {script.name}"


def acquire_words(
    token: str, mode: str, wait: int, listener: str, first: int = 1
) -> tuple[object, ...]:
    """Return the arguments of `acquire`."""
    return token, LEASE_MS, mode, WHO, listener, wait, first


class Cost(NamedTuple):
    """Microseconds of a script's call: the least, the median and the longest."""

    least: float
    median: float
    most: float

    def best(self, other: Cost) -> Cost:
        """Return the smaller of two costs, figure by figure: the machine may have been busy."""
        return Cost(*map(min, self, other))


class Crowd(NamedTuple):
    """A crowd, and what is asked in its presence.

    `gather` makes a crowd of some size, and returns the question, which is asked `times`. Beside
    `few` it costs as much as beside any more: 10, or as many as a script works off or returns at
    once.
    """

    label: str
    gather: Callable[[Place, int], Question]
    times: int = TIMES
    few: int = 10


CROWDS: list[Crowd] = []


Gather = Callable[[Place, int], Question]


def crowd(label: str, times: int = TIMES, few: int = 10) -> Callable[[Gather], Gather]:
    """Add a crowd to those that are measured."""

    def add(gather: Gather) -> Gather:
        CROWDS.append(Crowd(label, gather, times, few))
        return gather

    return add


@crowd("held by readers: refused")
def _(place: Place, size: int) -> Question:
    place.come(size, "shared")
    return lambda: place.acquire(place.token())


@crowd("held by readers: wait for it, and give up")
def _(place: Place, size: int) -> Question:
    place.come(size, "shared")

    def ask() -> None:
        token = place.token()
        place.acquire(token, wait=-1, listener="living")
        place.run(scripts.GIVE_UP, token, "exclusive")

    return ask


@crowd("held by readers: one more reader comes and goes")
def _(place: Place, size: int) -> Question:
    place.come(size, "shared")
    return lambda: come_and_go(place, "shared")


@crowd("held by readers: extend, adopt and raise the fence of one of them")
def _(place: Place, size: int) -> Question:
    token = place.come(size, "shared")[size // 2]

    def ask() -> None:
        place.run(scripts.EXTEND, token, LEASE_MS)
        place.run(scripts.CONFIRM, token, LEASE_MS)
        place.run(scripts.FENCE, token, LEASE_MS, 5)
        place.run(scripts.ADOPT, token, token + "x", LEASE_MS, WHO, 0)
        place.run(scripts.ADOPT, token + "x", token, LEASE_MS, WHO, 0)

    return ask


@crowd("held by readers: an upgrade waits, and gives up")
def _(place: Place, size: int) -> Question:
    reader = place.come(size, "shared")[size // 2]

    def ask() -> None:
        token = place.token()
        place.acquire(token, f"upgrade:{reader}", -1, "living")
        place.run(scripts.GIVE_UP, token, f"upgrade:{reader}")

    return ask


@crowd("held by readers: one is force-released")
def _(place: Place, size: int) -> Question:
    readers = place.come(size, "shared")

    def ask() -> None:
        place.run(scripts.FORCE_RELEASE, place.token(), readers[size // 2])
        place.acquire(readers[size // 2], "shared")

    return ask


@crowd("locked by rows' intents: refused")
def _(place: Place, size: int) -> Question:
    place.come(size, "intent:exclusive")
    return lambda: place.acquire(place.token(), "shared")


@crowd("all permits are out: refused")
def _(place: Place, size: int) -> Question:
    place.come(size, f"permit:{size}")
    return lambda: place.acquire(place.token(), f"permit:{size}")


@crowd("permits are out: one more comes and goes")
def _(place: Place, size: int) -> Question:
    place.come(size - 1, f"permit:{size}")
    return lambda: come_and_go(place, f"permit:{size}")


@crowd("all permits are out, and one is handed on")
def _(place: Place, size: int) -> Question:
    mode = f"permit:{size}"
    holder = place.come(size, mode)[0]

    def ask() -> None:
        nonlocal holder
        heir = place.token()
        place.acquire(heir, mode, -1, "living")
        place.run(scripts.RELEASE, holder)
        holder = heir

    return ask


@crowd("waiters in line: refused")
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1, listener="living")
    return lambda: place.acquire(place.token())


@crowd("waiters in line: wait, ask again, and give up")
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1, listener="living")

    def ask() -> None:
        token = place.token()
        place.acquire(token, wait=-1, listener="living")
        place.acquire(token, wait=-1, listener="living", first=0)
        place.run(scripts.GIVE_UP, token, "exclusive")

    return ask


@crowd("waiters in line: a wait is cancelled")
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1, listener="living")

    def ask() -> None:
        token = place.token()
        place.acquire(token, wait=-1, listener="living")
        place.run(scripts.CANCEL, place.token(), token)

    return ask


@crowd("waiters in line: handed on", times=10)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    line = iter(["holder", *place.come(size, wait=-1, listener="living")])
    return lambda: place.run(scripts.RELEASE, next(line))


@crowd("waiters in line: handed on by a commit", times=10)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    line = iter(["holder", *place.come(size, wait=-1, listener="living")])
    return lambda: place.run(scripts.COMMIT, next(line), 3, "SET", "{0}:data", "x")


@crowd("waiters in line: taken by SKIP LOCKED")
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1, listener="living")
    return lambda: place.run(
        scripts.TAKE, place.token(), LEASE_MS, "exclusive", WHO, "x", 1, "1", 1, 0
    )


@crowd("readers wait, and the lock is released", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, "shared", -1, "living")
    return lambda: place.run(scripts.RELEASE, "holder")


@crowd("readers wait, and the lock is downgraded", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, "shared", -1, "living")
    return lambda: place.run(scripts.DOWNGRADE, "holder")


@crowd("dead waiters in line: released", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1)
    return lambda: place.run(scripts.RELEASE, "holder")


@crowd("dead waiters in line: the lock stays closed for a while", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1)
    return lambda: place.run(scripts.CLOSE, "holder", "closer", 60_000, WHO)


@crowd("dead waiters in line: the holder leaves, a waiter asks again", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1)
    place.acquire("waiter", wait=-1, listener="living")
    place.client.hdel(place.lock, "holder", "claim", "who", "label")
    return lambda: place.acquire("waiter", wait=-1, listener="living", first=0)


@crowd("dead waiters of two locks in line: released", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder", names=("hot", "warm"))
    place.come(size, wait=-1, names=lambda _: ("hot", "warm"))
    return lambda: place.run(scripts.RELEASE, "holder", names=("hot", "warm"))


CRASHED = f"{WHO}\tcrowd:grants:crashed"
"""How a holder with `crash_release` describes itself, whose process is gone."""


@crowd("waiters behind a holder that crashed: the lock is handed on", times=1)
def _(place: Place, size: int) -> Question:
    place.run(scripts.ACQUIRE, "holder", LEASE_MS, "exclusive", CRASHED, "dead", 0, 1)
    place.come(size, wait=-1, listener="living")
    return lambda: place.run(scripts.CRASH_RELEASE, place.token())


@crowd("workers wait for a job: another asks, it goes on, is looked at, and handed on", times=10)
def _(place: Place, size: int) -> Question:
    begin(place, "holder")
    line = iter(["holder", *place.come(size, wait=-1, listener="living")])

    def ask() -> None:
        worker = next(line)
        begin(place, worker)
        begin(place, place.token())
        place.run(run_once.EXTEND, worker, LEASE_MS)
        place.run(run_once.STATUS, place.token())
        place.run(run_once.FAIL, worker, 1, LEASE_MS, "it broke")

    return ask


@crowd("workers wait for a job that is done", times=1)
def _(place: Place, size: int) -> Question:
    begin(place, "holder")
    place.come(size, wait=-1, listener="living")
    return lambda: place.run(run_once.DONE, "holder", 1, LEASE_MS, "")


@crowd("dead workers wait for a job: done", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    begin(place, "holder")
    place.come(size, wait=-1)
    return lambda: place.run(run_once.DONE, "holder", 1, LEASE_MS, "")


def begin(place: Place, worker: str) -> None:
    """Begin an attempt at the job, if it is the worker's turn."""
    place.run(run_once.BEGIN, worker, LEASE_MS, WHO, "living", 1_000_000, LEASE_MS)


@crowd("compat waiters in line: refused")
def _(place: Place, size: int) -> Question:
    place.ask_compat("holder")
    place.come_compat(size, COMPAT_HEARD)
    return lambda: place.ask_compat(place.token())


@crowd("compat waiters in line: wait, ask again, and give up")
def _(place: Place, size: int) -> Question:
    place.ask_compat("holder")
    place.come_compat(size, COMPAT_HEARD)

    def ask() -> None:
        token = place.token()
        place.ask_compat(token, stay=True)
        place.ask_compat(token, COMPAT_HEARD, stay=True)
        place.ask_compat(token)

    return ask


@crowd("compat waiters in line: extended")
def _(place: Place, size: int) -> Question:
    place.ask_compat("holder")
    place.client.pexpire(COMPAT_KEYS.lock, LEASE_MS)
    place.come_compat(size, COMPAT_HEARD)
    return lambda: place.extend_compat("holder")


@crowd("compat waiters in line: handed on", times=10)
def _(place: Place, size: int) -> Question:
    place.ask_compat("holder")
    line = iter(["holder", *place.come_compat(size, COMPAT_HEARD)])
    return lambda: place.release_compat(next(line))


@crowd("dead compat waiters in line: released", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.ask_compat("holder")
    place.come_compat(size, COMPAT_SILENT)
    return lambda: place.release_compat("holder")


@crowd("dead compat waiters in line: redis-py releases, a waiter asks again", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.ask_compat("holder")
    place.come_compat(size, COMPAT_SILENT)
    place.ask_compat("waiter", COMPAT_HEARD, stay=True)
    place.client.delete(COMPAT_KEYS.lock)
    return lambda: place.ask_compat("waiter", COMPAT_HEARD, stay=True)


@crowd("waiters gave up in the middle of the line: handed on", times=2, few=3_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.acquire("first", wait=-1, listener="living")
    crowd = place.come(size, wait=-1, listener="living")
    place.acquire("last", wait=-1, listener="living")
    place.acquire("behind", wait=-1, listener="living")
    for start in range(0, size, _AT_ONCE):
        with place.client.pipeline(transaction=False) as pipeline:
            for token in crowd[start : start + _AT_ONCE]:
                place.send(pipeline, scripts.GIVE_UP, (token, "exclusive"), ("hot",))
            pipeline.execute()
    line = iter(["holder", "first"])
    return lambda: place.run(scripts.RELEASE, next(line))


@crowd("readers' leases have ended: acquired", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.come(size, "shared")
    place.end_sharers()
    return lambda: place.acquire(place.token())


@crowd("permits' leases have ended: acquired", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    place.come(size, f"permit:{size}")
    place.end_sharers()
    return lambda: place.acquire(place.token(), f"permit:{size}")


@crowd("names in the index: a free lock comes and goes")
def _(place: Place, size: int) -> Question:
    fill_index(place, size)
    return lambda: come_and_go(place, "exclusive")


@crowd("names in the index are over: acquired", times=1, few=1_000)
def _(place: Place, size: int) -> Question:
    fill_index(place, size, ends_ms=1)
    return lambda: place.acquire(place.token())


@crowd("held locks: a page of names, and of a survey", times=5, few=1_000)
def _(place: Place, size: int) -> Question:
    fill_index(place, size)

    def ask() -> None:
        place.run(scripts.NAMES, "", 0, 0, 500, 1, names=())
        place.run(scripts.SURVEY, "", names=[f"other:{number}" for number in range(25)])
        place.run(scripts.LONG_WAITS, "", 500, names=())

    return ask


@crowd("locks with long waits: one more is noted, and they are listed", times=5, few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    waiter = place.token()
    place.acquire(waiter, wait=-1, listener="living")
    age_wait(place.client, place.lock, waiter, 60_000)
    window = 1000 * place.client.time()[0] // WINDOW_MS
    for start in range(0, size, _AT_ONCE):
        since = {f"other:{number}": number for number in range(start, min(start + _AT_ONCE, size))}
        for later in range(8):
            key = index_key("crowd", 0).replace(b"index", b"long_waits:%d" % (window + later))
            place.client.zadd(key, since)

    def ask() -> None:
        place.acquire(waiter, wait=-1, listener="living", first=0)
        place.run(scripts.LONG_WAITS, "", 500, names=())

    return ask


@crowd("held by readers: shown", few=1_000)
def _(place: Place, size: int) -> Question:
    place.come(size, "shared")
    return lambda: place.run(scripts.INSPECT, "", 300, "first", 0, 0)


@crowd("waiters in line: shown", few=1_000)
def _(place: Place, size: int) -> Question:
    place.acquire("holder")
    place.come(size, wait=-1, listener="living")
    return lambda: place.run(scripts.INSPECT, "", 300, "first", 0, 0)


@crowd("locks with many holders and waiters: a part of a survey", times=5, few=2_000)
def _(place: Place, size: int) -> Question:
    def hundred(number: int) -> Sequence[str]:
        return (f"other:{number % 100}",)

    place.come(size, "shared", names=hundred)
    place.come(size, wait=-1, listener="living", names=hundred)
    return lambda: place.run(scripts.SURVEY, "", names=[f"other:{number}" for number in range(25)])


def write_down(
    place: Place, sessions: Sequence[str], mode: str, name: str, has: Sequence[str] = ()
) -> None:
    """Let sessions wait for a lock, and look for deadlocks.

    With locks that they have, each looks until a look has come to its end.
    """
    listed = json.dumps([lock_keys("crowd", 0, each).lock.decode() for each in has])
    for session in sessions:
        rest = ""
        while True:
            place.client.delete(index_key("crowd", 0).replace(b"index", b"looks"))
            argv = (f"{session}.2", mode, WHO, "views.py:1", "", listed, "first", rest)
            reply = place.run(scripts.DETECT, *argv, names=[name])
            _, kind, said = reply.decode().split(" ", 2)
            rest = said.partition(" ")[2]
            if kind != "2":
                break


def all_have(place: Place, sessions: Sequence[str], mode: str, name: str, wait: int = 0) -> None:
    """Let each session ask for a lock."""
    number = "2" if wait else "1"
    for start in range(0, len(sessions), _AT_ONCE):
        with place.client.pipeline(transaction=False) as pipeline:
            for session in sessions[start : start + _AT_ONCE]:
                argv = acquire_words(f"{session}.{number}", mode, wait, "living")
                place.send(pipeline, scripts.ACQUIRE, argv, [name])
            pipeline.execute()


@crowd("permits whose holders wait for each other's: a look for deadlocks", times=5, few=2_000)
def _(place: Place, size: int) -> Question:
    many, few = (
        [f"many{number}" for number in range(size)],
        [f"few{number}" for number in range(10)],
    )
    of_all, of_ten = f"permit:{size + 1}", "permit:10"
    all_have(place, [*many, "last"], of_all, "all")
    all_have(place, few, of_ten, "ten")
    all_have(place, few, of_all, "all", wait=-1)
    all_have(place, many, of_ten, "ten", wait=-1)
    write_down(place, few, of_all, "all")
    write_down(place, many, of_ten, "ten")
    return lambda: write_down(place, many[:1], of_ten, "ten", has=["all"])


@crowd("readers that wait: a look for deadlocks", times=5, few=2_000)
def _(place: Place, size: int) -> Question:
    readers = [f"reader{number}" for number in range(size)]
    all_have(place, readers, "shared", "read")
    for session, name in (("writer", "mine"), ("holder", "hot"), ("waiter", "other")):
        all_have(place, [session], "exclusive", name)
    for session, name in (("writer", "read"), ("waiter", "mine")):
        all_have(place, [session], "exclusive", name, wait=-1)
    all_have(place, readers, "exclusive", "hot", wait=-1)
    write_down(place, readers, "exclusive", "hot")
    write_down(place, ["waiter"], "exclusive", "mine")
    return lambda: write_down(place, ["writer"], "exclusive", "read", has=["mine"])


@crowd("figures of many locks: some more, read, noted", times=5, few=1_000)
def _(place: Place, size: int) -> Question:
    def flush(start: int, number: int) -> None:
        figures = [
            word for each in range(start, start + number) for word in (f"h12 lock:{each}", 1)
        ]
        noted = [
            word
            for each in range(start, start + number // 2)
            for word in (f"lock:{each}", "frequent", 0, "{}")
        ]
        place.run(statistics.ADD, "", "process", 2 * start + 1, 0, *figures, names=())
        place.run(statistics.NOTE, "", "process", 2 * start + 2, 20, *noted, names=())

    for start in range(0, size, FLUSHED):
        flush(start, min(FLUSHED, size - start))

    def ask() -> None:
        flush(size, FLUSHED)
        place.run(statistics.READ, "", 900, -1, 0, names=())
        place.run(statistics.NOTES, "", "lock:1", "frequent", names=())

    return ask


def come_and_go(place: Place, mode: str) -> None:
    """Let one more acquire the lock, and release it."""
    token = place.token()
    if not place.acquire(token, mode):
        raise RuntimeError("the lock was refused")
    place.run(scripts.RELEASE, token)


def fill_index(place: Place, size: int, ends_ms: int | None = None) -> None:
    """Let so many other locks be held, or only be listed.

    `ends_ms` says when the leases of listed ones ended.
    """
    if ends_ms is None:
        place.come(size, names=lambda number: (f"other:{number}",))
    for start in range(0, size if ends_ms else 0, _AT_ONCE):
        names = {f"other:{number}": ends_ms for number in range(start, min(start + _AT_ONCE, size))}
        place.client.zadd(index_key("crowd", 0), names)
    place.client.pexpire(index_key("crowd", 0), LEASE_MS // 2 if ends_ms else 2 * LEASE_MS)


@contextmanager
def first_server() -> Iterator[EmbeddedServer]:
    """Start a server that goes before all other processes, where that is allowed."""
    with EmbeddedServer(use_environment=False) as server:
        if server.pid is not None:
            goes_first(server.pid)
        yield server


def measured(server: EmbeddedServer, each: Crowd, size: int, rounds: int) -> dict[str, Cost]:
    """Return what each script's call costs, the best of some rounds."""
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        place = Place(server)
        try:
            ask = each.gather(place, size)
            place.listen()
            for _ in range(each.times):
                ask()
            found = place.durations()
        finally:
            place.client.config_set("slowlog-log-slower-than", -1)
            place.close()
        for script, times in found.items():
            cost = Cost(min(times), median(times), max(times))
            best[script] = cost.best(best.get(script, cost))
    return best


_LOOP = (
    "local n = 0 for i = 1, 10000 do n = n + #string.match('a b c ' .. i, '^(%S+) (%S+)') end "
    "return n"
)
_LOOP_US = 5_000
"""What the loop may take where the bounds hold as they stand. It takes twice as long on a slow
machine of CI.
"""


def slowness(server: EmbeddedServer) -> float:
    """Return how many times slower with Lua this machine is than one where the bounds hold.

    It is 1 at least.
    """
    with server.client() as client:
        client.config_set("slowlog-log-slower-than", 0)
        client.slowlog_reset()
        for _ in range(5):
            client.eval(_LOOP, 0)
        client.config_set("slowlog-log-slower-than", -1)
        took = [
            entry["duration"]
            for entry in client.slowlog_get()
            if entry["command"].startswith(b"EVAL")
        ]
    return max(1.0, min(took) / _LOOP_US)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--only", default="", help="those whose label contains this")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    sys.stdout.write("Microseconds of a call: median / longest, the best of several rounds\n\n")
    sys.stdout.write(f"{'':64}" + "".join(f"{size:>16,}" for size in options.sizes) + "\n")
    with first_server() as server:
        for each in CROWDS:
            if options.only not in each.label:
                continue
            found = [measured(server, each, size, options.rounds) for size in options.sizes]
            for script in found[0]:
                cells = (f"{of[script].median:>8.0f} /{of[script].most:>6}" for of in found)
                sys.stdout.write(f"{each.label + ': ' + script:64}" + "".join(cells) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
