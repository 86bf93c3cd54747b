"""What redis-py documents of its locks, shown of redis-py's own classes and of ours alike."""

from __future__ import annotations

import inspect
import logging
import time
from typing import Any

import pytest
import redis
from redis.asyncio.lock import Lock as AsyncRedisLock
from redis.exceptions import DataError, LockError, LockNotOwnedError, ResponseError
from redis.lock import Lock as RedisLock

from redis_locks.compat import AsyncLock, Lock
from tests.compat.conftest import Observer
from tests.compat.worlds import World
from tests.support.world import PATIENCE, Threads

GIVEN = "given"
PAIRS = [(RedisLock, Lock), (AsyncRedisLock, AsyncLock)]
# redis-py 5 has no such argument.
CAN_STAY_SILENT = "raise_on_release_error" in inspect.signature(RedisLock).parameters


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_every_method_takes_the_same_arguments_with_the_same_defaults(
    theirs: type, ours: type
) -> None:
    assert parameters(theirs) == parameters(ours)[: None if CAN_STAY_SILENT else -1]
    for method in ("acquire", "release", "do_release", "extend", "reacquire", "locked", "owned"):
        assert parameters(getattr(theirs, method)) == parameters(getattr(ours, method)), method


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_there_is_everything_that_there_is_in_redis_py_s(theirs: type, ours: type) -> None:
    assert set() == public(theirs) - public(ours)
    assert issubclass(ours, theirs)


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 2}])
def test_a_lock_keeps_its_arguments_as_attributes(
    world: World, name: str, options: dict[str, Any]
) -> None:
    client = world.client(**options)
    handle = world.lock(name, client=client)
    lock = handle.lock
    assert (client, name, None, 0.1, True, None, True) == (
        lock.redis,
        lock.name,
        lock.timeout,
        lock.sleep,
        lock.blocking,
        lock.blocking_timeout,
        lock.thread_local,
    )
    assert lock.raise_on_release_error if CAN_STAY_SILENT else True
    assert handle.token is None


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "text"])
def test_the_key_holds_the_token_for_ever_until_release(
    world: World, server_side: Observer, name: str, decode: bool, protocol: int
) -> None:
    client = world.client(decode_responses=decode, protocol=protocol)
    lock = world.lock(name, client=client)
    assert lock.acquire() is True
    assert isinstance(lock.token, bytes)
    assert lock.token == server_side.client.get(name)
    assert -1 == server_side.client.pttl(name)
    assert lock.owned() is True
    assert lock.release() is None
    assert set() == server_side.keys()
    assert lock.token is None
    assert lock.owned() is False


def test_two_acquires_have_different_tokens(world: World, name: str) -> None:
    lock = world.lock(name)
    tokens = set()
    for _ in range(2):
        lock.acquire()
        tokens.add(lock.token)
        lock.release()
    assert 2 == len(tokens)


@pytest.mark.parametrize("token", ["my token", b"my token", "tökén\n", b"\x00\xff {}"])
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "text"])
def test_the_token_may_be_given(
    world: World, server_side: Observer, name: str, token: Any, decode: bool
) -> None:
    lock = world.held(name, client=world.client(decode_responses=decode), token=token)
    expected = token if isinstance(token, bytes) else token.encode()
    assert (expected, expected) == (lock.token, server_side.client.get(name))
    lock.release()
    assert server_side.client.get(name) is None


def test_a_given_token_does_not_make_the_lock_reentrant(world: World, name: str) -> None:
    first, second = world.lock(name), world.lock(name)
    assert first.acquire(token=GIVEN)
    assert second.acquire(token=GIVEN, blocking=False) is False
    assert first.acquire(token=GIVEN, blocking=False) is False


def test_something_that_is_no_lock_is_in_the_way(
    world: World, server_side: Observer, name: str
) -> None:
    server_side.client.rpush(name, "a list")
    assert world.lock(name).acquire(blocking=False) is False
    assert world.lock(name, blocking_timeout=0.05).acquire() is False
    assert [b"a list"] == server_side.client.lrange(name, 0, -1)
    server_side.client.delete(name)


def test_a_token_that_is_neither_text_nor_bytes_is_refused(world: World, name: str) -> None:
    with pytest.raises(DataError):
        world.lock(name).acquire(token=[])


@pytest.mark.parametrize("key", ["text", b"bytes", "ünï cödé", "{tag}:x", "*?[]"])
def test_the_name_is_the_key(world: World, client: redis.Redis, name: str, key: Any) -> None:
    key = name.encode() + key if isinstance(key, bytes) else name + key
    lock = world.held(key)
    assert lock.token == client.get(key)
    lock.release()
    assert not client.exists(key)


