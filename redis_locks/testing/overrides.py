"""`override_locks`: test code that takes locks, without a server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final, Literal, NoReturn, get_args
from unittest.mock import patch

from django.test.utils import TestContextDecorator
from redis.exceptions import ConnectionError as RedisConnectionError

from redis_locks.compat import commands, waiters
from redis_locks.connections import backends
from redis_locks.events import log_lines
from redis_locks.exceptions import LockBackendError, TooMuchContention
from redis_locks.optimistic import retries
from redis_locks.optimistic.transaction import Transaction
from redis_locks.protocol import acquire, lock_events
from redis_locks.protocol.store import Refused, Won
from redis_locks.testing.memory_backend import MemoryBackend, Outcome
from redis_locks.values.arguments import one_of

Place = tuple[Any, str]
"""An object, and the name of an attribute of it."""

_SERVERS: Final[Mapping[Place, Any]] = {
    (owner, name): getattr(owner, name)
    for owner, name in (
        (backends, "known"),
        (acquire.LockWait, "run"),
        (waiters, "acquire"),
        (commands, "extend"),
        (commands, "release"),
        (retries, "transact"),
    )
}
"""What is replaced, as it is when nothing is overridden."""


class override_locks(TestContextDecorator):  # noqa: N801 - used like Django's override_settings
    """Decides what becomes of every acquire in this process, and needs no server.

    A context manager, and a decorator of sync and async test functions and of ``unittest`` test
    case classes. It covers everything that takes a lock, blocking and async, in all threads:
    `Lock`, `redis_lock`, `Semaphore`, `RedisLockMixin`, rows, `run_once`, `unique_task` and the
    locks of `redis_locks.compat`; not other processes. The innermost of nested ones counts. What
    was held before stays as it was.

    `optimistic` has no lock: what it watches and writes is data, on the server that it names. So
    "granted" and "lost" leave it alone.

    Args:
        outcome: "granted": each acquire is granted at once, and nothing excludes anything.
            `assert_locked`, `assert_released` and `inspection` see these holds. "busy": somebody
            else holds every lock. Nobody waits: what would wait 5 s times out at once, and a wait
            without an end raises RuntimeError. An `optimistic` transaction raises
            TooMuchContention. "full": as "busy", and as many wait for every lock as may:
            one that bounds its queue raises QueueFull. "lost": each acquire is granted and the hold
            lost at once, so that its block ends with LockLost. "unavailable": the server is down.
            Each acquire, and an `optimistic` transaction, raises LockBackendError; a lock of
            `redis_locks.compat` raises redis-py's ConnectionError. "server": the locks are on the
            servers that the settings name, as if nothing were overridden. For a test whose suite
            has another outcome.

    `Hold.commit`, and locks with `read`, work on data in Redis. Without a server they raise
    RuntimeError.

    Raises:
        TypeError, ValueError: `outcome` is none of these.
    """

    def __init__(self, outcome: Outcome | Literal["server"]) -> None:
        one_of(*get_args(Outcome), "server")(outcome, "outcome")
        super().__init__()
        self._outcome = outcome
        self._enabled: list[ExitStack] = []

    def enable(self) -> None:
        """Replace the servers; or put them back, in the place of an outer replacement."""
        replacements = _SERVERS if self._outcome == "server" else self._memory(self._outcome)
        with ExitStack() as patches:
            for place, replacement in replacements.items():
                patches.enter_context(patch.object(*place, replacement))
            self._enabled.append(patches.pop_all())

    def _memory(self, outcome: Outcome) -> dict[Place, Any]:
        backend = MemoryBackend(outcome)
        replacements: dict[Place, Any] = {
            **_SERVERS,
            (backends, "known"): defaultdict(lambda: backend),
            # Higher than the driver, because a wait must not take its time here.
            (acquire.LockWait, "run"): _run,
            (waiters, "acquire"): self._acquire_compat,
            (commands, "extend"): self._extend_compat,
            (commands, "release"): self._release_compat,
        }
        if outcome in ("busy", "full", "unavailable"):
            replacements[retries, "transact"] = self._transact
        return replacements

    def disable(self) -> None:
        """Put the servers back."""
        self._enabled.pop().close()
        log_lines.convoys.flush()  # each test has its own lines

    async def _acquire_compat(
        self, _driver: object, request: commands.CompatRequest, wait: float | None, _sleep: float
    ) -> bool:
        self._require_server()
        busy = self._outcome in ("busy", "full")
        if busy and wait is None:
            raise RuntimeError(
                f"override_locks({self._outcome!r}): the lock {request.keys.lock!r} would be "
                "waited for for ever; give it a blocking_timeout"
            )
        return not busy

    async def _release_compat(self, *_: object) -> bool:
        self._require_server()
        return self._outcome == "granted"

    async def _extend_compat(self, *_: object, replace: bool) -> int:  # noqa: ARG002 - as `extend`
        self._require_server()
        return commands.EXTENDED if self._outcome == "granted" else commands.NOT_OWNED

    def _require_server(self) -> None:
        if self._outcome == "unavailable":
            raise RedisConnectionError("override_locks('unavailable'): nothing answers")

    async def _transact(self, _function: object, plan: Transaction, *, suspends: bool) -> NoReturn:  # noqa: ARG002 - as `transact`
        if self._outcome in ("busy", "full"):
            msg = (
                f"override_locks({self._outcome!r}): {', '.join(plan.keys)} kept changing. Nothing "
                "was written"
            )
            raise TooMuchContention(msg, plan.keys, plan.options.attempts)
        msg = "override_locks('unavailable'): nothing answers. Nothing was written"
        raise LockBackendError(msg)


async def _run(waiter: acquire.LockWait) -> Won | Refused:
    driver, request, wait = waiter.driver, waiter.request, waiter.wait
    outcome: Won | Refused = await driver.acquire(request, wait)  # type: ignore[attr-defined]
    if isinstance(outcome, Refused):
        waits = wait != 0 and not outcome.full_at
        for kind in ("contended", "timed_out") if waits else ("contended",):
            await lock_events.tell_refused(driver, kind, request, outcome, wait=wait)
    waiter.sent = True
    return outcome
