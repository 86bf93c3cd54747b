"""The faults, one scenario each: what goes wrong for some seconds, and what may come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.faults.arena import Arena
from tests.faults.counts import Counts
from tests.faults.injectors import (
    DYING,
    PAUSED_LEASE,
    Inject,
    again_and_again,
    delay,
    fail_over,
    fill,
    kill,
    lose_replies,
    mix,
    nothing,
    partition,
    pause,
    replica,
    restart,
    step,
)

BACKEND = frozenset({"LockBackendError"})
REFUSED = BACKEND | {"ResponseError", "ReadOnlyError", "OutOfMemoryError"}
CONNECTION = BACKEND | {"ConnectionError", "TimeoutError", "BusyLoadingError"}


class Party(NamedTuple):
    """How some of the workers use the locks, blocking and async ones."""

    mode: str = "exclusive"
    """As in `_prelude.lua`."""
    takes_all: bool = False
    """Whether they take all locks at once, all or none."""


@dataclass(frozen=True)
class Scenario:
    """One row of the matrix.

    Args:
        fault: What goes wrong, in the words of the table in the docs.
        inject: Makes it happen for so many seconds and ends it; the workers go on before, during
            and after.
        lease: Seconds; `body` is how long, from and to, a holder takes.
        keeps_promise: Whether mutual exclusion is promised: the server keeps its data, clocks run
            alike.
        errors: The kinds of errors that may reach a caller meanwhile.
        recovery: Seconds within which each worker must hold again when the fault is over. What a
            lost reply granted is in the way for a lease, unless the server forgot it as well.
        others_have_a_lease: False to run a lock that knows locks without a lease without one.
        locks: How many locks, with an account each, the workers are at.
        is_watched: Whether there is a replica and Sentinels, and `CONNECTION` names these.
        parties: Two workers of each in turn.
        redis_py_fails: Whether redis-py's lock must fail here, which shows that the check can.
    """

    key: str
    fault: str
    inject: Inject
    workers: int = 3
    locks: int = 1
    lease: float = 1.0
    renew: bool = True
    body: tuple[float, float] = (0.0, 0.004)
    keeps_promise: bool = True
    errors: frozenset[str] = frozenset()
    recovery: float = 10.0
    options: tuple[str, ...] = ()
    through_proxy: bool = False
    half_through_proxy: bool = False
    sets_the_clock: bool = False
    is_watched: bool = False
    others_have_a_lease: bool = True
    parties: tuple[Party, ...] = (Party(),)
    redis_py_fails: bool = False

    @property
    def ours_only(self) -> bool:
        """Whether redis-py has no such lock."""
        return self.parties != (Party(),)


def run(scenario: Scenario, subject: str, seconds: float) -> Counts:
    """Run one scenario; `seconds` is how long the fault lasts or is repeated."""
    with Arena(scenario, subject) as arena:
        scenario.inject(arena, seconds)
        return arena.counts()


AOF = ("--appendonly", "yes", "--appendfsync", "always")
SLOW = (0.0, 2 * PAUSED_LEASE)

SCENARIOS = {
    scenario.key: scenario
    for scenario in (
        Scenario("calm", "none", nothing),
        Scenario(
            "holder-killed", "holder killed (SIGKILL)",
            again_and_again(kill(inside=True), 0.2), body=(0.0, 0.02),
        ),
        Scenario(
            "waiter-killed", "waiter killed", again_and_again(kill(inside=False), 0.2),
            body=(0.005, 0.02),
        ),
        Scenario(
            "holder-paused", "holder stopped past its lease, with renewal",
            again_and_again(pause(inside=True, leases=1.5), 0.05), lease=PAUSED_LEASE,
            body=(0.0, 0.02), redis_py_fails=True,
        ),
        Scenario(
            "holder-paused-hard", "holder stopped past its lease, without renewal",
            again_and_again(pause(inside=True, leases=1.5), 0.05), lease=PAUSED_LEASE, renew=False,
            body=(0.0, 0.02),
        ),
        Scenario(
            "waiter-paused", "waiter stopped past its lease",
            again_and_again(pause(inside=False, leases=1.5), 0.05), lease=PAUSED_LEASE,
            body=(0.005, 0.02),
        ),
        Scenario(
            "slow", "section longer than the lease, with renewal", nothing,
            lease=PAUSED_LEASE, body=SLOW,
        ),
        Scenario(
            "slow-hard", "section longer than the lease, without renewal", nothing,
            lease=PAUSED_LEASE, renew=False, body=SLOW, redis_py_fails=True,
        ),
        Scenario(
            "restarted", "server killed and restarted with its data (AOF)",
            again_and_again(restart, 0.5), lease=3.0, options=AOF, errors=CONNECTION,
        ),
        Scenario(
            "restarted-empty", "server killed and restarted empty",
            again_and_again(restart, 0.5), body=(0.01, 0.05), keeps_promise=False,
            recovery=2.0, errors=CONNECTION,
        ),
        Scenario(
            "failed-over", "primary killed, Sentinel promotes its replica",
            again_and_again(fail_over, 0.5),
            body=(0.01, 0.05), keeps_promise=False, is_watched=True, errors=CONNECTION,
        ),
        Scenario(
            "flushed", "FLUSHALL every 50 ms",
            again_and_again(lambda a: a.control.flushall(), 0.05),
            body=(0.01, 0.05), keeps_promise=False, redis_py_fails=True,
        ),
        Scenario(
            "out-of-memory", "out of memory, again and again",
            again_and_again(fill, 0.2), errors=REFUSED,
        ),
        Scenario(
            "replica", "server a read-only replica, again and again", again_and_again(replica, 0.2),
            lease=3.0, errors=REFUSED,
        ),
        Scenario(
            "scripts-flushed", "SCRIPT FLUSH every 50 ms",
            again_and_again(lambda a: a.control.script_flush(), 0.05),
        ),
        Scenario(
            "connections-killed", "CLIENT KILL of all connections every 50 ms",
            again_and_again(
                lambda a: (
                    a.control.client_kill_filter(_type="normal", skipme=True),
                    a.control.client_kill_filter(_type="pubsub"),
                ),
                0.05,
            ),
            lease=3.0, errors=frozenset({"ConnectionError"}),
        ),
        Scenario(
            "paused-server", "CLIENT PAUSE of 0.5 s",
            again_and_again(lambda a: a.control.client_pause(500), 0.7), lease=3.0,
        ),
        Scenario(
            "lost-replies", "every fifth reply lost", lose_replies, through_proxy=True, lease=3.0,
            others_have_a_lease=False, redis_py_fails=True, errors=frozenset({"ConnectionError"}),
        ),
        Scenario(
            "cut", "all connections cut every 50 ms",
            again_and_again(lambda a: a.proxy.cut(), 0.05),
            through_proxy=True, lease=3.0, errors=frozenset({"ConnectionError"}),
        ),
        Scenario("late", "every request 20 ms late", delay, through_proxy=True),
        Scenario(
            "partition", "half of the workers cut off for two leases",
            again_and_again(partition, 0.3), half_through_proxy=True, lease=PAUSED_LEASE,
            body=(0.0, 0.02), errors=CONNECTION,
        ),
        Scenario(
            "clock-forward", "server's clock set 5 s forward", again_and_again(step(5.0), 0.4),
            sets_the_clock=True, keeps_promise=False, body=(0.01, 0.05), redis_py_fails=True,
        ),
        Scenario(
            "clock-back", "server's clock set 0.5 s back", again_and_again(step(-0.5), 0.4),
            sets_the_clock=True, body=(0.0, 0.02),
        ),
        *(
            Scenario(
                key, f"{what}; killed, stopped, replies lost",
                again_and_again(lambda a: mix(a, DYING), 0.1), workers=8, locks=locks,
                parties=parties, half_through_proxy=True, lease=PAUSED_LEASE,
                body=(0.0, 0.02), errors=CONNECTION,
            )
            for key, what, locks, parties in (
                ("semaphore-2", "semaphore of 2", 1, (Party("permit:2"),)),
                ("semaphore-3", "semaphore of 3", 1, (Party("permit:3"),)),
                ("shared", "some share the lock", 1, (Party("shared"), Party(), Party("shared"))),
                (
                    "sets", "some take two locks at once", 2,
                    (Party(takes_all=True), Party(), Party()),
                ),
            )
        ),
        Scenario(
            "mix", "all of these that leave data and clock alone, at random",
            again_and_again(mix, 0.05), workers=4, half_through_proxy=True, lease=PAUSED_LEASE,
            body=(0.0, 0.02), errors=CONNECTION | REFUSED,
        ),
    )
}  # fmt: skip
