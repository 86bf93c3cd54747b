"""The signals, sent robustly: an error in a receiver is logged and changes nothing.

Signals of locks are sent with `LockEvent` as ``sender`` and one frozen payload, ``event``, which is
only made if a receiver is connected. They are sent in the process where it happens, and after the
fact.

| signal | sent when |
|---|---|
| ``lock_acquired`` | a hold has begun |
| ``lock_detached`` | a hold was given away: it ends in this process, without a release |
| ``lock_adopted`` | a hold that was given away goes on in this process |
| ``lock_released`` | a hold has ended: by its release, its commit, or the end of its transaction |
| ``lock_lost`` | this process finds a hold lost; each hold is told of as released or lost, once |
| ``lock_contended`` | an acquire finds the lock held; it waits unless ``event.wait`` is 0 |
| ``lock_timed_out`` | it was still held at the end of a wait |
| ``deadlock_detected`` | a wait was ended for the others in ``event.circle`` to go on |
| ``lock_unavailable`` | Redis could not be asked for a lock: ``event.reason`` says why |

A hold that moves is acquired once and released, or lost, once. Its last process tells
``event.held`` seconds since the acquire, with its way and all holders in between. So statistics and
metrics count it as one acquire, where that was, and as one hold, where it ends.

A hold that is dropped without release, or whose release could not be told to Redis, ends with its
lease and without a signal; so does a wait that is cancelled. One signal is for all locks of a set,
or, of a set in several partitions, for those of one partition.

The signals of jobs are sent with one frozen payload, ``event``. Their ``sender`` is the class of
the description: `run_once`, or a class derived from it.

| signal | event | sent when |
|---|---|---|
| ``run_acquired`` | `RunEvent` | this process begins an attempt; see ``event.last_attempt`` |
| ``run_reacquired`` | `RunEvent` | it follows a failed or dead one; sent before ``run_acquired`` |
| ``run_locked`` | `RunEvent` | somebody else is at the job; sent before waiting for it |
| ``run_done`` | `RunEvent` | this process did the job and that is recorded |
| ``run_exhausted`` | `RunEvent` | no attempt is left: in the last worker, and in all later ones |
| ``run_error`` | `RunEvent` | this process's attempt failed, or Redis could not be asked |

``lock_alert`` is sent with `LockAlert` as ``sender`` and one frozen payload, ``event``, an
`AlertEvent`. One of all processes that call `diagnosis.check_alerts` sends it. It does so when a
rule of ``REDIS_LOCKS["ALERTS"]`` begins to fire, once an hour while it does, and when it is over.

A receiver, of locks or of jobs, runs where the lock is used and delays that, so it should be quick.
Receivers of ``lock_acquired`` and ``run_acquired`` run while the lock is held. In async code a
plain receiver runs in the event loop, not in a thread as with Django's own signals. So it must not
block there: a receiver that does I/O should be ``async def``. ``lock_lost`` may come in a thread or
task of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from django.dispatch import Signal

from redis_locks.protocol.lock_events import Kind, LockEvent
from redis_locks.values.interrupts import is_interrupt

__all__ = [
    "LockEvent",
    "deadlock_detected",
    "lock_acquired",
    "lock_adopted",
    "lock_alert",
    "lock_contended",
    "lock_detached",
    "lock_lost",
    "lock_released",
    "lock_timed_out",
    "lock_unavailable",
    "run_acquired",
    "run_done",
    "run_error",
    "run_exhausted",
    "run_locked",
    "run_reacquired",
]

logger = logging.getLogger("redis_locks")


class LockSignal(Signal):
    """A signal whose plain receivers run in the event loop's thread when sent in async code.

    In Django's one thread for sync code, a receiver could wait for code there that waits for this
    very lock, or job.
    """

    async def asend_robust(self, sender: Any, **named: Any) -> list[tuple[Any, Any]]:
        """Call all receivers, the async ones together; return each one's answer or error."""
        plain, coroutines = self._live_receivers(sender)
        answers = [await self._answer(receiver, sender, named) for receiver in plain]
        answers += await asyncio.gather(
            *(self._answer(receiver, sender, named) for receiver in coroutines)
        )
        return list(zip([*plain, *coroutines], answers, strict=True))

    async def _answer(self, receiver: Any, sender: Any, named: dict[str, Any]) -> Any:
        try:
            answer = receiver(signal=self, sender=sender, **named)
            return await answer if asyncio.iscoroutine(answer) else answer
        except Exception as error:
            if is_interrupt(error):
                raise
            logger.exception("Receiver %r of a signal failed", receiver)
            return error


lock_acquired = LockSignal()
lock_detached = LockSignal()
lock_adopted = LockSignal()
lock_released = LockSignal()
lock_contended = LockSignal()
lock_lost = LockSignal()
lock_timed_out = LockSignal()
deadlock_detected = LockSignal()
lock_unavailable = LockSignal()

LOCK_SIGNALS: Final[Mapping[Kind, LockSignal]] = {
    "acquired": lock_acquired,
    "detached": lock_detached,
    "adopted": lock_adopted,
    "released": lock_released,
    "contended": lock_contended,
    "lost": lock_lost,
    "timed_out": lock_timed_out,
    "deadlock": deadlock_detected,
    "unavailable": lock_unavailable,
}

lock_alert = LockSignal()

run_acquired = LockSignal()
run_reacquired = LockSignal()
run_locked = LockSignal()
run_done = LockSignal()
run_exhausted = LockSignal()
run_error = LockSignal()
