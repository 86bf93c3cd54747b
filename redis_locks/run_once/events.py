"""The events of a job. Each calls a method, which a subclass may override, and sends a signal."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Literal

from redis_locks import signals
from redis_locks.values.interrupts import is_interrupt, raise_interrupt

logger = logging.getLogger("redis_locks")

Kind = Literal["acquired", "reacquired", "locked", "done", "exhausted", "error"]


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of a job.

    Attributes:
        name: The name of the job and of its lock.
        attempt: The number of the attempt, from 1; for `locked` and `exhausted`, of the last
            attempt. 0 if there was none, or if it is not known.
        max_attempts: How many attempts there are.
        fencing_token: The fencing token of this process's attempt; 0 if it has none.
        holder: For `locked`: the holder of the lock, as text for people; None if not known.
        last_error: For `reacquired` and `exhausted`: how the last attempt ended, as text; None
            if its process died or lost the lock.
        error: For `error`: the exception.
    """

    name: str
    attempt: int
    max_attempts: int
    fencing_token: int = 0
    holder: str | None = None
    last_error: str | None = None
    error: BaseException | None = None

    @property
    def last_attempt(self) -> bool:
        """Whether no other attempt follows should this one fail."""
        return self.attempt >= self.max_attempts


class RunEvents:
    """The events of a job, as methods to override.

    They report and decide nothing: an error in one is logged. They run in the worker, `acquired`
    and `reacquired` while it holds the lock, so keep them short. For async workers they may be
    ``async def``.
    """

    def acquired(self, event: RunEvent) -> Any:
        """An attempt of this process begins; `event.last_attempt` tells if another may follow."""

    def reacquired(self, event: RunEvent) -> Any:
        """An attempt of this process takes over from one that failed or died.

        Called before `acquired`.
        """

    def locked(self, event: RunEvent) -> Any:
        """Somebody else does the job; called before the wait, if there is one."""

    def done(self, event: RunEvent) -> Any:
        """This process did the job, and Redis has recorded it."""

    def exhausted(self, event: RunEvent) -> Any:
        """No attempt is left: this process had the last one, or came later."""

    def error(self, event: RunEvent) -> Any:
        """An attempt of this process failed, or Redis could not be asked; see `event.error`."""


async def tell(job: RunEvents, kind: Kind, event: RunEvent, *, task: bool) -> None:
    """Call the method and send the signal of that name.

    Suspends only if `task`; raises only what interrupts it.
    """
    try:
        answer = getattr(job, kind)(event)
        if isawaitable(answer):
            await _allowed(answer, kind, task=task)
    except Exception as error:
        if is_interrupt(error):
            raise
        logger.exception("%s() of job %r failed; the job goes on", kind, event.name)
    signal = getattr(signals, f"run_{kind}")
    try:
        if task:
            await signal.asend_robust(sender=type(job), event=event)
        else:
            raise_interrupt(signal.send_robust(sender=type(job), event=event))
    except Exception as error:
        if is_interrupt(error):
            raise
        # An async receiver in blocking code under a running event loop cannot be called.
        logger.exception("Signal run_%s of job %r failed; the job goes on", kind, event.name)


def _allowed(answer: Any, kind: str, *, task: bool) -> Any:
    if not task:
        getattr(answer, "close", lambda: None)()
        msg = f"{kind}() must not be async: the job runs in blocking code"
        raise TypeError(msg)
    return answer
