"""What a crowd that waits costs a server, and a bystander's PING: `python -m tests.benchmarks.bystander`.

The bystander asks two servers in turn. The crowd waits on one of them. The other is idle, so what a PING takes there is
what the machine itself takes to let server and bystander run.

The server's own clock measures each script, and goes on while somebody else has the processor. So both servers go
before all other processes, where that is allowed: on Linux, for root. `--in-turn` leaves them as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import django
import redis
from django.conf import settings

from redis_locks.scripts import ALL
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks import quiet

PAUSE = 0.001
"""Seconds between two PINGs."""

SLOW_US = 5_000
"""From how many microseconds on a script is slow."""

NOTED_US = 200
"""From how many microseconds on the server notes a script."""

PATIENCE = 600.0

Names = tuple[str, ...]


class Shape(NamedTuple):
    """A crowd: how many tasks, and what each of them holds and waits for."""

    count: int
    holds: Callable[[int], str]
    wants: Callable[[int], Names]


def own(number: int) -> str:
    """Return the lock that a task holds."""
    return f"own:{number}"


SHAPES: Final = {
    "hot lock": Shape(1500, own, lambda _: ("hot",)),
    "chain": Shape(1000, own, lambda i: (own(i + 1) if i < 999 else "hot",)),
    "star of sets": Shape(1500, own, lambda i: ("hot", f"spoke:{i % 50}")),
}


class Seen(NamedTuple):
    """What was seen in the presence of a crowd. Times are in ms, shares are parts of a core."""

    first: bool
    """Whether the servers went before all other processes."""
    waited: float
    """How long the server's main thread waited for a processor."""
    busy: list[float]
    idle: list[float]
    server: float
    scripts: float
    longest: float
    slowest: str
    slow: int
    calls: int
    turn: float
    """The longest turn of the server's event loop: a PING that comes then waits for its end."""
    lost: int


def crowd(url: str, shape: str, looks: bool, pipe: Connection) -> None:
    """Let the tasks of a crowd wait until the pipe says enough; then say how many holds were lost."""
    timeout = 1.0 if looks else None
    settings.configure(REDIS_LOCKS={"CONNECTION": url, "DEADLOCK_TIMEOUT": timeout})
    django.setup()
    pipe.send(asyncio.run(_wait(SHAPES[shape], pipe)))


async def _wait(shape: Shape, pipe: Connection) -> int:
    from redis_locks import Lock

    all_have, go, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    having = 0

    async def member(number: int) -> bool:
        nonlocal having
        async with Lock(shape.holds(number)).hold() as hold:
            having += 1
            if having == shape.count:
                all_have.set()
            await go.wait()
            waiting = asyncio.ensure_future(Lock(*shape.wants(number), wait=PATIENCE).aacquire())
            await over.wait()
            waiting.cancel()
            return hold.is_lost

    async with Lock("hot").hold():
        members = [asyncio.create_task(member(number)) for number in range(shape.count)]
        await all_have.wait()
        pipe.send(None)
        await asyncio.to_thread(pipe.recv)
        go.set()
        await asyncio.to_thread(pipe.recv)
        over.set()
        ended = await asyncio.gather(*members, return_exceptions=True)
    return sum(each is not False for each in ended)


def bystand(busy: str, idle: str, seconds: float, pipe: Connection) -> None:
    """Send both servers a PING in turn for so long, and say what each took, in ms."""
    clients = [redis.Redis.from_url(url) for url in (busy, idle)]
    took: tuple[list[float], list[float]] = ([], [])
    for client in clients:
        client.ping()
    pipe.send(None)
    end = time.monotonic() + seconds
    while (started := time.monotonic()) < end:
        for client, its in zip(clients, took, strict=True):
            client.ping()
            now = time.monotonic()
            its.append((now - started) * 1000)
            started = now
        time.sleep(PAUSE)
    pipe.send(took)


