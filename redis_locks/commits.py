"""Commands that are queued for `Hold.commit`: taken out of a redis-py pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Commands = list[list[bytes]]

MAX_WORDS = 7000
"""Most words of one command: what Lua can take apart at once."""


def queued_commands(pipe: Any, server: str) -> Commands:
    """Return the commands queued in `pipe`, ready to send.

    Args:
        pipe: What ``client.pipeline()`` returned, of redis-py or redis.asyncio.
        server: The description of the server that must run them.

    Raises:
        TypeError: `pipe` is no pipeline.
        ValueError: It belongs to another server or database or a cluster, watches keys, or has a command
            that cannot be part of a script.
    """
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis.asyncio.cluster import ClusterPipeline as AsyncClusterPipeline
    from redis.cluster import ClusterPipeline

    from redis_locks.drivers.endpoint import Endpoint

    if isinstance(pipe, ClusterPipeline | AsyncClusterPipeline):
        msg = (
            "commit(pipe) is one step on one server, and pipe belongs to a cluster, where your keys may "
            "be in other slots than the lock: execute it by itself, and let whatever it changes check "
            "hold.fencing_token"
        )
        raise ValueError(msg)  # noqa: TRY004 - of the right type, but of the wrong server
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
    return [_checked([encode(word) for word in _words(arguments)]) for arguments, _ in stack]


def _words(arguments: Sequence[Any]) -> list[Any]:
    """Return the words of a command; redis-py writes some as one, such as "XGROUP CREATE"."""
    return [*str(arguments[0]).split(), *arguments[1:]]


def _checked(command: list[bytes]) -> list[bytes]:
    name = command[0].upper()
    if name.startswith((b"EVAL", b"FCALL", b"SCRIPT")):
        msg = f"{name.decode()} cannot be part of a commit, which is a script itself; queue its commands instead"
        raise ValueError(msg)
    if len(command) > MAX_WORDS:
        msg = f"a command of a commit may have {MAX_WORDS} words, not {len(command)}: split it"
        raise ValueError(msg)
    return command
