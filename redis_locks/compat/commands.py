"""One function per compat Lua script, over the user's own client, be it blocking or asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from typing import Any, Final, NamedTuple

from redis_locks.compat.client_errors import missing_script
from redis_locks.scripts import Script
from redis_locks.values.keys import CompatKeys

GRANTED: Final = 0
EXTENDED: Final = 1
NOT_OWNED: Final = 0
NOBODY: Final = b"-"
"""The channel of a waiter that cannot listen."""

ACQUIRE = Script("acquire", "redis_locks.compat")
EXTEND = Script("extend", "redis_locks.compat")
RELEASE = Script("release", "redis_locks.compat")

ALL = (ACQUIRE, EXTEND, RELEASE)


class CompatRequest(NamedTuple):
    """One call of acquire. `waiter` is its unique id; `timeout_ms` is empty for no timeout."""

    client: Any
    keys: CompatKeys
    token: bytes
    waiter: bytes
    timeout_ms: bytes


async def acquire(request: CompatRequest, channel: bytes, *, stay: bool) -> int:
    """Return GRANTED, or the place in the queue, from 1. Without `stay`, give up."""
    _, _, token, waiter, timeout_ms = request
    argv = (token, waiter, timeout_ms, channel, b"1" if stay else b"0")
    return await _run(request.client, ACQUIRE, request.keys, argv)


async def extend(
    client: Any, keys: CompatKeys, token: bytes, milliseconds: int, *, replace: bool
) -> int:
    """Return EXTENDED, or NOT_OWNED.

    Return another number if nothing would be left. Then nothing was changed.
    """
    argv = (token, b"%d" % milliseconds, b"1" if replace else b"0")
    return await _run(client, EXTEND, keys, argv)


async def release(client: Any, keys: CompatKeys, token: bytes) -> bool:
    """End the hold and hand the lock on; False if the token did not hold it."""
    return bool(await _run(client, RELEASE, keys, (token,)))


async def _run(client: Any, script: Script, keys: CompatKeys, argv: Sequence[bytes]) -> int:
    try:
        reply = client.evalsha(script.sha, len(keys), *keys, *argv)
        return int(await reply if isawaitable(reply) else reply)
    except missing_script():
        reply = client.eval(script.text, len(keys), *keys, *argv)
        return int(await reply if isawaitable(reply) else reply)
