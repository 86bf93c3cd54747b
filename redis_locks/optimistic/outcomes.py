"""What the replies to a transaction's packets mean.

Values as redis-py shapes them, a conflict, or an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.client import EMPTY_RESPONSE, NEVER_DECODE
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, RedisError, ResponseError


class LinkFailed(RedisConnectionError):
    """The connection failed, or the server cannot work now.

    If EXEC was sent, it may be applied or not.
    """


def told(error: RedisError, link: Any) -> RedisError:
    """Return what to raise for an error among replies: `LinkFailed` if the server cannot work now.

    It loads its data, say, or is no longer the primary that Sentinels name.
    """
    demoted = isinstance(error, ReadOnlyError) and link.endpoint.sentinels is not None
    if not demoted and not isinstance(error, RedisConnectionError):
        return error
    link.close()
    return LinkFailed(str(error))


def require_answers(replies: Sequence[Any], link: Any) -> None:
    """Raise the first error among replies, as `told`."""
    for reply in replies:
        if isinstance(reply, RedisError):
            raise told(reply, link)


def is_applied(replies: Sequence[Any], pipe: Any) -> bool:
    """Return whether MULTI .. EXEC was applied; False: what was watched had changed.

    Raises:
        LinkFailed: The server cannot work now.
        redis.ResponseError: It refused a command. Before EXEC, nothing is applied then; in it, the
            others are.
    """
    done = replies[-1]
    if done is None:
        return False
    is_done = type(done) is list
    for answer in done if is_done else replies:
        if isinstance(answer, RedisError):
            raise _refusal(done if is_done else replies[1:], answer, pipe)
    if not is_done or len(done) != len(replies) - 2:
        pipe.link.close()
        msg = "the replies do not match the commands: one of these has ended the transaction"
        raise ResponseError(msg)
    return True


def replies_of(pipe: Any, answers: Sequence[Any]) -> list[Any]:
    """Return the replies to what was queued, as redis-py's callbacks shape them.

    Some of those of asyncio are to be awaited.
    """
    replies = []
    for (words, options), reply in zip(pipe.command_stack, answers, strict=False):
        callback = pipe.response_callbacks.get(str(words[0]).upper())
        given = {name: value for name, value in options.items() if name not in _FOR_REDIS_PY}
        replies.append(reply if callback is None else callback(reply, **given))
    return replies


_FOR_REDIS_PY = {"keys", EMPTY_RESPONSE, NEVER_DECODE}
"""Options of commands that are not for callbacks."""


def _refusal(answers: Sequence[Any], error: RedisError, pipe: Any) -> RedisError:
    """Return the error that is one of the answers, with the command that it is about."""
    for number, ((words, _), answer) in enumerate(zip(pipe.command_stack, answers, strict=False)):
        if answer is error:
            pipe.annotate_exception(error, number + 1, words)
    return told(error, pipe.link)


def shaped(
    replies: Sequence[Any], names: Sequence[str], callbacks: dict[str, Any], link: Any
) -> list[Any]:
    """Return replies to commands, named in capitals, as redis-py's callbacks shape them.

    Raises as `require_answers`.
    """
    values = []
    for name, reply in zip(names, replies, strict=True):
        if isinstance(reply, RedisError):
            raise told(reply, link)
        # Not by the dictionary's own method, which first turns each name into capitals.
        callback = dict.get(callbacks, name)
        values.append(reply if callback is None else callback(reply))
    return values
