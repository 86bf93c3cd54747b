"""Reads that ride with the acquire, and writes that ride with the release."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

from redis_locks import Hold, Lock, LockBackendError, LockLost, LockNotHeld, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.support import calls
from tests.support.world import PATIENCE, Observer, World, granted, held, in_line, keys_of


def incr(client: redis.Redis, key: str) -> Any:
    pipe = client.pipeline()
    pipe.incr(key)
    return pipe


def test_a_transaction_takes_two_round_trips(world: World, name: str, own_side: Observer) -> None:
    client = own_side.client
    client.set(f"data:{name}", 41)
    lock = Lock(name, read=[("GET", f"data:{name}"), ("EXISTS", "nothing")])
    world.release(held(world, lock))  # connect and load the script
    world.do(held(world, lock), "commit", client.pipeline())
    before = own_side.commands()
    hold = held(world, lock)
    assert [b"41", 0] == hold.read
    world.do(hold, "commit", incr(client, f"data:{name}"))
    assert 2 == own_side.commands() - before
    assert b"42" == client.get(f"data:{name}")
    assert set() == own_side.left_of(name)


def test_what_was_written_before_a_hand_off_is_read_after_it(
    world: World, name: str, server_side: Observer
) -> None:
    client = server_side.client
    lock = Lock(name, read=[("GET", f"data:{name}")])
    hold = held(world, lock)
    assert [None] == hold.read
    waiter = in_line(world, lock, server_side)
    world.do(hold, "commit", incr(client, f"data:{name}"))
    next_hold = granted(waiter.result(PATIENCE))
    assert [b"1"] == next_hold.read
    world.release(next_hold)


def test_a_holder_that_lost_its_lock_writes_nothing(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    inspection.force_release(name)
    with pytest.raises(LockLost):
        world.do(hold, "commit", incr(server_side.client, f"data:{name}"))
    assert hold.is_lost
    assert not server_side.client.exists(f"data:{name}")
    with pytest.raises(LockLost):
        world.release(hold)


def test_a_released_hold_writes_nothing(
    world: World, name: str, client: redis.Redis, hold: Hold
) -> None:
    world.release(hold)
    with pytest.raises(LockNotHeld):
        world.do(hold, "commit", incr(client, f"data:{name}"))
    assert not client.exists(f"data:{name}")


def test_releasing_after_a_commit_does_nothing(
    world: World, name: str, client: redis.Redis, hold: Hold
) -> None:
    world.do(hold, "commit", client.pipeline())
    other = held(world, Lock(name), wait=0)
    world.release(hold)
    assert not other.is_lost
    world.do(other, "extend", 5)
    world.release(other)


def test_a_command_that_fails_is_reported_and_the_lock_released(
    world: World, name: str, server_side: Observer
) -> None:
    client = server_side.client
    client.set(f"text:{name}", "x")
    pipe = client.pipeline()
    pipe.incr(f"text:{name}")
    pipe.incr(f"data:{name}")
    with pytest.raises(ResponseError, match="integer"):
        world.do(held(world, Lock(name)), "commit", pipe)
    assert b"1" == client.get(f"data:{name}")
    assert set() == server_side.left_of(name)


def test_a_read_that_fails_is_reported_and_the_lock_released(
    world: World, name: str, server_side: Observer
) -> None:
    server_side.client.set(f"text:{name}", "x")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        world.acquire(Lock(name, read=[("HGET", f"text:{name}", "field")]))
    assert set() == server_side.left_of(name)


def test_every_kind_of_word_is_sent(world: World, name: str, client: redis.Redis) -> None:
    pipe = client.pipeline()
    pipe.set(f"data:{name}", b"\x00\r\n\xff")
    pipe.set(f"number:{name}", 1.5)
    world.do(held(world, Lock(name)), "commit", pipe)
    assert b"\x00\r\n\xff" == client.get(f"data:{name}")
    assert b"1.5" == client.get(f"number:{name}")
    assert 0 == len(pipe)


def test_a_pipeline_of_another_server_is_refused(world: World, hold: Hold) -> None:
    elsewhere = redis.Redis(port=1).pipeline()
    with pytest.raises(ValueError, match="one step needs one server"):
        world.do(hold, "commit", elsewhere)
    with pytest.raises(TypeError, match="pipe must be"):
        world.do(hold, "commit", 5)
    hold.check()
    world.release(hold)


def test_a_pipeline_that_watches_is_refused(world: World, client: redis.Redis, hold: Hold) -> None:
    with client.pipeline() as pipe:
        pipe.watch("x")  # type: ignore[no-untyped-call]
        with pytest.raises(ValueError, match="leave watch"):
            world.do(hold, "commit", pipe)
    world.release(hold)


@pytest.mark.parametrize("command", [("GET", "\udcff"), (b"\xff", b"x")])
def test_a_read_that_is_no_text_is_refused(command: Any) -> None:
    with pytest.raises(ValueError, match=r"^read must be .* UTF-8"):
        Lock("x", read=[command])


def test_the_marker_of_a_commit_goes_within_a_minute(
    world: World, name: str, client: redis.Redis, hold: Hold
) -> None:
    world.do(hold, "commit", client.pipeline())
    assert 0 < client.ttl(f"redis_locks{{0}}:done:{hold.token}") <= 60
    assert client.exists(keys_of(name).lock)


def test_where_the_lease_ends_before_what_is_read_has_come_nothing_is_applied(
    world: World, name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = f"data:{name}"
    client.set(data, 1, ex=60)
    lock = Lock(name, lease=0.3, renew=False, read=[("GET", data)])
    world.release(held(world, lock))  # the connection for large replies is open from now on
    calls.delay_reads(monkeypatch, 0.5)
    hold = held(world, lock)
    assert [b"1"] == hold.read
    assert hold.is_lost
    with pytest.raises(LockLost):
        world.do(hold, "commit", [("INCR", data)])
    assert b"1" == client.get(data)


def begun(world: World, name: str, monkeypatch: pytest.MonkeyPatch, commands: Any) -> Hold:
    """A hold that applied these commands until its lease ended, and never got a reply."""
    hold = held(world, Lock(name, lease=0.5))
    with monkeypatch.context() as replies:
        calls.lose_all_replies(replies, "commit")
        with pytest.raises(LockBackendError) as found:
            world.do(hold, "commit", commands)
    assert found.value.may_be_done
    assert hold.is_lost
    return hold


def test_a_commit_of_which_nobody_heard_is_confirmed_even_after_its_lease(
    world: World, name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [("INCR", f"{name}:count")]
    hold = begun(world, name, monkeypatch, commands)
    world.do(hold, "commit", commands)
    assert not hold.is_lost
    assert b"1" == client.get(f"{name}:count")


def test_of_a_commit_that_the_server_has_forgotten_nobody_says_that_it_was_not_applied(
    world: World, name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [("INCR", f"{name}:count")]
    hold = begun(world, name, monkeypatch, commands)
    client.delete(f"redis_locks{{0}}:done:{hold.token}")
    with pytest.raises(LockBackendError, match="has forgotten, whether") as found:
        world.do(hold, "commit", commands)
    assert found.value.may_be_done
    assert b"1" == client.get(f"{name}:count")


def test_without_memory_no_command_is_applied(name: str, private_server: EmbeddedServer) -> None:
    """The first command would be refused and the second, which needs none, applied: half a move."""
    with private_server.client() as client:
        client.rpush("todo", "job")
        hold = granted(Lock(name, using=private_server.url).acquire())
        pipe = client.pipeline()
        pipe.rpush("done", "job")
        pipe.lrem("todo", 1, "job")
        client.config_set("maxmemory", "1")
        with pytest.raises(LockBackendError, match="memory"):
            hold.commit(pipe)
        client.config_set("maxmemory", "0")
        assert 1 == client.llen("todo")
        assert 0 == client.llen("done")
        hold.release()


def test_a_command_written_as_two_words_is_understood(
    world: World, name: str, client: redis.Redis
) -> None:
    pipe = client.pipeline()
    pipe.xgroup_create(f"data:{name}", "group", mkstream=True)
    world.do(held(world, Lock(name)), "commit", pipe)
    assert 1 == len(client.xinfo_groups(f"data:{name}"))


def test_a_pipeline_may_be_used_again(world: World, name: str, client: redis.Redis) -> None:
    pipe = client.pipeline()
    for _ in range(2):
        pipe.multi()
        pipe.incr(f"data:{name}")
        world.do(held(world, Lock(name)), "commit", pipe)
    assert b"2" == client.get(f"data:{name}")


class Command(StrEnum):
    SET = "SET"


@pytest.mark.parametrize("command", ["set", b"SET", bytearray(b"SET"), Command.SET])
def test_the_name_of_a_command_may_be_text_or_bytes(
    world: World, name: str, client: redis.Redis, command: Any
) -> None:
    pipe = client.pipeline()
    pipe.execute_command(command, f"data:{name}", 1)
    world.do(held(world, Lock(name)), "commit", pipe)
    assert b"1" == client.get(f"data:{name}")


def test_a_word_of_a_command_may_be_an_enum(world: World, name: str, client: redis.Redis) -> None:
    key = Enum("Key", {"A": f"data:{name}"}, type=str)
    number = Enum("Number", {"ONE": 1}, type=int)
    world.do(held(world, Lock(name)), "commit", [("SET", key.A, number.ONE)])
    hold = held(world, Lock(name, read=[("GET", key.A)]))
    assert [b"1"] == hold.read
    world.release(hold)
    assert b"1" == client.get(f"data:{name}")


def test_what_a_script_cannot_run_is_refused_before_anything_is_applied(
    world: World, client: redis.Redis, hold: Hold
) -> None:
    for queue in (
        lambda pipe: pipe.eval("return 1", 0),
        lambda pipe: pipe.sadd("x", *range(9000)),
        lambda pipe: pipe.execute_command(" "),
        lambda pipe: pipe.execute_command("select", 1),
        lambda pipe: pipe.swapdb(0, 1),
    ):
        pipe = client.pipeline()
        queue(pipe)
        with pytest.raises(ValueError, match="commit"):
            world.do(hold, "commit", pipe)
    hold.check()
    world.release(hold)


def test_plain_commands_are_applied_with_the_release(
    world: World, name: str, own_side: Observer
) -> None:
    client = own_side.client
    world.do(held(world, Lock(name)), "commit", [])
    before = own_side.commands()
    hold = held(world, Lock(name))
    commands = [
        ("HINCRBY", f"data:{name}", "money", -5),
        ["hset", b"data:" + name.encode(), "raw", b"\xff", "rate", 1.5],
    ]
    world.do(hold, "commit", commands)
    assert 2 == own_side.commands() - before
    assert {b"money": b"-5", b"raw": b"\xff", b"rate": b"1.5"} == client.hgetall(f"data:{name}")
    assert set() == own_side.left_of(name)


def test_plain_commands_may_come_from_a_generator(
    world: World, name: str, client: redis.Redis
) -> None:
    world.do(held(world, Lock(name)), "commit", (("INCR", f"data:{name}") for _ in range(3)))
    assert b"3" == client.get(f"data:{name}")


@pytest.mark.parametrize(
    ("commands", "error", "message"),
    [
        ("INCR x", TypeError, "pipe must be"),
        (None, TypeError, "pipe must be"),
        (("INCR", "x"), TypeError, "commit must be a list of commands"),
        ([()], TypeError, "commit must be a list of commands"),
        ([{"INCR": "x"}], TypeError, "commit must be a list of commands"),
        ([(5, "x")], TypeError, "name of a command"),
        ([("SET", "x", None)], TypeError, "must be a string, bytes or a number"),
        ([("SET", "x", True)], TypeError, "must be a string, bytes or a number"),
        ([("SET", "x", "\ud800")], ValueError, "bytes, not"),
        ([("\ud800", "x")], ValueError, "bytes, not"),
        ([("", "x")], ValueError, "needs a name"),
        ([("EVAL", "return 1", 0)], ValueError, "which is a script itself"),
        ([("SELECT", 1)], ValueError, "another one|other one"),
    ],
)
def test_commands_that_are_none_are_refused_and_nothing_is_applied(
    world: World,
    name: str,
    client: redis.Redis,
    commands: Any,
    error: type[Exception],
    message: str,
    hold: Hold,
) -> None:
    wrong = [("INCR", f"data:{name}"), *commands] if isinstance(commands, list) else commands
    with pytest.raises(error, match=message):
        world.do(hold, "commit", wrong)
    assert not client.exists(f"data:{name}")
    hold.check()
    world.release(hold)
