"""What a kept hold covers: shared and exclusive modes, sets of locks, permits."""

from __future__ import annotations

import pytest
from django.db.transaction import atomic

from redis_locks import Lock, LockError, Semaphore
from tests.django.transactions import lock
from tests.elsewhere import is_free

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


def test_what_a_kept_hold_covers_is_not_taken_again(database: str, name: str) -> None:
    one, two = f"{name}:1", f"{name}:2"
    with atomic(using=database):
        both = Lock(one, two, database=database, wait=0).acquire()
        assert both is lock(one, database).acquire()
        assert both is lock(two, database, mode="shared").acquire()
        assert both is Semaphore(one, 3, database=database).acquire()
        assert both is Lock(two, one, database=database).acquire()


def test_what_would_wait_for_its_own_transaction_is_refused_at_once(
    database: str, name: str
) -> None:
    one, two = f"{name}:1", f"{name}:2"
    with atomic(using=database):
        lock(one, database, mode="shared").acquire()
        with pytest.raises(LockError, match="would wait for its own thread"):
            Lock(two, one, database=database, wait=60).acquire()
        assert is_free(two)
        assert lock(two, database).acquire()


def test_in_one_transaction_one_permit_is_taken(database: str, name: str) -> None:
    permits = Semaphore(name, 1, wait=0, database=database)
    with atomic(using=database):
        with permits as first:
            pass
        assert first is permits.acquire()
        assert not is_free(name)
    assert is_free(name)


def test_an_upgraded_hold_covers_what_it_did_not_before(database: str, name: str) -> None:
    with atomic(using=database):
        hold = lock(name, database, mode="shared").acquire()
        assert hold is not None
        hold.upgrade(wait=0)
        assert hold is lock(name, database).acquire()
    assert is_free(name)


def test_shared_and_then_exclusive_in_one_transaction_is_an_upgrade(
    database: str, name: str
) -> None:
    with atomic(using=database):
        with lock(name, database, mode="shared") as first:
            pass
        with lock(name, database) as hold:
            assert ("exclusive", "exclusive") == (first.mode, hold.mode)
        assert not is_free(name, mode="shared")
    assert is_free(name)


def test_a_wrong_wait_is_refused_for_a_lock_that_the_transaction_has(
    database: str, name: str
) -> None:
    with atomic(using=database):
        assert lock(name, database).acquire()
        with pytest.raises(ValueError, match="wait must be"):
            lock(name, database).acquire(wait=-1)