def watched(shape: str, looks: bool, seconds: float, *, first: bool = True) -> Seen:
    """Return what is seen for so long from the moment on at which the crowd begins to wait.

    Args:
        shape: The crowd's.
        looks: Whether it looks for deadlocks.
        seconds: How long.
        first: Let the servers go before all other processes, where that is allowed.
    """
    spawned = multiprocessing.get_context("spawn")
    names = {script.sha: script.name for script in ALL}
    with (
        EmbeddedServer(use_environment=False) as server,
        EmbeddedServer(use_environment=False) as other,
        server.client() as client,
    ):
        pids = [each.pid for each in (server, other) if each.pid is not None]
        first = first and all(quiet.goes_first(pid) for pid in pids)
        to_crowd, its = spawned.Pipe()
        members = spawned.Process(target=crowd, args=(server.url, shape, looks, its))
        members.start()
        to_crowd.recv()
        to_bystander, its = spawned.Pipe()
        bystander = spawned.Process(target=bystand, args=(server.url, other.url, seconds, its))
        bystander.start()
        to_bystander.recv()
        client.config_set("slowlog-max-len", 10_000)
        client.config_set("slowlog-log-slower-than", NOTED_US)
        client.slowlog_reset()
        client.config_resetstat()
        used, waited, began = _cpu(client), quiet.kept_waiting(pids[0]), time.monotonic()
        to_crowd.send(None)
        busy, idle = to_bystander.recv()
        lasted = time.monotonic() - began
        server_share = (_cpu(client) - used) / lasted
        waited = quiet.kept_waiting(pids[0]) - waited
        stats = client.info("commandstats")
        slow = [
            (each["duration"], names.get(each["command"].split(b" ")[1], "?"))
            for each in client.slowlog_get(10_000)
            if each["command"].upper().startswith(b"EVALSHA")
        ]
        turn = client.info("debug").get("eventloop_duration_max", 0)
        to_crowd.send(None)
        lost = to_crowd.recv()
        members.join()
        bystander.join()
    scripts = [stats[word] for word in ("cmdstat_eval", "cmdstat_evalsha") if word in stats]
    duration, slowest = max(slow, default=(0, "-"))
    return Seen(
        first,
        waited * 1000,
        busy,
        idle,
        server_share,
        sum(each["usec"] for each in scripts) / 1e6 / lasted,
        duration / 1000,
        slowest,
        sum(took > SLOW_US for took, _ in slow),
        sum(each["calls"] for each in scripts),
        turn / 1000,
        lost,
    )


def _cpu(client: redis.Redis) -> float:
    figures: dict[str, Any] = client.info("cpu")
    return float(figures["used_cpu_user"] + figures["used_cpu_sys"])


def part(times: Sequence[float], share: float) -> float:
    """Return what so large a share of the times does not exceed."""
    return sorted(times)[int(share * (len(times) - 1))]


HEAD = (
    "| crowd | looks | server first | waited for a core | server | scripts | longest script | over 5 ms | longest turn | PING p50 | p99 | most "
    "| idle server: p50 | p99 | most | lost |\n" + "|---" * 16 + "|\n"
)


def row(shape: str, looks: bool, seen: Seen) -> str:
    """Return a row of the table."""
    pings = [
        f"{part(its, share):.2f}" for its in (seen.busy, seen.idle) for share in (0.5, 0.99, 1.0)
    ]
    return (
        f"| {SHAPES[shape].count:,}, {shape} | {'yes' if looks else 'no'} | {'yes' if seen.first else 'no'} "
        f"| {seen.waited:.0f} ms | {seen.server:.1%} | {seen.scripts:.1%} "
        f"| {seen.longest:.2f} ms ({seen.slowest}) | {seen.slow} of {seen.calls:,} | {seen.turn:.1f} ms | {' | '.join(pings)} | {seen.lost} |\n"
    )


def main() -> None:
    """Measure and print; times of PING are in ms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each is watched (15)")
    parser.add_argument("--only", default="", help="those whose name contains this")
    parser.add_argument("--with-looks", action="store_true", help="leave out crowds without looks")
    parser.add_argument(
        "--in-turn", action="store_true", help="let no server go before other processes"
    )
    options = parser.parse_args()
    sys.stdout.write(HEAD)
    sys.stdout.flush()
    for shape in SHAPES:
        for looks in (True,) if options.with_looks else (True, False):
            if options.only in shape:
                seen = watched(shape, looks, options.seconds, first=not options.in_turn)
                sys.stdout.write(row(shape, looks, seen))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
