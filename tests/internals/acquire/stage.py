"""One lock, and what happens to it between two steps of those who take it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from inspect import iscoroutinefunction
from typing import Any, NamedTuple
from unittest.mock import patch

import redis

from redis_locks import Hold, Lock, scripts
from redis_locks.drivers.asynchronous import AsyncLink
from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.scripts import Script
from tests.support import stored
from tests.support.world import PATIENCE, Observer, Threads, keys_of

COUNTED = [script for script in scripts.ALL if not script.is_extension]
"""Those that a case runs; holds are extended whenever it is time for that."""

LEASE = 60

Happening = Callable[[Any], object]


def nothing(_: BlockingLink | AsyncLink) -> None:
    pass


def interrupt(_: BlockingLink) -> None:
    raise KeyboardInterrupt


def cancel(_: AsyncLink) -> None:
    task = asyncio.current_task()
    assert task
    task.cancel()


def lose(link: BlockingLink | AsyncLink) -> None:
    link.close()
    msg = "the reply is lost"
    raise LinkBroken(msg)


class Stage(NamedTuple):
    """One lock on a server of its own, where two connections are open and idle."""

    lock: Lock
    client: redis.Redis
    driver: BlockingDriver
    ran: list[Script]
    """The scripts that the server has run, and replied to."""

    @property
    def observed(self) -> Observer:
        return Observer(self.client)

    @property
    def using(self) -> str:
        return str(self.lock.options.using)

    def again(self, **options: Any) -> Lock:
        """The same lock, described otherwise."""
        given: dict[str, Any] = {"using": self.using, "lease": LEASE}
        return Lock(self.lock.name, **given | options)

    def in_line(self, lock: Lock | None = None) -> Future[Any]:
        """Start to wait in another thread; return when it stands in the queue."""
        place = self.observed.waiters(self.lock.name) + 1
        future = Threads().start((lock or self.lock).acquire, wait=PATIENCE)
        self.observed.until_waiters(self.lock.name, place)
        return future

    def checked(self, hold: Hold) -> Hold:
        """Return `hold`, of which the server knows what it knows itself."""
        left = (
            stored.lease_left_ms(self.client, keys_of(self.lock.name).lock) / 1000 - hold.remaining
        )
        assert hold.token == self.observed.holder(self.lock.name)
        assert hold.fencing_token == self.observed.fencing_token(self.lock.name)
        # It believes in no more than it has, which is told in whole milliseconds, and in hardly less.
        assert -0.003 < left < PATIENCE
        return hold

    def end(self, waiting: Future[Any]) -> None:
        """Release what somebody waited for."""
        self.checked(waiting.result(PATIENCE)).release()

    def kill_connections(self) -> None:
        self.client.client_kill_filter(_type="pubsub", skipme=True)

    def asking(
        self, script: Script, *, before: Happening = nothing, after: Happening = nothing
    ) -> AbstractContextManager[None]:
        """Let things happen before the next call of the script is sent, and after its reply."""
        sent = BlockingLink, ("exchange", "exchange_all", "message_after")
        return once(*sent, lambda commands, *_: script.sha in commands, before, after)

    def listening(
        self, *, before: Happening = nothing, after: Happening = nothing
    ) -> AbstractContextManager[None]:
        """Let things happen before a waiter listens, and after it has heard something."""
        heard = BlockingLink, ("receive", "message_after")
        return once(*heard, lambda *_: True, before, after)


def without_messages() -> AbstractContextManager[object]:
    """The message that answers a silent question reaches no waiter."""
    plain = BlockingLink.message_after

    def message_after(link: BlockingLink, sent: bytes, token: bytes, *args: Any) -> bytes | None:
        return plain(link, sent, b"another than " + token, *args)

    return patch.object(BlockingLink, "message_after", message_after)


@contextmanager
def once(
    of: type,
    methods: str | tuple[str, ...],
    applies: Callable[..., bool],
    before: Happening,
    after: Happening,
) -> Iterator[None]:
    """Let things happen before and after the next call of a method that `applies`, which the block waits for."""
    due = [True]

    def disturbed(plain: Callable[..., Any]) -> Callable[..., Any]:
        def promptly(its: Any, *args: Any, **options: Any) -> Any:
            if not due or not applies(*args):
                return plain(its, *args, **options)
            due.clear()
            before(its)
            result = plain(its, *args, **options)
            after(its)
            return result

        async def call(its: Any, *args: Any, **options: Any) -> Any:
            if not due or not applies(*args):
                return await plain(its, *args, **options)
            due.clear()
            before(its)
            result = await plain(its, *args, **options)
            after(its)
            return result

        return call if iscoroutinefunction(plain) else promptly

    names = (methods,) if isinstance(methods, str) else methods
    with patch.multiple(of, **{name: disturbed(getattr(of, name)) for name in names}):
        yield
    assert not due


@contextmanager
def recorded(driver: BlockingDriver) -> Iterator[list[Script]]:
    """The scripts that the server has run for a driver and replied to, in order."""
    ran: list[Script] = []

    def record(link: BlockingLink | AsyncLink, sent: bytes) -> None:
        if link.endpoint is driver._endpoint:
            ran.extend(each for each in COUNTED if each.sha in sent or each.text in sent)

    def recording(kind: type, name: str) -> Any:
        plain = getattr(kind, name)

        def promptly(link: Any, sent: bytes, *args: Any) -> Any:
            reply = plain(link, sent, *args)
            record(link, sent)
            return reply

        async def call(link: Any, sent: bytes, *args: Any) -> Any:
            result = await plain(link, sent, *args)
            record(link, sent)
            return result

        return patch.object(kind, name, call if iscoroutinefunction(plain) else promptly)

    with ExitStack() as stack:
        for name in ("exchange", "exchange_all", "message_after"):
            stack.enter_context(recording(BlockingLink, name))
        for name in ("exchange", "exchange_all", "round_trip"):
            stack.enter_context(recording(AsyncLink, name))
        yield ran
