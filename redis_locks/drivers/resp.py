"""RESP3 replies, parsed by hiredis; the links feed what they receive.

The format: https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

from __future__ import annotations

from typing import Any, Final

from hiredis import ProtocolError, PushNotification, Reader

__all__ = ["CONFIRMATIONS", "MESSAGES", "ErrorReply", "Parser", "ProtocolError", "Push", "as_lists"]

Push = PushNotification
"""A list that the server sent without being asked, such as a message."""

CONFIRMATIONS: Final = frozenset({b"subscribe", b"ssubscribe"})
"""The pushes that are the reply to a command, by their first word."""

MESSAGES: Final = frozenset({b"message", b"smessage"})
"""The pushes that are messages, by their first word."""

_UNFINISHED: Final = object()


class ErrorReply:
    """The server refused a command; `text` starts with the error's code."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"<ErrorReply {self.text}>"


class Parser:
    """Turns received bytes into replies, whatever pieces they arrive in."""

    __slots__ = ("_feed", "_next", "unfinished")

    def __init__(self) -> None:
        reader = Reader(replyError=ErrorReply, notEnoughData=_UNFINISHED)  # type: ignore[arg-type]
        self._feed, self._next = reader.feed, reader.gets
        self.unfinished = reader.len
        """Returns the number of bytes received of a reply that is not complete."""

    def feed(self, data: bytes) -> list[Any]:
        """Take bytes and return the replies that are complete now.

        Raises:
            ProtocolError: There are no bytes, as the server has closed the connection; or they are not RESP3,
                and nothing that follows can be understood.
        """
        if not data:
            msg = "the server closed the connection"
            raise ProtocolError(msg)
        self._feed(data)
        replies: list[Any] = []
        while (reply := self._next()) is not _UNFINISHED:
            replies.append(reply)
        return replies


def as_lists(reply: Any) -> Any:
    """Return a reply in which each map is a list of keys and values, as in RESP2."""
    if isinstance(reply, dict):
        return [as_lists(each) for item in reply.items() for each in item]
    return [as_lists(each) for each in reply] if isinstance(reply, list) else reply
