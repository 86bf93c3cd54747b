"""Replies that the caller never sees: the server has run the script, and the call fails."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks import store


def lose_the_reply(monkeypatch: pytest.MonkeyPatch, verb: str, error: BaseException) -> None:
    """Raise `error` in place of the reply to the next call of `verb`; later calls are normal."""
    plain = getattr(store, verb)
    errors = [error]

    async def lost(*args: Any, **options: Any) -> Any:
        reply = await plain(*args, **options)
        if errors:
            raise errors.pop()
        return reply

    monkeypatch.setattr(store, verb, lost)
