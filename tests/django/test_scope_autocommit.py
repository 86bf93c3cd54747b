"""Holds kept while autocommit is off, in a transaction that is ended by hand."""

from __future__ import annotations

import pytest
from django.db import connections, transaction
from django.db.transaction import atomic

from tests.django.transactions import lock, values
from tests.elsewhere import is_free

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_without_autocommit_a_hold_is_kept_until_the_transaction_is_ended_by_hand(
    database: str, name: str, end: str
) -> None:
    transaction.set_autocommit(False, using=database)
    try:
        with lock(name, database):
            pass
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
    with lock(name, database):
        pass
    values(database, name)
    assert not is_free(name)
    transaction.commit(using=database)
    assert is_free(name)
    connections[database].close()
