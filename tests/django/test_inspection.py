from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest
import redis
from django.test import override_settings

from redis_locks import Lock, LockBackendError, ProtocolMismatch, inspection
from tests.django.command_calls import run
from tests.support import stored
from tests.support.inspection import work_in_parts
from tests.support.parties import held, waited_for
from tests.support.world import existing, granted, keys_of


def test_a_held_lock_shows_who_holds_it(name: str) -> None:
    with held(name, label="nightly report") as hold:
        info = existing(name)
    (holder,) = info.holders
    assert (name, "exclusive", (), 0) == (info.name, info.mode, info.waiters, info.waiting)
    assert (hold.token, hold.fencing_token) == (holder.token, holder.fencing_token)
    assert (socket.gethostname(), os.getpid()) == (holder.host, holder.pid)
    assert ("thread MainThread", "nightly report") == (holder.unit, holder.label)
    assert 0 <= holder.held_for < 30
    assert 30 < holder.lease_left <= 60


def test_the_queue_is_shown_in_order(name: str) -> None:
    with held(name), waited_for(name, "first"), waited_for(name, "second"):
        info = existing(name)
    assert 2 == info.waiting
    assert ["first", "second"] == [waiter.label for waiter in info.waiters]
    assert ["thread thread of first", "thread thread of second"] == [
        waiter.unit for waiter in info.waiters
    ]
    assert all(0 <= waiter.waited < 30 for waiter in info.waiters)


def test_the_listing_shows_each_held_lock_by_name(name: str) -> None:
    names = [f"{name}:{number}" for number in "bca"]
    with held(names[0]), held(names[1]), held(names[2]):
        found = [info.name for info in inspection.locks() if info.name.startswith(name)]
    assert sorted(names) == found
    assert not any(info.name.startswith(name) for info in inspection.locks())


def test_each_listing_says_which_locks_another_protocol_uses(
    name: str, client: redis.Redis
) -> None:
    said = "django-redis-locks with protocol 2"
    with held(name), stored.held_by_another_protocol(client, keys_of(name).lock):
        (info,) = inspection.locks(names=[name])
        (holder,) = info.holders
        assert (name, 1, 0, ()) == (info.name, info.holding, info.waiting, info.waiters)
        assert (name, said, "", "") == (holder.lock, holder.label, holder.host, holder.token)
        assert 30 < holder.lease_left <= 60
        assert name in [info.name for info in inspection.locks()]
        assert name in inspection.names()
        assert (name, said) in [(each.lock, each.label) for each in inspection.parties().holders]
        listed, _ = run("list", name, "--format", "csv")
        assert f"{name},,1,0,,0,,{said}," in listed
        shown, _ = run("list", name, "--format", "table")
        assert said in shown
        assert "pid 0" not in shown + str(holder)
        with pytest.raises(ProtocolMismatch):
            inspection.lock(name)
        with pytest.raises(ProtocolMismatch):
            inspection.force_release(name)


def test_a_crowd_is_read_and_ended_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work_in_parts(monkeypatch, 2)
    readers = {f"reader {number}" for number in range(5)}
    for reader in sorted(readers):
        granted(Lock(name, mode="shared", lease=60, label=reader).acquire(wait=0)).detach()
    with waited_for(name, "first"), waited_for(name, "second"), waited_for(name, "third"):
        whole = existing(name)
        assert (5, readers) == (len(whole.holders), {each.label for each in whole.holders})
        assert ["first", "second", "third"] == [each.label for each in whole.waiters]
        (again,) = (each for each in inspection.contended() if each.name == name)
        assert 5 == len(again.holders)
    assert inspection.lock(name) is None  # `waited_for` ended all holds


@pytest.mark.parametrize("partitions", [1, 16])
def test_the_listing_is_limited_over_all_partitions(name: str, partitions: int) -> None:
    names = [f"{name}:{letter}" for letter in "abc"]
    settings = {"PREFIX": f"p{partitions}", "PARTITIONS": partitions}
    with override_settings(REDIS_LOCKS=settings), held(names[0]), held(names[1]), held(names[2]):
        assert names == [info.name for info in inspection.locks()]
        assert 2 == len(inspection.locks(limit=2))
        assert [] == inspection.locks(limit=0)


