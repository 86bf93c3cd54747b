"""Holds taken in a block inside a transaction: what its savepoint releases, and what it leaves."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.db.transaction import atomic

from tests.django.transactions import Failed, increment, lock, values
from tests.elsewhere import is_free
from tests.support.transactions import keeps_anything
from tests.support.world import Observer

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


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


def test_a_savepoint_released_keeps_its_holds_for_the_transaction(database: str, name: str) -> None:
    with atomic(using=database):
        with atomic(using=database), lock(name, database):
            pass
        assert not is_free(name)
    assert is_free(name)


def test_a_block_without_savepoint_that_fails_dooms_the_transaction_and_its_holds(
    database: str, name: str
) -> None:
    with atomic(using=database):
        with suppress(Failed), atomic(using=database, savepoint=False):
            with lock(name, database):
                pass
            raise Failed
        assert not is_free(name)
    assert is_free(name)
