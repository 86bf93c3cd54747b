"""Parse RESP3 replies: redis-py's parser costs 4x as much, and reads the socket by itself.

The format: https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

_Parse = Generator[None, None, Any]
"""Yields when it needs more bytes; returns the reply."""


class ErrorReply:
    """The server refused a command; `text` starts with the error's code."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"<ErrorReply {self.text}>"


class Push(list[Any]):
    """Something the server sent without being asked, such as a message."""


CONFIRMATIONS: Final = frozenset({b"subscribe", b"ssubscribe"})
"""The pushes that are the reply to a command, by their first word."""

MESSAGES: Final = frozenset({b"message", b"smessage"})
"""The pushes that are messages, by their first word."""


class ProtocolError(Exception):
    """The bytes are not RESP3, or end."""


class Parser:
    """Turns received bytes into replies, whatever pieces they arrive in."""

    __slots__ = ("_buffer", "_position", "_unfinished")

    def __init__(self) -> None:
        self._buffer = b""
        self._position = 0
        self._unfinished: _Parse | None = None

    def feed(self, data: bytes) -> list[Any]:
        """Take bytes and return the replies that are complete now.

        Raises:
            ProtocolError: There are none, as the server has closed the connection; or they are not RESP3, and
                nothing that follows can be understood.
        """
        # Nearly always the bytes are one short bulk string, two, or a message, and nothing is left over.
        if not self._buffer and self._unfinished is None:
            words = data.split(b"\r\n")
            lines = len(words)
            if lines == 3 and _SIZES.get(words[0]) == len(words[1]) and not words[2]:  # noqa: PLR2004
                return [words[1]]
            if (
                lines == 8  # noqa: PLR2004
                and words[:3] == _MESSAGE
                and _SIZES.get(words[3]) == len(words[4])
                and _SIZES.get(words[5]) == len(words[6])
                and not words[7]
            ):
                return [Push((words[2], words[4], words[6]))]
            if (
                lines == 5  # noqa: PLR2004
                and _SIZES.get(words[0]) == len(words[1])
                and _SIZES.get(words[2]) == len(words[3])
                and not words[4]
            ):
                return [words[1], words[3]]
            if (replies := _short_replies(words)) is not None:
                return replies
        return self._feed_any(data)

    def _feed_any(self, data: bytes) -> list[Any]:
        if not data:
            msg = "the server closed the connection"
            raise ProtocolError(msg)
        self._buffer = self._buffer[self._position :] + data
        self._position = 0
        replies = []
        while self._unfinished is not None or self._position < len(self._buffer):
            parse = self._unfinished or self._reply()
            self._unfinished = None
            try:
                next(parse)
            except StopIteration as stop:
                replies.append(stop.value)
            else:
                self._unfinished = parse
                break
        if self._position == len(self._buffer):
            self._buffer, self._position = b"", 0
        return replies

    def _line(self) -> Generator[None, None, bytes]:
        while (end := self._buffer.find(b"\r\n", self._position)) < 0:
            yield
        line = self._buffer[self._position : end]
        self._position = end + 2
        return line

    def _bytes(self, length: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < self._position + length + 2:
            yield
        data = self._buffer[self._position : self._position + length]
        self._position += length + 2
        return data

    def _reply(self) -> _Parse:
        line = yield from self._line()
        kind, rest = line[:1], line[1:]
        simple = _SIMPLE.get(kind)
        try:
            if simple is not None:
                return simple(rest)
            size = int(rest)
        except ValueError as error:
            raise _not_resp(line) from error
        if size < 0:
            return None
        if kind in _BLOBS:
            data = yield from self._bytes(size)
            return _error(data) if kind == b"!" else data
        if kind not in _AGGREGATES:
            raise _not_resp(line)
        items: list[Any] = Push() if kind == b">" else []
        for _ in range(size * _AGGREGATES[kind]):
            items.append((yield from self._reply()))  # noqa: PERF401 - a comprehension cannot yield
        return items


def _short_replies(words: list[bytes]) -> list[Any] | None:
    """Return the replies whose lines these are; None if they are others than follow, or not whole.

    Bulk strings, numbers and nulls, as scripts and reads bring, pairs, as a list that was waited for does, and the
    messages that come in between.
    """
    replies: list[Any] = []
    at, end = 0, len(words) - 1
    while at < end:
        line = words[at]
        if line[:1] == b"$":
            data = words[at + 1]
            if _SIZES.get(line) != len(data) and line != b"$%d" % len(data):
                return None
            replies.append(data)
            at += 2
        elif line in _LISTS:
            items = _short_list(words, at)
            if items is None:
                return None
            replies.append(items)
            at += 1 + 2 * len(items)
        else:
            if line[:1] == b":" and len(line) < _DIGITS and line[1:].isdigit():
                replies.append(int(line[1:]))
            elif line == b"_":
                replies.append(None)
            else:
                return None
            at += 1
    # What follows the end of the last one is nothing.
    return replies if replies and at == end and not words[end] else None


def _short_list(words: list[bytes], at: int) -> list[Any] | None:
    """Return the list of short bulk strings that starts at that line; None if it is none, or not whole."""
    kind, size = _LISTS[words[at]]
    items = kind(words[at + 2 : at + 2 + 2 * size : 2])
    if len(items) < size:
        return None
    for item in items:
        at += 1
        if _SIZES.get(words[at]) != len(item):
            return None
        at += 1
    return items


def _not_resp(line: bytes) -> ProtocolError:
    return ProtocolError(f"not a RESP3 reply: {line[:80]!r}")


def _error(text: bytes) -> ErrorReply:
    return ErrorReply(text.decode(errors="replace"))


_SIMPLE: Final[dict[bytes, Callable[[bytes], Any]]] = {
    b"+": bytes,
    b"-": _error,
    b":": int,
    b"(": int,
    b",": float,
    b"#": b"t".__eq__,
    b"_": lambda _: None,
}
_MESSAGE: Final = [b">3", b"$7", b"message"]
_SIZES: Final = {b"$%d" % size: size for size in range(512)}
"""The first lines of short bulk strings: to look one up takes a third of writing it."""
_DIGITS: Final = 20
"""More than any number of the server's has; Python refuses to read one of thousands."""
_LISTS: Final[dict[bytes, tuple[type[list[Any]], int]]] = {b"*2": (list, 2), b">3": (Push, 3)}
"""The first lines of short lists, what they are, and how many items they have."""
_BLOBS: Final = frozenset({b"$", b"=", b"!"})
# How many replies one counted item is.
_AGGREGATES: Final = {b"*": 1, b"~": 1, b">": 1, b"%": 2}