@pytest.mark.parametrize(
    ("tokens", "error", "said"),
    [
        ("abc.1", TypeError, "tokens must be a list, not 'abc.1' .str."),
        ([7], TypeError, "each of tokens must be a string, not 7"),
        ([""], ValueError, "each of tokens must not be empty"),
        (["abc.1 0"], ValueError, "each of tokens must be a token, not 'abc.1 0'; use .token"),
    ],
)
def test_what_is_no_token_is_refused_and_nothing_is_released(
    name: str, tokens: Any, error: type[Exception], said: str
) -> None:
    with held(name) as hold:
        with pytest.raises(error, match=said):
            inspection.force_release(name, tokens=tokens)
        with pytest.raises(error, match=said):
            asyncio.run(inspection.aforce_release(name, tokens=tokens))
        hold.extend(60)


def test_force_release_is_true_if_it_ended_a_hold(name: str) -> None:
    with held(name) as hold:
        released = inspection.force_release(name)
    assert released
    assert hold.fencing_token < released.fencing_token
    again = inspection.force_release(name)
    assert not again
    assert 0 == again.fencing_token


def test_release_by_token_never_ends_a_successors_hold(name: str) -> None:
    with held(name):
        tokens = [holder.token for holder in existing(name).holders]
    with held(name) as successor:
        assert 0 == inspection.force_release(name, tokens=tokens).ended
        assert successor.token == existing(name).holders[0].token


def test_the_async_twins_answer_the_same(name: str) -> None:
    async def ask() -> tuple[Any, ...]:
        listed = [info.name for info in await inspection.alocks() if info.name == name]
        shown = await inspection.alock(name)
        return listed, shown, await inspection.aforce_release(name), await inspection.alock(name)

    with held(name) as hold:
        listed, shown, released, afterwards = asyncio.run(ask())
    assert ([name], 1, None) == (listed, released.ended, afterwards)
    assert hold.token == shown.holders[0].token


@pytest.mark.parametrize("bad", ["", "nul\0", "x" * 513])
def test_a_bad_name_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="name"):
        inspection.lock(bad)
    with pytest.raises(ValueError, match="name"):
        inspection.force_release(bad, tokens=[])


def test_a_broken_connection_is_replaced(name: str, client: redis.Redis) -> None:
    with held(name):
        inspection.lock(name)
        client.client_kill_filter(_type="pubsub", skipme=True)
        assert inspection.lock(name)


def test_a_server_without_its_scripts_gets_them_again(name: str, client: redis.Redis) -> None:
    with held(name):
        client.script_flush()
        assert inspection.lock(name)
        client.script_flush()
        assert name in [info.name for info in inspection.locks()]


def test_a_foreign_key_is_an_error_and_stays_untouched(name: str, client: redis.Redis) -> None:
    key = f"redis_locks{{0}}:lock:{name}"
    client.set(key, "theirs")
    with pytest.raises(LockBackendError, match="another type"):
        inspection.lock(name)
    assert b"theirs" == client.get(key)
    client.delete(key)


def test_a_lease_end_that_others_wrote_is_shown(name: str, client: redis.Redis) -> None:
    """In an index or among the sharers of a lock: any number may be there."""
    index, sharers = (f"redis_locks{{0}}:{key}" for key in ("index", f"sharers:{name}"))
    with held(name, mode="shared", lease=60) as hold:
        ends = client.zscore(index, name) + 0.5
        client.zadd(index, {f"{name}:odd": ends, f"{name}:endless": "inf"})
        assert {name, f"{name}:odd", f"{name}:endless"} <= {*inspection.names()}
        client.zadd(sharers, {hold.token: ends, "endless.1": "inf"})
        assert name in run("list", name)[0]
        own, endless = existing(name).holders
        assert 50 < own.lease_left <= 60 < endless.lease_left
        client.zrem(index, f"{name}:odd", f"{name}:endless")
        client.zrem(sharers, "endless.1")
