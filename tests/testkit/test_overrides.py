"""`override_locks`: what each outcome makes of locks, with no server to be asked."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from django.views import View

from redis_locks import (
    Hold,
    Lock,
    LockBackendError,
    LockLost,
    LockNotAvailable,
    LockNotHeld,
    LockTimeout,
    RedisLockMixin,
    Semaphore,
    inspection,
    redis_lock,
)
from redis_locks.testing import assert_locked, assert_released, override_locks
from redis_locks.testing.server import EmbeddedServer
from tests.support import leases
from tests.support.connections import MemoryBackend, Outcome, run_blocking
from tests.support.scripts import Script

NOBODY = "unix:///nonexistent/nobody-listens.sock"


@pytest.fixture(autouse=True)
def no_server() -> Iterator[None]:
    """Whatever asks a server fails."""
    with override_settings(REDIS_LOCKS={"CONNECTION": NOBODY}):
        yield


@redis_lock("account:{account_id}", wait=5)
def withdraw(account_id: int) -> str:
    assert_locked(f"account:{account_id}")
    return "done"


@redis_lock("account:{account_id}", wait=5)
async def awithdraw(account_id: int) -> str:
    assert_locked(f"account:{account_id}")
    await asyncio.sleep(0)
    return "done"


@redis_lock("account:{account_id}", wait=5)
def view(request: HttpRequest, account_id: int) -> HttpResponse:
    return HttpResponse("done")


class AccountView(RedisLockMixin, View):
    lock_name = "account:{pk}"

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        return HttpResponse("done")


class AsyncAccountView(RedisLockMixin, View):
    lock_name = "account:{pk}"

    async def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        return HttpResponse("done")


def status_of_all_views() -> list[int]:
    request = RequestFactory().post("/")
    return [
        view(request, 1).status_code,
        AccountView.as_view()(request, pk=1).status_code,
        asyncio.run(AsyncAccountView.as_view()(request, pk=1)).status_code,  # type: ignore[arg-type]
    ]


# granted


@override_locks("granted")
def test_granted_locks_are_held_for_their_block_and_no_longer() -> None:
    with Lock("a") as hold:
        hold.check()
        assert not hold.is_lost
        assert_locked("a")
        assert_released("b")
    assert_released("a")
    with pytest.raises(LockNotHeld):
        hold.check()


@override_locks("granted")
def test_granted_reaches_functions_views_and_mixins_sync_and_async() -> None:
    assert withdraw(1) == "done"
    assert asyncio.run(awithdraw(1)) == "done"
    assert status_of_all_views() == [200, 200, 200]
    assert inspection.locks() == []


@override_locks("granted")
async def in_a_task() -> Hold:
    async with Lock("a") as hold:
        await hold.aextend(60)
        assert_locked("a")
        assert [info.name for info in await inspection.alocks()] == ["a"]
    return hold


def test_a_coroutine_function_can_be_decorated() -> None:
    asyncio.run(in_a_task())
    with pytest.raises(LockBackendError):
        Lock("a", wait=0).acquire()


@override_locks("granted")
def test_granted_reaches_other_threads() -> None:
    granted: list[Hold | None] = []
    thread = threading.Thread(target=lambda: granted.append(Lock("a").acquire()))
    thread.start()
    thread.join()
    assert granted[0] is not None
    assert_locked("a")
    granted[0].release()


@override_locks("granted")
def test_granted_fencing_tokens_grow() -> None:
    with Lock("a") as first:
        pass
    with Lock("a") as second:
        pass
    assert 0 < first.fencing_token < second.fencing_token


@override_locks("granted")
def test_a_granted_hold_is_renewed_for_as_long_as_a_test_may_take() -> None:
    with Lock("a", lease=0.01) as hold:
        assert hold.remaining > 3600


@override_locks("granted")
def test_a_granted_hold_without_renewal_ends_with_its_lease() -> None:
    hold = Lock("a", lease=0.01, renew=False).acquire()
    while not hold.is_lost:
        pass
    assert_released("a")
    with pytest.raises(LockLost):
        hold.release()


@override_locks("granted")
def test_granted_reaches_sets_shared_holds_and_semaphores() -> None:
    with Lock("a", "b"), Lock("c", mode="shared"), Semaphore("d", 3) as hold:
        assert [info.name for info in inspection.locks()] == ["a", "b", "c", "d"]
        assert [info.mode for info in inspection.locks()][2:] == ["shared", "permit:3"]
        assert hold.fencing_token
    assert_released("b")


@override_locks("granted")
def test_a_granted_hold_can_be_upgraded_and_downgraded() -> None:
    with Lock("a", mode="shared") as hold:
        token, fencing_token = hold.token, hold.fencing_token
        hold.upgrade()
        assert (hold.mode, inspection.locks()[0].mode) == ("exclusive", "exclusive")
        assert hold.token != token
        assert hold.fencing_token > fencing_token
        hold.downgrade()
        assert (hold.mode, inspection.locks()[0].mode) == ("shared", "shared")
    assert_released("a")


@override_locks("granted")
def test_a_force_released_hold_can_be_neither_upgraded_nor_downgraded() -> None:
    shared, alone = Lock("a", mode="shared").acquire(), Lock("b").acquire()
    assert inspection.force_release("a").ended == inspection.force_release("b").ended == 1
    with pytest.raises(LockLost):
        shared.upgrade()
    with pytest.raises(LockLost):
        alone.downgrade()


@pytest.mark.parametrize("outcome", ["granted", "lost"])
def test_a_lock_that_reads_from_redis_needs_a_real_server(outcome: Outcome) -> None:
    with override_locks(outcome), pytest.raises(RuntimeError, match="'a' reads from Redis"):
        Lock("a", read=[("GET", "x")]).acquire()


@override_locks("granted")
def test_an_interrupted_acquire_leaves_no_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    leases.interrupt_the_hold(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        Lock("a").acquire()
    assert_released("a")


@override_locks("granted")
def test_the_listing_and_the_force_release_know_granted_holds() -> None:
    hold, other = Lock("b", label="mine").acquire(), Lock("a").acquire()
    assert [info.name for info in inspection.locks()] == inspection.names() == ["a", "b"]
    assert [info.name for info in inspection.locks(limit=1)] == ["a"]
    holder = inspection.locks()[1].holders[0]
    assert (holder.label, holder.fencing_token) == ("mine", hold.fencing_token)
    assert inspection.force_release("b").ended == 1
    assert_released("b")
    with pytest.raises(LockLost):
        hold.release()
    other.release()


# busy


@override_locks("busy")
def test_busy_locks_refuse_at_once_with_the_error_of_their_wait() -> None:
    with pytest.raises(LockNotAvailable, match="Lock 'a' is held") as refused:
        Lock("a", wait=0).__enter__()
    assert not isinstance(refused.value, LockTimeout)
    assert "(override_locks('busy'))" in str(refused.value.holder)
    with pytest.raises(LockTimeout, match="within 3600 s") as timeout:
        Lock("a", wait=3600).__enter__()
    assert timeout.value.retry_after == pytest.approx(10, abs=0.1)
    assert Lock("a").acquire() is None


@pytest.mark.parametrize("time", ["first", "second"])
def test_what_busy_locks_log_is_logged_in_the_test(
    time: str, caplog: pytest.LogCaptureFixture
) -> None:
    with override_locks("busy"):
        for _ in range(3):
            assert Lock("a").acquire() is None
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert 2 == len([each for each in warned if "lock 'a'" in each.lower()]), time


@override_locks("busy")
def test_busy_reaches_functions_views_and_mixins_sync_and_async() -> None:
    with pytest.raises(LockTimeout):
        withdraw(1)
    with pytest.raises(LockTimeout):
        asyncio.run(awithdraw(1))
    assert status_of_all_views() == [423, 423, 423]


@override_locks("busy")
def test_a_wait_for_ever_for_a_busy_lock_is_an_error_of_the_test() -> None:
    with pytest.raises(RuntimeError, match=r"'a' has wait=None.* for ever"):
        Lock("a", wait=None).acquire()


@override_locks("busy")
def test_a_busy_lock_is_held_by_somebody_else() -> None:
    assert_locked("a")
    with pytest.raises(AssertionError, match=r"'a' is held by .*override_locks\('busy'\)"):
        assert_released("a")


# lost


@override_locks("lost")
def test_a_lost_hold_is_lost_from_the_start_and_its_block_raises() -> None:
    ran = []

    def body(hold: Hold) -> None:
        assert hold.is_lost
        with pytest.raises(LockLost):
            hold.check()
        with pytest.raises(LockLost):
            hold.extend(60)
        assert_released("a")
        ran.append(hold)

    with pytest.raises(LockLost), Lock("a") as hold:
        body(hold)
    assert ran == [hold]


@override_locks("lost")
def test_lost_reaches_functions_views_and_mixins_sync_and_async() -> None:
    request = RequestFactory().post("/")
    with pytest.raises(LockLost):
        view(request, 1)
    with pytest.raises(LockLost):
        AccountView.as_view()(request, pk=1)
    with pytest.raises(LockLost):
        asyncio.run(AsyncAccountView.as_view()(request, pk=1))  # type: ignore[arg-type]


# Around it


def test_the_innermost_outcome_counts_and_the_outer_one_comes_back() -> None:
    with override_locks("granted"):
        with override_locks("busy"):
            assert Lock("a").acquire() is None
        with Lock("a"):
            pass
    with pytest.raises(LockBackendError):
        Lock("a", wait=0).acquire()


def test_the_servers_can_be_had_back_in_the_middle(redis_server: EmbeddedServer, name: str) -> None:
    with override_locks("busy"), override_settings(REDIS_LOCKS={"CONNECTION": redis_server.url}):
        with override_locks("server"), Lock(name, wait=0), redis_server.client() as client:
            assert [*client.scan_iter(match=f"*{name}*")]
        with pytest.raises(LockNotAvailable):
            Lock(name, wait=0).__enter__()


def test_an_error_in_the_block_puts_the_servers_back() -> None:
    with pytest.raises(KeyError), override_locks("granted"):
        raise KeyError("x")
    with pytest.raises(LockBackendError):
        Lock("a", wait=0).acquire()


def test_other_settings_within_do_not_bring_the_servers_back() -> None:
    with (
        override_locks("granted"),
        override_settings(REDIS_LOCKS={"CONNECTION": NOBODY}),
        Lock("a"),
        Lock("b", using=NOBODY),
    ):
        assert_locked("b")


def test_a_hold_may_outlast_the_block() -> None:
    with override_locks("granted"):
        hold = Lock("a").acquire()
    hold.release()


def test_a_test_case_class_can_be_decorated() -> None:
    @override_locks("busy")
    class Case(unittest.TestCase):
        def setUp(self) -> None:
            self.in_set_up = Lock("a").acquire()

        def runTest(self) -> None:  # noqa: N802 - unittest's name
            assert self.in_set_up is None
            assert Lock("a").acquire() is None

    result = unittest.TestResult()
    Case().run(result)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])
    with pytest.raises(LockBackendError):
        Lock("a", wait=0).acquire()


@pytest.mark.parametrize("outcome", ["free", "", None, 1])
def test_another_outcome_is_refused(outcome: object) -> None:
    with pytest.raises(
        ValueError if isinstance(outcome, str) else TypeError,
        match="must be 'granted', 'busy', 'full', 'lost', 'unavailable' or 'server', not",
    ):
        override_locks(outcome)  # type: ignore[arg-type]


def test_a_script_without_an_answer_says_so() -> None:
    link = run_blocking(MemoryBackend("granted").driver.checkout())
    with pytest.raises(
        NotImplementedError, match="the script dance has no answer; test it on a real"
    ):
        run_blocking(link.call(Script("dance", ()), ((), ())))


@pytest.mark.parametrize(
    ("outcome", "error"),
    [("busy", LockTimeout), ("unavailable", LockBackendError), ("lost", LockLost)],
)
@pytest.mark.parametrize("options", [{"replicas": 1}, {"crash_release": True}, {}], ids=str)
def test_a_lock_needs_neither_replicas_nor_a_process_that_listens(
    outcome: Outcome, error: type[Exception], options: dict[str, Any]
) -> None:
    with override_settings(REDIS_LOCKS={"CONNECTION": NOBODY, "REPLICAS": 1}):
        lock = Lock("x", **options)
        with override_locks("granted"), lock as hold:
            hold.extend(60)
        with override_locks(outcome), pytest.raises(error), lock:
            pass
