"""A hold taken inside a transaction ends with it, as a row lock does, however that ends."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis
from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.transaction import atomic

from redis_locks import Lock, LockLost, inspection, redis_lock
from redis_locks.testing import assert_released
from redis_locks.testing.server import EmbeddedServer
from tests.django.transactions import (
    Failed,
    elsewhere,
    increment,
    keeping,
    lock,
    next_holder,
    take,
    values,
)
from tests.elsewhere import is_free
from tests.support import stored, transactions
from tests.support.children import run_script
from tests.support.interrupts import until_background_is_done
from tests.support.keys import partition_of
from tests.support.transactions import keeps_anything
from tests.support.world import PATIENCE, Observer, keys_of, until

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


def test_commit_comes_before_the_release(database: str, name: str, server_side: Observer) -> None:
    with atomic(using=database):
        with lock(name, database) as hold:
            increment(database, name)
            seen = next_holder(server_side, database, name)
        assert hold.token == server_side.holder(name)
    assert [1] == seen.result(PATIENCE)


@pytest.mark.postgres
def test_a_commit_that_the_database_refuses_releases(postgres: str, name: str) -> None:
    with connections[postgres].cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
        )
    with pytest.raises(Exception, match="duplicate key"), atomic(using=postgres):
        with lock(name, postgres), connections[postgres].cursor() as cursor:
            cursor.execute("INSERT INTO once VALUES (1), (1)")
        assert not is_free(name)
    assert is_free(name)


def commit(database: str) -> None:
    pass


def fail(database: str) -> None:
    raise Failed


def set_rollback(database: str) -> None:
    transaction.set_rollback(True, using=database)


def close(database: str) -> None:
    connections[database].close()


@pytest.mark.parametrize("block", ["transaction", "savepoint"])
@pytest.mark.parametrize(
    ("end", "action"),
    [(commit, "commit"), (fail, "rollback"), (set_rollback, "rollback"), (close, "close")],
)
def test_the_release_comes_strictly_after_the_database_s_action(
    database: str,
    name: str,
    block: str,
    end: Callable[[str], None],
    action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened: list[str] = []
    kind = type(connections[database])

    def note(method: str) -> None:
        original = getattr(kind, method)

        def noted(*args: Any) -> Any:
            result = original(*args)
            happened.append(method)
            return result

        monkeypatch.setattr(kind, method, noted)

    for method in ("_commit", "_rollback", "_savepoint_rollback", "_close"):
        note(method)
    transactions.at_release(monkeypatch, lambda: happened.append("release"))
    with suppress(Failed), atomic(using=database):
        happened.clear()
        if block == "transaction":
            with lock(name, database):
                end(database)
        else:
            with suppress(Failed), atomic(using=database), lock(name, database):
                end(database)
    of_savepoint = (block, action) == ("savepoint", "rollback")
    relevant = f"_savepoint_{action}" if of_savepoint else f"_{action}"
    assert ["release"] == [step for step in happened if step == "release"]
    assert relevant in happened[: happened.index("release")]
    assert is_free(name)
    monkeypatch.undo()
    connections[database].close()


@pytest.mark.postgres
def test_a_connection_that_the_database_cut_releases(postgres: str, name: str) -> None:
    def cut() -> None:
        with connections[postgres].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])

    with pytest.raises((OperationalError, InterfaceError)), atomic(using=postgres):
        pid = connections[postgres].connection.info.backend_pid
        with lock(name, postgres):
            increment(postgres, name)
            elsewhere(cut).result(PATIENCE)
        assert not is_free(name)
    assert is_free(name)
    assert [] == values(postgres, name)


def test_a_lock_is_free_again_when_other_things_to_do_after_commit_run(
    database: str, name: str
) -> None:
    found: list[bool] = []
    with atomic(using=database):
        transaction.on_commit(lambda: found.append(is_free(name)), using=database)
        take(lock(name, database))
    assert [True] == found


# Holds taken in a block inside a transaction: what its savepoint releases, and what it leaves


def test_a_savepoint_rolled_back_releases_only_what_was_taken_inside_it(
    database: str, name: str, server_side: Observer
) -> None:
    inner = f"{name}:inner"
    with atomic(using=database):
        with lock(name, database) as outer:
            increment(database, name)
        with suppress(Failed), atomic(using=database):
            with lock(inner, database), atomic(using=database), lock(f"{name}:innermost", database):
                pass
            assert not is_free(inner)
            assert not is_free(f"{name}:innermost")
            raise Failed
        assert is_free(inner)
        assert is_free(f"{name}:innermost")
        assert outer.token == server_side.holder(name)
        assert keeps_anything(database)
    assert is_free(name)
    assert [1] == values(database, name)


def test_a_savepoint_that_was_set_by_hand_releases_what_was_taken_after_it(
    database: str, name: str
) -> None:
    later = f"{name}:later"
    with atomic(using=database):
        first, second = (connections[database].savepoint() for _ in range(2))
        with lock(name, database):
            pass
        transaction.savepoint_commit(second, using=database)
        third = connections[database].savepoint()
        with lock(later, database):
            pass
        transaction.savepoint_rollback(third, using=database)
        assert is_free(later)
        assert not is_free(name)
        transaction.savepoint_rollback(first, using=database)
        assert is_free(name)


def test_a_block_without_savepoint_that_fails_dooms_the_transaction_and_its_holds(
    database: str, name: str
) -> None:
    with keeping(name, database), suppress(Failed), atomic(using=database, savepoint=False):
        take(lock(name, database))
        raise Failed


# Holds kept while autocommit is off, in a transaction that is ended by hand


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_without_autocommit_a_hold_is_kept_until_the_transaction_is_ended_by_hand(
    database: str, name: str, end: str
) -> None:
    transaction.set_autocommit(False, using=database)
    try:
        take(lock(name, database))
        with atomic(using=database), lock(f"{name}:atomic", database):
            pass
        assert not is_free(name)
        assert not is_free(f"{name}:atomic")
        getattr(transaction, end)(using=database)
        assert is_free(name)
        assert is_free(f"{name}:atomic")
    finally:
        transaction.rollback(using=database)
        transaction.set_autocommit(True, using=database)


def test_without_autocommit_the_first_lock_may_come_before_the_first_query(
    database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections[database].close()
    monkeypatch.setitem(connections[database].settings_dict, "AUTOCOMMIT", False)
    take(lock(name, database))
    values(database, name)
    assert not is_free(name)
    transaction.commit(using=database)
    assert is_free(name)
    connections[database].close()


# What disturbs a hold that a transaction keeps: its loss, a release that fails, a fork


def test_a_hold_lost_meanwhile_is_reported_on_leaving_its_block(
    database: str, name: str, client: redis.Redis
) -> None:
    with pytest.raises(LockLost), atomic(using=database), lock(name, database) as hold:
        increment(database, name)
        stored.drop_holder(client, keys_of(name).lock)
        with pytest.raises(LockLost):
            hold.extend(10)
    assert [] == values(database, name)


def test_the_loss_of_any_partition_is_reported_on_leaving_the_block(
    database: str, name: str, settings: Any
) -> None:
    settings.REDIS_LOCKS = {"PREFIX": name, "PARTITIONS": 4}
    partitions = {partition_of(f"{name}:{i}", 4): f"{name}:{i}" for i in range(50)}
    locks = Lock(*partitions.values(), database=database, commit_guard=False, wait=0)
    for lost in locks.names:
        with atomic(using=database), pytest.raises(LockLost), locks as hold:
            assert inspection.force_release(lost)
            until(lambda hold=hold: hold.is_lost)  # type: ignore[misc]


def test_a_decorated_function_that_raises_leaves_its_partitions_to_the_transaction(
    database: str, name: str, settings: Any
) -> None:
    settings.REDIS_LOCKS = {"PREFIX": name, "PARTITIONS": 4}
    partitions = {partition_of(f"{name}:{i}", 4): f"{name}:{i}" for i in range(50)}
    names = sorted(partitions.values())

    @redis_lock(*names, database=database, wait=0)
    def fails() -> None:
        raise Failed

    with atomic(using=database):
        with pytest.raises(Failed):
            fails()
        until_background_is_done()
        assert names == sorted(each.name for each in inspection.locks())
    assert [] == inspection.locks()


def test_a_lost_hold_is_not_taken_again_in_its_transaction(
    database: str, name: str, client: redis.Redis
) -> None:
    with atomic(using=database):
        hold = take(lock(name, database, commit_guard=False))
        stored.drop_holder(client, keys_of(name).lock)
        with pytest.raises(LockLost):
            hold.extend(10)
        with pytest.raises(LockLost):
            lock(name, database).acquire()


def test_a_failed_release_after_commit_is_logged_and_not_raised(
    database: str, name: str, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "redis_locks"), atomic(using=database):
        increment(database, name)
        with lock(name, database, commit_guard=False):
            stored.drop_holder(client, keys_of(name).lock)
    assert [1] == values(database, name)
    assert "was lost" in caplog.text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_its_parent_s_transaction_alone(
    database: str, name: str, server_side: Observer
) -> None:
    with atomic(using=database):
        hold = take(lock(name, database))
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                transactions.end(database)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert hold.token == server_side.holder(name)
    assert is_free(name)


# The end of a transaction that does not end as usual: its connection is closed, or its process ends


def test_after_its_connection_was_closed_a_transaction_keeps_no_hold(
    name: str, database: str
) -> None:
    with transaction.atomic(using=database):
        connections[database].close()
        take(Lock(name, database=database, wait=0))
        assert_released(name)


ENDS_IN_A_TRANSACTION = """
import sys, django
django.setup()
from django.db import transaction
from redis_locks import Lock
transaction.atomic().__enter__()
with Lock(sys.argv[2], using=sys.argv[1], lease=30, wait=0):
    pass
"""


def test_a_process_that_ends_in_a_transaction_leaves_the_lock_to_its_lease(
    name: str, redis_server: EmbeddedServer
) -> None:
    """Nobody knows whether that transaction is committed, so the next holder waits."""
    run_script(ENDS_IN_A_TRANSACTION, redis_server.url, name).check_returncode()
    assert inspection.lock(name) is not None
    inspection.force_release(name)
