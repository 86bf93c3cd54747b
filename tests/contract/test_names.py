"""A name may be any text: it is data everywhere."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
import redis
from django.utils.functional import SimpleLazyObject

from redis_locks import Hold, Lock, Semaphore, inspection, redis_lock, run_once
from tests.support import stored
from tests.support.world import Observer, World, held, keys_of

HOSTILE = [
    "a}{b", "{0}", "}:holder:x", "*", "?[a-z]", "a b", "a\r\nDEL x\r\n", "%s %d", "$5\r\n",
    "'; return 1 --", "]] .. redis.call('FLUSHALL') .. [[", "\x1b[2J", "\u202egpj", "é" * 200,
    "x:fence:y", "..", "/", "käse:🔒", " ", "'\"\\", "{}", "a{b}c", "line\nbreak",
    "x" * 475,  # with the name of a test the longest that there may be
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


@pytest.mark.parametrize(
    "acquire",
    [
        lambda name: Lock(name).acquire(),
        lambda name: Lock("first", name).acquire(),
        lambda name: redis_lock(name).acquire(),
        lambda name: Semaphore(name, 2).acquire(),
        lambda name: run_once(name).acquire(),
    ],
    ids=["lock", "set", "redis_lock", "semaphore", "run_once"],
)
def test_a_name_that_is_an_enum_is_the_text_it_is_equal_to(
    acquire: Callable[[str], Hold], name: str
) -> None:
    """Its `__format__` gives another text, so processes would have locked by two names."""
    kind = Enum("Kind", {"A": name}, type=str)
    with acquire(kind.A):
        assert name in inspection.names()
        assert str(kind.A) not in inspection.names()


@pytest.mark.parametrize("decorate", [redis_lock, lambda name: Semaphore(name, 1), run_once])
def test_the_name_of_a_decorated_function_may_be_an_enum(decorate: Any, name: str) -> None:
    kind = Enum("Kind", {"A": name}, type=str)
    held: list[str] = []
    decorate(kind.A)(lambda: held.extend(inspection.names()))()
    assert name in held


def test_an_enum_that_is_a_template_names_no_block(name: str) -> None:
    kind = Enum("Kind", {"A": f"{name}:{{field}}"}, type=str)
    with pytest.raises(ValueError, match=r"has the field \{field\}"):
        redis_lock(kind.A).acquire()


def test_a_name_may_be_a_lazy_object_of_django(name: str) -> None:
    with Lock(SimpleLazyObject(lambda: name)):
        assert name in inspection.names()
