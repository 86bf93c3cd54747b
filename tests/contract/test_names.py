"""A name may be any text: it is data everywhere."""

from __future__ import annotations

import redis

from redis_locks import Lock, inspection
from tests.support import stored
from tests.support.world import Observer, World, held, keys_of

HOSTILE = [
    "a}{b", "{0}", "}:holder:x", "*", "?[a-z]", "a b", "a\r\nDEL x\r\n", "%s %d", "$5\r\n", "'; return 1 --",
    "]] .. redis.call('FLUSHALL') .. [[", "\x1b[2J", "\u202egpj", "é" * 200, "x:fence:y", "..", "/", "käse:🔒", " ", "'\"\\",
    "{}", "a{b}c", "line\nbreak", "x" * 475,  # with the name of a test the longest that there may be
]  # fmt: skip


def test_any_text_is_just_a_name(
    world: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    names = [f"{hostile}{name}" for hostile in HOSTILE]
    holds = [held(world, Lock(each, wait=0, label=each)) for each in names]
    assert set(names) <= set(inspection.names())
    for each, hold in zip(names, holds, strict=True):
        assert stored.holder(client, keys_of(each).lock)
        waiter = world.start(world.acquire, Lock(f"{name}:free", each, wait=20))
        server_side.until_waiters(each, 1)
        world.release(hold)
        world.release(waiter.result(20))
        assert set() == server_side.left_of(each)
    assert [] == [
        key
        for key in client.scan_iter()
        if name.encode() in key and not key.startswith(b"redis_locks{0}:")
    ]
