"""A server whose replies to scripts and reads are none of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from redis_locks.drivers.server_link import ServerLink

REPLIES: dict[str, Any] = {
    "nothing": None,
    "a number": 7,
    "a text": b"PONG",
    "an empty list": [],
    "a short list": [b"1", b"2"],
    "a long list": [b"x"] * 9,
    "numbers": [1, 2, 3, 4, 5, 6],
    "texts": [b"1", b"a", b"b", [b"c"], [b"d"], b"e"],
    "lists": [[b"1"], [b"2"], [b"3"]],
    "a map": {b"a": b"b"},
    "nested": [[[b"x"]], None, b"", 0],
    "no UTF-8": [b"\xff\xfe", b"\xff", b"\xff"],
    "holders without ends": [b"5", 1, 1, [b"t", b"soon", b"claim"], [], b"none"],
    "an odd list of holders": [b"5", 1, 1, [b"t", b"5"], [b"t"], b"none"],
    "a line without end": [b"5", 1, 1, [], [], b"1:2"],
    "a float beyond all": [b"1e999", b"nan", b"inf"],
}


@contextmanager
def strange_server(reply: Any) -> Iterator[None]:
    """Have every script and read be answered by `reply`."""

    async def call(self: Any, script: Any, call: Any, reads: Sequence[bytes] = ()) -> list[Any]:
        return [reply, *(reply for _ in reads)]

    async def call_many(self: Any, script: Any, calls: Sequence[Any]) -> list[Any]:
        return [reply for _ in calls]

    async def read(self: Any, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:
        return [reply for _ in reads]

    with patch.multiple(ServerLink, call=call, call_many=call_many, read=read):
        yield
