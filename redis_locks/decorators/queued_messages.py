"""A message in a task queue, and the lock that it holds until its task begins or ends.

So a second message is refused. An operator sees the first one and can release it. A lost message
holds no longer than its lease.

A message may be delivered twice. With ``until="end"``, each of its runs shares the lock by a hold
of its own. So the last run to end frees the name. A cooldown is a shared hold, too, which nobody
renews.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, Literal, NamedTuple

from redis_locks import scripts
from redis_locks.conf.name_function import server_name
from redis_locks.conf.settings import get_settings
from redis_locks.decorators.calls import one_name_of
from redis_locks.exceptions import LockError
from redis_locks.locks.lock import Side
from redis_locks.locks.scope import Scope
from redis_locks.protocol import acquire, store
from redis_locks.protocol.callers import note_unconfirmed
from redis_locks.protocol.lease import Lease
from redis_locks.protocol.plans import Plan, Terms
from redis_locks.protocol.store import Request, Won
from redis_locks.values.claims import Claim
from redis_locks.values.durations import MAX_SECONDS
from redis_locks.values.identity import COOLDOWN, token_without_process
from redis_locks.values.keys import QUEUED

logger = logging.getLogger("redis_locks")

_SENDING_MS = 60_000
"""The lease of a message while it is being sent. The process may die before, and then only the
lease ends the lock.
"""

_NOBODY = "queuedTask"
"""In the place of a process's name in the tokens of messages, which are no process's."""

RUN: Final = "run of "
"""What the labels of holds of runs begin with."""

Args = tuple[Any, ...]
Naming = Callable[[Args, Mapping[str, Any]], str]

Until = Literal["start", "end"]


class Rule(NamedTuple):
    """Which messages are the same, and how long one keeps the next one out; see `unique_task`."""

    name: str | Callable[..., str] | None
    until: Until
    lease_ms: int
    using: str | None
    queue_scope: Scope | None
    """Of the transactions in whose database the queue is; None: it is in none."""
    cooldown_ms: int
    """How long the name stays closed after the task has begun, or ended; 0: not at all."""

    def naming(self, function: Callable[..., Any]) -> Naming:
        """Return what names the lock that a message with a call's arguments holds.

        Raises:
            TypeError: The name is of the wrong type.
            ValueError: The template does not fit `function`.
        """
        name_of = one_name_of("a unique task", function, self.name)
        return lambda args, kwargs: server_name(QUEUED + name_of(args, kwargs))


def token_of(task_id: str) -> str:
    """Return the token of the message of the Celery task with this id.

    It is the message's own, wherever it is delivered.
    """
    return token_without_process(_NOBODY, task_id)


class AlreadyQueued(NamedTuple):
    """Another message is queued already; `label` is what it was queued as, if that is known."""

    label: str


class Message(NamedTuple):
    """A message in a queue, whose token holds, or is to hold, the lock `name`."""

    rule: Rule
    name: str
    token: str
    label: str | None = None

    async def queue(self, side: Side, *, again: bool = False) -> AlreadyQueued | None:
        """Take the lock for a message; `AlreadyQueued` if another message has it.

        `again`: whether it may have the lock already, as it was queued before.

        Raises:
            LockBackendError: Redis could not be asked.
        """
        request = self.request(side)
        if again and await self._extend(side, request):
            return None
        outcome = await acquire.acquire(side.driver, request, 0)
        if isinstance(outcome, Won):
            return None
        claim = Claim.parse(outcome.claim)
        return AlreadyQueued(claim.who.label if claim and claim.who else "")

    async def send(self, side: Side, *, again: bool = False) -> AlreadyQueued | None:
        """Take the lock, for a minute at most, for a message that is to be sent; see `queue`."""
        rule = self.rule._replace(lease_ms=min(self.rule.lease_ms, _SENDING_MS))
        return await self._replace(rule=rule).queue(side, again=again)

    async def sent(self, side: Side, delay: float) -> None:
        """Keep the lock for a message that is in the queue now, and due in `delay` seconds.

        Logs errors.
        """
        try:
            await self._extend(side, self.request(side, delay))
        except LockError as error:
            logger.warning(
                "The unique task %r may be queued again before it begins: %s", self.name, error
            )

    async def share(self, side: Side) -> bool:
        """Let holds that are not of messages share the lock.

        False if the message does not have it.
        """
        keys = side.backend.keys(self.name)
        return await side.backend.ask(
            side.driver, lambda link: store.downgrade(link, keys, self.token)
        )

    async def withdraw(self, side: Side, *tokens: str) -> bool:
        """Give the lock up, for a message that is not in the queue any more.

        Or end other holds, by their tokens.

        Returns False, and logs the error, if Redis could not be asked: the lease ends it.
        """
        keys = side.backend.keys(self.name)
        calls = [(keys, (token,)) for token in tokens or (self.token,)]
        replies: Sequence[object]
        try:
            replies = await side.backend.ask(
                side.driver, lambda link: link.call_many(scripts.RELEASE, calls)
            )
        except LockError as error:
            replies = [error]
        failed = [reply for reply in replies if isinstance(reply, Exception)]
        if failed:
            logger.warning(
                "The unique task %r is blocked until its lease ends: %s", self.name, failed[0]
            )
        return not failed

    def lease(self, side: Side, delay: float = 0.0) -> Lease:
        """Return what it asks for."""
        milliseconds = round(min(max(delay, 0) * 1000 + self.rule.lease_ms, MAX_SECONDS * 1000))
        terms = Terms("exclusive", milliseconds, backend=side.backend, label=self.label)
        return Lease(self._plan(side, terms), side.session, side.renewer, self.token)

    def beside(self, side: Side, what: str, milliseconds: int) -> Lease:
        """Return what shares the lock with the message: a run of it, or its cooldown."""
        label = what if self.label is None else f"{what}{self.label}"
        terms = Terms("shared", milliseconds, backend=side.backend, label=label)
        return Lease(self._plan(side, terms), side.session, side.renewer)

    def _plan(self, side: Side, terms: Terms) -> Plan:
        return Plan(terms, (self.name,), side.backend.keys(self.name), is_found=False)

    def request(self, side: Side, delay: float = 0.0) -> Request:
        """Return what asks for the lock."""
        request = self.lease(side, delay).request
        request.reused = True  # the queue may deliver it twice
        return request

    async def _extend(self, side: Side, request: Request) -> bool:
        left = await side.backend.ask(
            side.driver,
            lambda link: store.extend(
                link, scripts.EXTEND, request.keys, request.token, request.lease_ms
            ),
        )
        return left is not None


class QueuedRun:
    """A task that runs, and its message's lock: released, or held and renewed.

    Never keeps the task from running: that was promised when it was queued.
    """

    def __init__(self, message: Message) -> None:
        self.message = message
        self._leases: list[Lease] = []
        """What is renewed: the message's, and that of the run."""
        self._tokens = [message.token]
        """What is released in the end."""
        self._is_over = False
        """Whether there is nothing to release, or not by this run."""

    async def begin(self, side: Side) -> None:
        """Release the lock, or share it until `end`."""
        message = self.message
        if message.rule.until == "start":
            await self._cool_down(side)
            self._is_over = await message.withdraw(side)
            return
        sent = monotonic()
        try:
            taken = await message.queue(side, again=True)
            if taken is None:
                await message.share(side)
                self._renew(message.lease(side), sent + message.rule.lease_ms / 1000)
            elif taken.label == f"{RUN}{message.label}":
                # Another run of this message goes on, and the message has been done by a third.
                self._tokens.clear()
            else:
                # Its lease ended in the queue, and another message came.
                self._is_over = True
                return
            lease_ms = min(message.rule.lease_ms, get_settings().lease_ms)
            own = message.beside(side, RUN, lease_ms)
            self._tokens.append(own.token)
            won = await acquire.acquire(side.driver, own.request, 0)
            if isinstance(won, Won):
                self._renew(own, won.deadline)
        except LockError as error:
            logger.warning(
                "The unique task %r may be queued again while it runs: %s", message.name, error
            )

    def leave(self) -> None:
        """Leave the lock to the message, which was queued again: a retry's."""
        self._tokens = [token for token in self._tokens if token != self.message.token]
        self._is_over = not self._tokens
        self._stop_renewing()

    async def end(self, side: Side) -> None:
        """Give the lock up, unless it is over.

        Ask once more if an interrupt leaves it open whether that happened.
        """
        if self._is_over:
            return
        try:
            self._stop_renewing()
            if self.message.rule.until == "end" and self.message.token in self._tokens:
                await self._cool_down(side)
            await self.message.withdraw(side, *self._tokens)
        except BaseException:
            self._stop_renewing()
            await side.driver.finish(self.message.withdraw(side, *self._tokens))
            raise

    async def _cool_down(self, side: Side) -> None:
        """Keep the name closed for a while, by a hold that nobody renews."""
        message = self.message
        if not message.rule.cooldown_ms:
            return
        closed = message.beside(side, COOLDOWN, message.rule.cooldown_ms)
        try:
            if await message.share(side):
                note_unconfirmed(closed.token)  # it ends by itself
                await acquire.acquire(side.driver, closed.request, 0)
        except LockError as error:
            logger.warning("The unique task %r has no cooldown: %s", message.name, error)

    def _renew(self, lease: Lease, deadline: float) -> None:
        lease.win(deadline, 0)
        lease.begin_unfound(self)
        self._leases.append(lease)

    def _stop_renewing(self) -> None:
        for lease in self._leases:
            lease.leave(self)