@pytest.mark.parametrize(
    ("timeout", "least", "most"),
    [(10, 9_600, 10_000), (9.5, 9_100, 9_500), (0.5, 100, 500), (None, -1, -1), (0, -1, -1)],
)
def test_timeout_is_the_longest_life_of_the_lock_in_seconds_and_none_is_for_ever(
    world: World, client: redis.Redis, name: str, timeout: Any, least: int, most: int
) -> None:
    world.held(name, timeout=timeout)
    assert least <= client.pttl(name) <= most


@pytest.mark.parametrize("timeout", [0.0001, -1, -0.001, -5])
def test_an_impossible_timeout_is_refused_by_the_server(
    world: World, server_side: Observer, name: str, timeout: float
) -> None:
    with pytest.raises(ResponseError, match="invalid expire"):
        world.held(name, timeout=timeout)
    assert set() == server_side.keys()


def test_after_its_timeout_the_lock_is_free(world: World, name: str) -> None:
    first, second = world.lock(name, timeout=0.2), world.lock(name)
    first.acquire()
    assert second.acquire(blocking_timeout=5)
    assert not first.owned()
    with pytest.raises(LockNotOwnedError):
        first.release()
    assert second.owned()


def test_the_lock_excludes_others_and_itself(world: World, name: str) -> None:
    first, second = world.lock(name), world.lock(name)
    assert first.acquire(blocking=False) is True
    assert second.acquire(blocking=False) is False
    assert first.acquire(blocking=False) is False
    assert first.owned()
    assert second.token is None
    first.release()
    assert second.acquire(blocking=False)


def test_blocking_may_be_set_on_the_lock_and_overridden_by_acquire(world: World, name: str) -> None:
    first = world.held(name)
    impatient = world.lock(name, blocking=False, blocking_timeout=PATIENCE)
    started = time.monotonic()
    assert impatient.acquire() is False
    assert time.monotonic() - started < PATIENCE / 2
    waiting = impatient.start("acquire", blocking=True)
    first.release()
    assert waiting.result(PATIENCE) is True


def test_blocking_waits_until_the_lock_is_free(world: World, name: str) -> None:
    first, second = world.lock(name), world.lock(name)
    first.acquire()
    waiting = second.start("acquire")
    with pytest.raises(TimeoutError):
        waiting.result(0.25)
    first.release()
    assert waiting.result(PATIENCE) is True
    assert second.locked()


@pytest.mark.parametrize("where", ["lock", "acquire"])
def test_blocking_timeout_bounds_the_wait(world: World, name: str, where: str) -> None:
    world.held(name)
    options = {"blocking_timeout": 0.4}
    lock = world.lock(name, sleep=0.05, **(options if where == "lock" else {}))
    started = time.monotonic()
    assert lock.acquire(**(options if where == "acquire" else {})) is False
    assert 0.35 <= time.monotonic() - started < PATIENCE / 2
    assert lock.token is None


def test_a_sleep_longer_than_blocking_timeout_leaves_time_for_one_try(
    world: World, name: str
) -> None:
    world.held(name)
    started = time.monotonic()
    assert world.lock(name, sleep=2 * PATIENCE, blocking_timeout=PATIENCE).acquire() is False
    assert time.monotonic() - started < PATIENCE / 2


@pytest.mark.parametrize("options", [{"blocking_timeout": 0}, {"blocking": False}])
def test_a_free_lock_is_acquired_without_any_time_to_wait(
    world: World, name: str, options: dict[str, Any]
) -> None:
    assert world.lock(name, **options).acquire()


def test_the_context_manager_gives_the_lock_itself_and_releases_it(
    world: World, client: redis.Redis, name: str
) -> None:
    lock = world.lock(name)
    token = lock.block(
        lambda entered: (entered is lock.lock, entered.local.token, client.get(name))
    )
    assert token[0] is True
    assert token[1] == token[2]
    assert client.get(name) is None


def test_the_context_manager_releases_when_its_body_fails(
    world: World, client: redis.Redis, name: str
) -> None:
    with pytest.raises(ZeroDivisionError):
        world.lock(name).block(lambda _: 1 / 0)
    assert client.get(name) is None


def test_the_context_manager_raises_when_the_lock_can_not_be_had(world: World, name: str) -> None:
    world.held(name)
    with pytest.raises(LockError, match="Unable to acquire lock within the time specified"):
        world.lock(name, blocking_timeout=0.1).block(lambda _: pytest.fail("entered"))


def test_the_context_manager_raises_when_the_lock_was_lost(
    world: World, client: redis.Redis, name: str
) -> None:
    with pytest.raises(LockNotOwnedError):
        world.lock(name).block(lambda _: client.set(name, "theirs"))
    with pytest.raises(LockError):
        world.lock(f"{name}:2").block(lambda lock: setattr(lock.local, "token", None))
    assert b"theirs" == client.get(name)


