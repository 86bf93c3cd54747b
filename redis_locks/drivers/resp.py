"""RESP3, packed and parsed by hiredis: the commands that links send, and the replies they get.

The format: https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from hiredis import ProtocolError, PushNotification, Reader, pack_command

__all__ = [
    "CONFIRMATIONS",
    "MESSAGES",
    "UNFINISHED",
    "ErrorReply",
    "ProtocolError",
    "Push",
    "Reader",
    "as_lists",
    "new_reader",
    "pack",
]

pack: Final = cast("Callable[[tuple[bytes | str, ...]], bytes]", pack_command)
"""Return a command in RESP, from its words.

They are never numbers: hiredis 3.5 crashes if a signal arrives while it turns one into text.
"""

Push = PushNotification
"""A list that the server sent without being asked, such as a message."""

CONFIRMATIONS: Final = frozenset({b"subscribe", b"ssubscribe"})
"""The pushes that are the reply to a command, by their first word."""

MESSAGES: Final = frozenset({b"message", b"smessage"})
"""The pushes that are messages, by their first word."""

UNFINISHED: Final = object()
"""What a reader returns when it needs more bytes."""


class ErrorReply:
    """The server refused a command; `text` starts with the error's code."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"<ErrorReply {self.text}>"


def new_reader(error: Callable[[str], object] = ErrorReply) -> Reader:
    """Return a parser: `feed` it bytes, in any pieces, and call `gets` until it returns UNFINISHED.

    `gets` raises ProtocolError for bytes that are not RESP3; nothing that follows can be
    understood. It returns `error` of the text where the server refused a command.
    """
    return Reader(replyError=error, notEnoughData=UNFINISHED)  # type: ignore[arg-type]


def as_lists(reply: Any) -> Any:
    """Return a reply in which each map is a list of keys and values, as in RESP2."""
    if isinstance(reply, dict):
        return [as_lists(each) for item in reply.items() for each in item]
    return [as_lists(each) for each in reply] if isinstance(reply, list) else reply
