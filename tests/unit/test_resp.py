"""What replies mean, whatever pieces they come in."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_locks.drivers.resp import (
    UNFINISHED,
    ErrorReply,
    ProtocolError,
    Push,
    as_lists,
    new_reader,
)

WIRE: dict[bytes, Any] = {
    b"$5\r\nhello\r\n": b"hello",
    b"$0\r\n\r\n": b"",
    b"$1\r\n$\r\n": b"$",
    b"$4\r\na\r\nb\r\n": b"a\r\nb",
    b"$-1\r\n": None,
    b"*-1\r\n": None,
    b"_\r\n": None,
    b"+OK\r\n": b"OK",
    b":-42\r\n": -42,
    b"(3492890328409238509324850943850943825024385\r\n": (
        b"3492890328409238509324850943850943825024385"
    ),
    b",1.5\r\n": 1.5,
    b"#t\r\n": True,
    b"#f\r\n": False,
    b"=6\r\ntxt:ab\r\n": b"ab",
    b"*0\r\n": [],
    b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n": [b"a", [1]],
    b"~1\r\n+x\r\n": [b"x"],
    b"%1\r\n+k\r\n:1\r\n": {b"k": 1},
    b"*2\r\n" * 7 + b"+x\r\n" * 8: [[[[[[[b"x"] * 2, b"x"], b"x"], b"x"], b"x"], b"x"], b"x"],
    b"$600\r\n%b\r\n" % (b"x" * 600): b"x" * 600,
    b"*2\r\n$1\r\na\r\n$0\r\n\r\n": [b"a", b""],
    b"*2\r\n$4\r\na\r\nb\r\n$1\r\nc\r\n": [b"a\r\nb", b"c"],
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n": [b"message", b"c", b"m"],
    b">3\r\n$7\r\nmessage\r\n$3\r\n\r\nc\r\n$1\r\nm\r\n": [b"message", b"\r\nc", b"m"],
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\n\r\nm\r\n": [b"message", b"c", b"\r\nm"],
}


class Parser:
    """Takes bytes as a link does."""

    def __init__(self) -> None:
        self._reader = new_reader()

    def feed(self, data: bytes) -> list[Any]:
        self._reader.feed(data)
        return list(iter(self._reader.gets, UNFINISHED))


@pytest.mark.parametrize("wire", WIRE)
def test_every_type_is_understood(wire: bytes) -> None:
    assert Parser().feed(wire) == [WIRE[wire]]


@given(st.lists(st.sampled_from(list(WIRE)), min_size=1), st.data())
def test_replies_arrive_whole_whatever_pieces_they_come_in(
    wires: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(wires)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1))))
    parser = Parser()
    replies: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        replies += parser.feed(stream[start:end])
    assert replies == [WIRE[wire] for wire in wires]


def test_a_message_behind_a_reply_is_told_when_it_is_whole() -> None:
    parser = Parser()
    assert [b"a"] == parser.feed(b"$1\r\na\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nm\r\n")
    assert [[b"message", b"c", b"m\r\nab"]] == parser.feed(b"ab\r\n")


def test_a_large_reply_costs_no_more_for_coming_in_many_pieces() -> None:
    parser, piece = Parser(), bytes(65536)
    began = process_time()
    assert [] == parser.feed(b"*2\r\n$%d\r\n" % (512 * len(piece)))
    for _ in range(512):
        assert [] == parser.feed(piece)
    assert [[512 * piece, b"x"]] == parser.feed(b"\r\n+x\r\n")
    assert process_time() - began < 1, "seconds for 32 MB"


def test_a_reply_may_be_nested_deeply() -> None:
    (reply,) = Parser().feed(b"*1\r\n" * 500 + b"+x\r\n")
    for _ in range(500):
        (reply,) = reply
    assert b"x" == reply


def test_maps_are_lists_for_those_who_read() -> None:
    (reply,) = Parser().feed(b"%1\r\n+k\r\n*1\r\n%1\r\n+a\r\n:1\r\n")
    assert [b"k", [[b"a", 1]]] == as_lists(reply)


def test_a_push_is_told_from_a_reply() -> None:
    push, reply = Parser().feed(b">1\r\n+a\r\n*1\r\n+a\r\n")
    assert isinstance(push, Push)
    assert not isinstance(reply, Push)


def test_an_error_is_told_from_text() -> None:
    (reply,) = Parser().feed(b"-NOSCRIPT no such script\r\n")
    assert isinstance(reply, ErrorReply)
    assert reply.text == "NOSCRIPT no such script"


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"!3\r\nERR\r\n",  # which no server sends
        b"$x\r\n",
        b":one\r\n",
        b":%b\r\n" % (b"9" * 5000),
    ],
)
def test_bytes_that_are_not_resp_are_refused(wire: bytes) -> None:
    with pytest.raises(ProtocolError):
        Parser().feed(wire)
