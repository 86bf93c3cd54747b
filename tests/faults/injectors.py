"""What goes wrong with the processes, the connections or the server of one arena."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.arena import Arena
from tests.support.world import keys_of

Inject = Callable[[Arena, float], None]
Fault = Callable[[Arena], object]

PAUSED_LEASE = 0.4


def again_and_again(fault: Fault, rest: float) -> Inject:
    def inject(arena: Arena, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(rest)
            fault(arena)

    return inject


def nothing(arena: Arena, seconds: float) -> None:
    time.sleep(seconds)


def kill(*, inside: bool) -> Fault:
    def fault(arena: Arena) -> None:
        with arena.one_stopped(inside=inside, to_die=True) as worker:
            worker.kill()
        arena.hire(1)

    return fault


def pause(*, inside: bool, leases: float) -> Fault:
    def fault(arena: Arena) -> None:
        with arena.one_stopped(inside=inside):
            time.sleep(leases * PAUSED_LEASE)

    return fault


def restart(arena: Arena) -> None:
    arena.server.kill()
    arena.server.restart()


def fail_over(arena: Arena) -> None:
    killed = arena.watched.kill()
    arena.watched.until_replaced(killed)
    arena.watched.mend(killed)


def lose_replies(arena: Arena, seconds: float) -> None:
    arena.proxy.lose(1, every=5)
    time.sleep(seconds)
    arena.proxy.lose(0)


def partition(arena: Arena) -> None:
    arena.proxy.part()
    time.sleep(2 * PAUSED_LEASE)
    arena.proxy.heal()


def delay(arena: Arena, seconds: float) -> None:
    arena.proxy.delay = 0.02
    time.sleep(seconds)
    arena.proxy.delay = 0.0


def fill(arena: Arena) -> None:
    arena.control.config_set("maxmemory", "1")
    time.sleep(0.2)
    arena.control.config_set("maxmemory", "0")


def replica(arena: Arena) -> None:
    arena.control.execute_command("REPLICAOF", "127.0.0.1", "1")
    time.sleep(0.2)
    arena.control.execute_command("REPLICAOF", "NO", "ONE")


def step(seconds: float) -> Fault:
    def fault(arena: Arena) -> None:
        assert arena.clock is not None
        arena.clock.step(seconds)

    return fault


def forgetting(fault: Fault) -> Fault:
    """Return a fault after which the server knows of no lease that it gave before."""

    def forgets(arena: Arena) -> None:
        with arena.leases_end():
            fault(arena)

    return forgets


def delete_keys(arena: Arena) -> None:
    """Delete one of the keys of one lock, whichever."""
    name = arena.chance.choice(list(arena.locks))
    arena.control.delete(arena.chance.choice(keys_of(name)))


DYING: dict[str, Fault] = {
    "holder killed": kill(inside=True),
    "waiter killed": kill(inside=False),
    "holder stopped": pause(inside=True, leases=1.5),
    "waiter stopped": pause(inside=False, leases=1.5),
    "replies lost": lambda arena: arena.proxy.lose(1, losses=3),
}
"""What happens to processes and to what they hear."""

MIXED: dict[str, Fault] = DYING | {
    "scripts flushed": lambda arena: arena.control.script_flush(),
    "connections killed": lambda arena: arena.control.client_kill_filter(_type="pubsub"),
    "server paused": lambda arena: arena.control.client_pause(200),
    "connections cut": lambda arena: arena.proxy.cut(),
    "network parted": partition,
    "requests late": lambda arena: delay(arena, 0.2),
    "out of memory": fill,
    "read-only": replica,
}
"""What leaves data and clock alone."""

FORWARD: dict[str, Fault] = {"clock set forward": forgetting(step(5.0))}
BACK: dict[str, Fault] = {"clock set back": step(-0.5)}
RESTARTED: dict[str, Fault] = {"server restarted with its data": restart}
LOSING: dict[str, Fault] = {
    "server restarted empty": forgetting(restart),
    "everything deleted": forgetting(lambda arena: arena.control.flushall()),
    "keys deleted": forgetting(delete_keys),
}


def mix(arena: Arena, faults: dict[str, Fault] = MIXED) -> str:
    """Do one of the faults at random; return its name."""
    name = arena.chance.choice(list(faults))
    faults[name](arena)
    return name
