"""Pipelines that refuse mistakes, each of which would silently remove the protection.

They have redis-py's methods for commands. What is sent, and when, is decided here and in `retries`.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import Any, NoReturn

from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import EMPTY_RESPONSE, NEVER_DECODE, Pipeline
from redis.exceptions import ResponseError

from redis_locks.drivers.base import LinkBroken, run_blocking
from redis_locks.locks.reads import READ_ONLY
from redis_locks.optimistic.outcomes import LinkFailed, require_answers
from redis_locks.optimistic.packets import pack_command

# Commands that write nothing. The list of redis-py differs between its releases, and some lists
# have GEORADIUS, which may write. SCRIPT is redis-py's own, before it runs a script. PFCOUNT may
# change what it counts, and so what is watched.
_HARMLESS = READ_ONLY - {"PFCOUNT"} | {
    "BITFIELD_RO", "DBSIZE", "DIGEST", "DUMP", "ECHO", "EVALSHA_RO", "EVAL_RO", "EXPIRETIME",
    "FCALL_RO", "FT.ALIASLIST", "FT.EXPLAIN", "FT.INFO", "FT.PROFILE", "FT.SEARCH",
    "GEORADIUSBYMEMBER_RO", "GEORADIUS_RO", "HEXPIRETIME", "HPEXPIRETIME", "HPTTL", "HRANDFIELD",
    "HSCAN", "HTTL", "JSON.ARRINDEX", "JSON.ARRLEN", "JSON.GET", "JSON.MGET", "JSON.OBJKEYS",
    "JSON.OBJLEN", "JSON.RESP", "JSON.STRLEN", "JSON.TYPE", "KEYS", "LCS", "MEMORY", "OBJECT",
    "PEXPIRETIME", "PING", "RANDOMKEY", "SCAN", "SCRIPT", "SDIFFCARD", "SINTERCARD", "SORT_RO",
    "SRANDMEMBER", "SSCAN", "SUBSTR", "SUNIONCARD", "TIME", "UNWATCH", "WATCH", "XPENDING",
    "XREAD", "ZDIFF", "ZINTER", "ZINTERCARD", "ZRANDMEMBER", "ZRANGEBYLEX", "ZRANGEBYSCORE",
    "ZREVRANGE", "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE", "ZSCAN", "ZUNION",
}  # fmt: skip


def _require_reading(command: str) -> None:
    if command not in _HARMLESS and command.partition(" ")[0] not in _HARMLESS:
        raise RuntimeError(
            f"{command} before pipe.multi() would be applied at once, unprotected, and again in "
            "each attempt: call pipe.multi() first. (Should it only read: send it through "
            "another client; what is watched is protected all the same.)"
        )


Stack = list[tuple[tuple[Any, ...], dict[str, Any]]]


class _Watching:
    """What both pipelines do. It stands before redis-py's class, which has the commands."""

    read: list[Any]
    """The replies to the commands that travelled with the WATCH: those of ``read=``."""

    # What redis-py's methods look at.
    connection = None
    transaction = is_transaction = True
    shard_hint = None
    explicit_transaction = False
    watching = True

    is_protected = True
    """Whether all keys of the transaction are watched still."""

    def __init__(self, client: Any, link: Any) -> None:
        """Make the pipeline of an attempt, whose keys are watched on `link`.

        `client` has the callbacks.
        """
        self.connection_pool = client.connection_pool
        self.response_callbacks = client.response_callbacks
        self.command_stack: Stack = []
        self.scripts: set[Any] = set()
        self.link = link

    def __del__(self) -> None:
        """Nothing to give back: the transaction does that."""

    def leave(self) -> None:
        """End: nothing that is called from now on is sent."""
        self.link = None
        self.watching = self.is_protected = False

    def reset(self) -> Any:
        """Drop what was queued, and watch no more.

        redis-py's asyncio pipeline returns an awaitable.
        """
        self.command_stack, self.scripts = [], set()
        self.explicit_transaction = False
        return self.unwatch()  # type: ignore[attr-defined]  # redis-py's

    def execute(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse: the operation would be applied without being remembered."""
        del args, options
        msg = "do not call pipe.execute() here: it is done after your function has returned"
        raise RuntimeError(msg)

    def __enter__(self) -> NoReturn:
        """Refuse: the end of the block would drop what was queued."""
        raise RuntimeError(
            "do not write `with pipe:` here: queue the commands, and they are applied after your "
            "function has returned"
        )

    __aenter__ = __enter__

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Queue a command after ``multi()``; before it, run the command at once."""
        if self.explicit_transaction or not (self.watching or words[0] == "WATCH"):
            if EMPTY_RESPONSE not in options:  # else it is ``mget([])``, which no server answers
                self.command_stack.append((words, options))
            return self
        return self.immediate_execute_command(*words, **options)

    def immediate_execute_command(self, *words: Any, **options: Any) -> Any:
        """Run a command at once; only reading commands are allowed."""
        raise NotImplementedError

    async def _ask(self, words: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the reply to a command, as redis-py shapes it."""
        name, link = str(words[0]).upper(), self.link
        _require_reading(name)
        if link is None:
            raise RuntimeError(f"{name} was called on a pipeline whose transaction has ended")
        empty = options.pop(EMPTY_RESPONSE, None)
        options.pop("keys", None)  # for redis-py's cache
        try:
            reply = await self._reply(
                link, words, is_raw=options.pop(NEVER_DECODE, None) is not None
            )
        except ResponseError:
            if empty is None:
                raise
            return empty
        if name == "UNWATCH":
            self.watching = self.is_protected = False
        elif name == "WATCH":
            self.watching = True
        callback = self.response_callbacks.get(name)
        return reply if callback is None else callback(reply, **options)

    async def _reply(self, link: Any, words: tuple[Any, ...], *, is_raw: bool) -> Any:
        """Return the reply to a command as it comes; `is_raw`: in bytes."""
        packet = pack_command(words)
        if is_raw:
            link.decode(wanted=False)
        try:
            replies = await link.round_trip(packet, 1)
            require_answers(replies, link)
        except (LinkBroken, LinkFailed) as error:
            self.watching = self.is_protected = False
            raise LinkFailed(str(error)) from error
        finally:
            if is_raw:
                link.decode(wanted=True)
        return replies[0]

    def require_protection(self) -> None:
        """Raise RuntimeError if nothing protects the commands that are queued.

        The function called ``unwatch()``, or its connection failed.
        """
        if self.command_stack and not (self.explicit_transaction and self.is_protected):
            raise RuntimeError(
                "commands were queued after pipe.unwatch(), or after the connection had failed, so "
                "nothing protects them: return without writing, or let the error pass"
            )


class WatchingPipeline(_Watching, Pipeline):  # type: ignore[misc]  # stands in for a pipeline with a connection
    """The blocking pipeline that a function gets."""

    def immediate_execute_command(self, *words: Any, **options: Any) -> Any:
        """Run a command at once, as all commands before MULTI.

        Only reading commands are allowed.
        """
        return run_blocking(self._ask(words, options))


class AsyncWatchingPipeline(_Watching, AsyncPipeline):  # type: ignore[misc]  # as `WatchingPipeline`
    """The asyncio pipeline that a coroutine function gets."""

    async def immediate_execute_command(self, *words: Any, **options: Any) -> Any:
        """Run a command at once; see `WatchingPipeline`."""
        answer = await self._ask(words, options)
        return await answer if isawaitable(answer) else answer
