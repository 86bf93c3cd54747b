"""Commands that are queued for `Hold.commit`: taken out of a redis-py pipeline."""

from __future__ import annotations

from typing import Any

from redis_locks.drivers.endpoint import Endpoint

Commands = list[list[bytes]]


def queued_commands(pipe: Any, server: str) -> Commands:
    """Return the commands queued in `pipe`, ready to send.

    Args:
        pipe: What ``client.pipeline()`` returned, of redis-py or redis.asyncio.
        server: The description of the server that must run them.

    Raises:
        TypeError: `pipe` is no pipeline.
        ValueError: It belongs to another server or database, or watches keys.
    """
    stack = getattr(pipe, "command_stack", None)
    pool = getattr(pipe, "connection_pool", None)
    if stack is None or pool is None:
        msg = f"pipe must be what client.pipeline() returned, not {pipe!r}"
        raise TypeError(msg)
    theirs = Endpoint.from_pool(pool).description
    if theirs != server:
        msg = f"pipe belongs to {theirs}, but the lock is on {server}: one step needs one server"
        raise ValueError(msg)
    if getattr(pipe, "watching", False):
        msg = "pipe watches keys; the lock takes the place of WATCH, so leave watch() out"
        raise ValueError(msg)
    encode = pool.get_encoder().encode
    return [[encode(word) for word in arguments] for arguments, _ in stack]
