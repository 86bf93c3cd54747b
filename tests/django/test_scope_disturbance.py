"""What disturbs a hold that a transaction keeps: its loss, a release that fails, a fork."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress

import pytest
import redis
from django.db.transaction import atomic

from redis_locks import LockLost
from tests.django.transactions import increment, lock, values
from tests.elsewhere import is_free
from tests.support import stored, transactions
from tests.support.world import Observer, keys_of

pytestmark = pytest.mark.usefixtures("nothing_stays_kept")


def test_a_hold_lost_meanwhile_is_reported_on_leaving_its_block(
    database: str, name: str, client: redis.Redis
) -> None:
    with pytest.raises(LockLost), atomic(using=database), lock(name, database) as hold:
        increment(database, name)
        stored.drop_holder(client, keys_of(name).lock)
        with pytest.raises(LockLost):
            hold.extend(10)
    assert [] == values(database, name)


def test_a_lost_hold_is_not_taken_again_in_its_transaction(
    database: str, name: str, client: redis.Redis
) -> None:
    with atomic(using=database):
        with lock(name, database, commit_guard=False) as hold:
            pass
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
        with lock(name, database) as hold:
            pass
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                transactions.end(database)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert hold.token == server_side.holder(name)
    assert is_free(name)
