"""Calls to the server: tests count them, delay them and lose their replies.

A call is named after its verb, such as "acquire" or "commit".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redis_locks.drivers.asynchronous import AsyncDriver, AsyncLink
from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol import acquire, store
from redis_locks.protocol.lease import Lease

Handler = Callable[..., Awaitable[Any]]


def intercept(monkeypatch: pytest.MonkeyPatch, verb: str, handler: Handler) -> None:
    """Have `handler(plain, *args, **options)` answer calls of `verb`; `plain` is the real call."""
    plain = getattr(store, verb)
    if verb in {"acquire", "release", "commit"}:
        ask_by_calls(monkeypatch)

    async def call(*args: Any, **options: Any) -> Any:
        return await handler(plain, *args, **options)

    monkeypatch.setattr(store, verb, call)


def ask_by_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no acquire, release or commit go the usual way, a packet on a connection at hand."""
    for driver in (BlockingDriver, AsyncDriver):
        monkeypatch.setattr(driver, "take", lambda *_: None)


def lose_the_reply(
    monkeypatch: pytest.MonkeyPatch, verb: str, error: BaseException | None = None
) -> None:
    """Raise `error` in place of the reply to the next call of `verb`; later calls are normal.

    None: the connection breaks.
    """
    errors = [error or LinkBroken("the reply was lost")]

    async def lost(plain: Handler, *args: Any, **options: Any) -> Any:
        reply = await plain(*args, **options)
        if errors:
            raise errors.pop()
        return reply

    intercept(monkeypatch, verb, lost)


def lose_all_replies(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Break the connection after each call of `verb`, before its reply is read."""

    async def lost(plain: Handler, *args: Any, **options: Any) -> Any:
        await plain(*args, **options)
        raise LinkBroken("the reply was lost")

    intercept(monkeypatch, verb, lost)


def delay_reads(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let replies to commands of ``read=`` come so many seconds late."""
    exchange_all, answer = BlockingLink.exchange_all, AsyncLink.answer

    def late(link: BlockingLink, *args: Any) -> Any:
        replies = exchange_all(link, *args)
        time.sleep(seconds)
        return replies

    async def alate(link: AsyncLink) -> Any:
        reply = await answer(link)
        if isinstance(reply, list):
            await asyncio.sleep(seconds)
        return reply

    monkeypatch.setattr(BlockingLink, "exchange_all", late)
    monkeypatch.setattr(AsyncLink, "answer", alate)


def refuse(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """The server refuses each call of `verb`."""

    async def refused(*_: Any, **__: Any) -> Any:
        msg = "the server refuses that"
        raise LockBackendError(msg)

    intercept(monkeypatch, verb, refused)


def forbid(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Fail the test's code with an unexpected error when it calls `verb`."""
    monkeypatch.delattr(store, verb)


def record_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each acquire from here on may wait, in seconds."""
    plain, waits = Lease.ask, []

    def noted(lease: Any, driver: Any, wait: float, *rest: Any) -> Any:
        waits.append(wait)
        return plain(lease, driver, wait, *rest)

    monkeypatch.setattr(Lease, "ask", noted)
    return waits


def count_looks(count: Callable[[], object]) -> None:
    """Call `count` each time that this process looks for a deadlock; nothing ends this."""
    detect_call = store.detect_call

    def counted(*args: Any) -> Any:
        count()
        return detect_call(*args)

    store.detect_call = counted


def look_as_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for a deadlock knows nothing of what this process holds."""
    monkeypatch.setattr(acquire, "unconfirmed", lambda: "")
