"""A hold taken inside a transaction is released when that has ended, as a row lock is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.transaction import atomic

from tests.django.transactions import Failed, elsewhere, increment, lock, next_holder, values
from tests.elsewhere import is_free
from tests.support import transactions
from tests.support.world import PATIENCE, Observer

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


def test_commit_comes_before_the_release(database: str, name: str, server_side: Observer) -> None:
    with atomic(using=database):
        with lock(name, database) as hold:
            increment(database, name)
            seen = next_holder(server_side, database, name)
        assert hold.token == server_side.holder(name)
    assert [1] == seen.result(PATIENCE)


def test_an_error_rolls_back_before_the_release(
    database: str, name: str, server_side: Observer
) -> None:
    with pytest.raises(Failed), atomic(using=database):
        with lock(name, database):
            increment(database, name)
            seen = next_holder(server_side, database, name)
        raise Failed
    assert [] == seen.result(PATIENCE)


def test_set_rollback_rolls_back_before_the_release(
    database: str, name: str, server_side: Observer
) -> None:
    with atomic(using=database):
        with lock(name, database):
            increment(database, name)
            seen = next_holder(server_side, database, name)
        transaction.set_rollback(True, using=database)
    assert [] == seen.result(PATIENCE)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_releases_as_well(
    database: str, name: str, interrupt: type[BaseException]
) -> None:
    with pytest.raises(interrupt), atomic(using=database):
        with lock(name, database):
            pass
        raise interrupt
    assert is_free(name)


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
    relevant = (
        f"_savepoint_{action}" if (block, action) == ("savepoint", "rollback") else f"_{action}"
    )
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
        with lock(name, database):
            pass
    assert [True] == found


def test_a_failing_thing_to_do_after_commit_does_not_keep_the_lock(
    database: str, name: str
) -> None:
    with pytest.raises(Failed), atomic(using=database):
        transaction.on_commit(lambda: fail(database), using=database)
        with lock(name, database):
            pass
    assert is_free(name)