@pytest.mark.skipif(not CAN_STAY_SILENT, reason="this redis-py has no such argument")
def test_the_context_manager_may_log_instead_of_raising(
    world: World, client: redis.Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    lock = world.lock(name, raise_on_release_error=False)
    with caplog.at_level(logging.WARNING):
        lock.block(lambda _: client.set(name, "theirs"))
    assert ["Lock was unlocked or no longer owned when exiting context manager."] == [
        record.message for record in caplog.records
    ]


@pytest.mark.skipif(CAN_STAY_SILENT, reason="this redis-py has the argument")
def test_an_argument_that_redis_py_does_not_have_yet_is_refused(world: World, name: str) -> None:
    with pytest.raises(TypeError, match="raise_on_release_error"):
        world.lock(name, raise_on_release_error=False)


def test_release_of_a_lock_that_was_not_acquired_raises(world: World, name: str) -> None:
    with pytest.raises(LockError, match="unlocked") as caught:
        world.lock(name).release()
    assert isinstance(caught.value, redis.RedisError)
    assert isinstance(caught.value, ValueError)
    assert not isinstance(caught.value, LockNotOwnedError)
    if CAN_STAY_SILENT and world.lock_class is not AsyncRedisLock:  # which forgets to say
        assert name == caught.value.lock_name


def test_release_of_a_lost_lock_raises_and_leaves_the_successor_alone(
    world: World, client: redis.Redis, name: str
) -> None:
    lock = world.held(name)
    client.set(name, "theirs")
    with pytest.raises(LockNotOwnedError, match="Cannot release a lock that's no longer owned"):
        lock.release()
    assert lock.token is None
    assert b"theirs" == client.get(name)


def test_do_release_releases_whatever_lock_has_the_token(
    world: World, client: redis.Redis, name: str
) -> None:
    lock, other = world.lock(name), world.lock(name)
    lock.acquire(token=GIVEN)
    with pytest.raises(LockNotOwnedError):
        other.do_release("unknown")
    assert lock.owned()
    other.do_release(GIVEN.encode())
    assert client.get(name) is None


@pytest.mark.parametrize(
    ("arguments", "low", "high"),
    [
        ((10,), 18_000, 20_000),
        ((10.5,), 18_500, 20_500),
        ((5, True), 4_000, 5_000),
        ((0.9, True), 500, 900),
    ],
)
def test_extend_adds_seconds_or_replaces_what_is_left(
    world: World, client: redis.Redis, name: str, arguments: tuple[Any, ...], low: int, high: int
) -> None:
    lock = world.held(name, timeout=10)
    assert lock.extend(*arguments) is True
    assert low < client.pttl(name) <= high


def test_reacquire_sets_what_is_left_back_to_timeout(
    world: World, client: redis.Redis, name: str
) -> None:
    lock = world.held(name, timeout=10)
    client.pexpire(name, 5_000)
    assert lock.reacquire() is True
    assert 9_000 < client.pttl(name) <= 10_000


@pytest.mark.parametrize(("method", "arguments"), [("extend", (10,)), ("reacquire", ())])
def test_only_a_held_lock_with_a_timeout_can_be_extended_or_reacquired(
    world: World, client: redis.Redis, name: str, method: str, arguments: tuple[Any, ...]
) -> None:
    endless = world.lock(name)
    with pytest.raises(LockError, match=f"Cannot {method} an unlocked lock"):
        getattr(endless, method)(*arguments)
    endless.acquire()
    with pytest.raises(LockError, match=f"Cannot {method} a lock with no timeout"):
        getattr(endless, method)(*arguments)
    endless.release()
    lost = world.held(name, timeout=10)
    client.set(name, "theirs")
    with pytest.raises(LockNotOwnedError, match=f"Cannot {method} a lock that's no longer owned"):
        getattr(lost, method)(*arguments)


def test_locked_says_whether_anybody_holds_owned_whether_this_lock_does(
    world: World, name: str
) -> None:
    lock, other = world.lock(name), world.lock(name)
    assert (False, False) == (lock.locked(), lock.owned())
    lock.acquire()
    assert (True, True) == (lock.locked(), lock.owned())
    assert (True, False) == (other.locked(), other.owned())
    lock.release()
    assert (False, False) == (other.locked(), lock.owned())


def test_a_lock_that_is_not_thread_local_can_be_released_by_another_thread(
    world: World, client: redis.Redis, name: str
) -> None:
    lock = world.held(name, thread_local=False)
    Threads().start(lock.release).result(PATIENCE)
    assert client.get(name) is None
    assert lock.token is None


def test_a_thread_local_token_is_seen_by_no_other_thread(
    world: World, client: redis.Redis, name: str
) -> None:
    lock = world.held(name)
    assert lock.token == client.get(name)
    seen = Threads().start(lambda: getattr(lock.lock.local, "token", None)).result(PATIENCE)
    assert seen is None
