"""What happens between two steps of those who take a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from inspect import iscoroutinefunction
from typing import Any
from unittest.mock import patch

from redis_locks import scripts
from redis_locks.drivers.asynchronous import AsyncLink
from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.scripts import Script

COUNTED = [script for script in scripts.ALL if not script.is_extension]
"""Those that a case runs; holds are extended whenever it is time for that."""


Happening = Callable[[Any], object]


def nothing(_: BlockingLink | AsyncLink) -> None:
    pass


def lose(link: BlockingLink | AsyncLink) -> None:
    link.close()
    msg = "the reply is lost"
    raise LinkBroken(msg)


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
    """Let things happen before and after the next call of a method that `applies`.

    The block waits for that.
    """
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
