"""The public API as its users' type checkers see it: checked by mypy, never run."""

from __future__ import annotations

from typing import assert_type

import redis
import redis.asyncio as aioredis
from django.contrib.auth.models import Permission
from django.http import HttpRequest, HttpResponse
from django.tasks import Task, task
from django.views import View
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import Pipeline

from demo_project.rows.models import Account
from redis_locks import (
    AlreadyDone,
    Attempt,
    Hold,
    Lock,
    LockError,
    LockNotAvailable,
    RedisLockMixin,
    RunEvent,
    RunStatus,
    Semaphore,
    TooMuchContention,
    compat,
    inspection,
    lock_deadline,
    lock_timeout,
    optimistic,
    redis_lock,
    run_once,
)
from redis_locks.fencing import FencedRows
from redis_locks.optimistic.pipelines import WatchingPipeline
from redis_locks.rows import (
    LockedRows,
    RedisLockQuerySet,
    lock_model,
    lock_rows,
)


@redis_lock("account:{account_id}", wait=5)
def withdraw(account_id: int, amount: int = 1) -> str:
    return f"{account_id}: {amount}"


@redis_lock("account:{account_id}", wait=None, lease=30, renew=False, max_waiting=3)
async def awithdraw(account_id: int) -> int:
    return account_id


@redis_lock()
def called() -> float:
    return 1.0


@redis_lock("user:{request.user.pk}", wait=0, conflict_status=409, replicas=1)
def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


@optimistic(watch="account:{account_id}", attempts=3)
def deposit(pipe: Pipeline, account_id: int, amount: int = 1) -> int:
    pipe.multi()
    pipe.incrby(f"account:{account_id}", amount)
    return amount


@optimistic(watch="account:{account_id}", read=[("GET", "account:{account_id}")])
def balance(pipe: WatchingPipeline, account_id: int) -> int:
    return int(pipe.read[0])


@optimistic(watch=lambda account_id: f"account:{account_id}", operation_id="{account_id}")
async def adeposit(pipe: AsyncPipeline, account_id: int) -> float:
    return 1.0


@redis_lock("account:{account_id}", on_conflict="retry")
@task
def lock_above(account_id: int) -> str:
    return str(account_id)


@task
@redis_lock("account:{account_id}", on_conflict="skip")
def task_above(account_id: int) -> str:
    return str(account_id)


class AccountView(RedisLockMixin, View):
    lock_name = "account:{pk}"
    lock_wait = 2.5
    lock_max_waiting = 3

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        return HttpResponse()


def decorated_functions_keep_their_signature(request: HttpRequest) -> None:
    assert_type(withdraw(1, amount=2), str)
    assert_type(called(), float)
    assert_type(view(request), HttpResponse)
    withdraw("one")  # type: ignore[arg-type]
    withdraw(1, sum=2)  # type: ignore[call-arg]


def locked_tasks_stay_tasks() -> None:
    tasks: list[Task[[int], str]] = [lock_above]
    lock_above.enqueue("one")  # type: ignore[arg-type]
    assert_type(tasks[0].call(1), str)
    assert_type(task_above.call(1), str | None)
    assert_type(lock_above.call(account_id=1), str)


def conflict(error: LockNotAvailable, number: int) -> float:
    return 1.5


async def aconflict(error: LockNotAvailable, number: int) -> bytes:
    return b""


class Owned(redis_lock):
    """A project's own."""


async def what_contention_returns_is_in_the_type() -> None:
    def plain(number: int) -> str:
        return ""

    async def later(number: int) -> str:
        return ""

    assert_type(redis_lock("report", on_conflict="raise")(plain)(1), str)
    assert_type(redis_lock("report", on_conflict="retry")(plain)(1), str)
    assert_type(redis_lock("report", on_conflict="skip")(plain)(1), str | None)
    assert_type(redis_lock(on_conflict=conflict)(plain)(number=1), str | float)
    assert_type(await redis_lock("report", wait=0)(later)(1), str)
    assert_type(await redis_lock("report", "other", on_conflict="skip")(later)(1), str | None)
    assert_type(await redis_lock("report", on_conflict=aconflict)(later)(1), str | bytes)
    assert_type(await redis_lock("report", on_conflict=conflict)(later)(1), str | float)
    redis_lock("report", on_conflict="skip")(plain)("one")  # type: ignore[arg-type]
    redis_lock("report", on_conflict="give up")  # type: ignore[call-overload]
    redis_lock("report", waiting=5)  # type: ignore[call-overload]
    assert_type(Semaphore("exports", 3, wait=0)(plain)(1), str)
    assert_type(Semaphore("exports", 3, on_conflict="skip")(plain)(1), str | None)
    assert_type(Semaphore("exports", 3, on_conflict=conflict)(plain)(1), str | float)
    assert_type(Owned("report", wait=5, on_conflict="skip"), Owned)
    assert_type(Owned("report")(plain)(1), str)
    with redis_lock("report", mode="shared") as hold, Semaphore("exports", 3) as permit:
        assert_type(hold, Hold)
        assert_type(permit, Hold)


async def decorated_coroutines_stay_coroutines() -> None:
    assert_type(await awithdraw(1), int)


def blocks() -> None:
    with redis_lock("report", wait=0) as hold:
        assert_type(hold, Hold)
        assert_type(hold.fencing_token, int)
        assert_type(hold.is_lost, bool)
        assert_type(hold.name, str)
        hold.extend(30)
        hold.check()
    with Lock("report").hold(wait=1) as hold:
        assert_type(hold, Hold)
    with Lock("report") as hold:
        assert_type(hold, Hold)
        hold.commit([("HINCRBY", "account:1", "money", -5), ["SET", b"key", 1.5]])


def scopes() -> None:
    Lock("report", scope="transaction", database="default", commit_guard=False)
    redis_lock("report", scope="block")
    Lock("report", scope="session")  # type: ignore[arg-type]
    with lock_timeout(2), lock_deadline(5), lock_deadline(None), Lock("report") as hold:
        assert_type(hold.kept, bool)


async def async_blocks() -> None:
    async with redis_lock("report") as hold:
        assert_type(hold, Hold)
        await hold.aextend(30)
        await hold.acommit([("DECR", "stock:7:left")])
    async with Lock("report").hold() as hold:
        assert_type(hold, Hold)


def explicit_verbs() -> None:
    lock = Lock("report", wait=None, lease=5, renew=True, using="default", label="nightly")
    assert_type(lock.acquire(wait=0), Hold | None)
    Lock(1)  # type: ignore[arg-type]
    # Two options that are swapped: for each pair one is of another type at least.
    Lock("report", using=True, renew="default")  # type: ignore[arg-type]
    Lock("report", label=False, crash_release="nightly")  # type: ignore[arg-type]
    Lock("report", mode="block", scope="exclusive")  # type: ignore[arg-type]
    Lock("report", max_waiting=2.5)  # type: ignore[arg-type]
    Semaphore("exports", 3, max_waiting="2")  # type: ignore[call-overload]
    redis_lock("report", database=True, commit_guard="default")  # type: ignore[call-overload]
    lock.name = "other"  # type: ignore[misc]
    hold = lock.acquire()
    if hold is not None:
        hold.release()


async def async_explicit_verbs() -> None:
    hold = await Lock("report").aacquire()
    assert_type(hold, Hold | None)
    if hold is not None:
        await hold.arelease()


def transactions_lose_the_pipeline(pipe: Pipeline) -> None:
    assert_type(deposit(1, amount=2), int)
    assert_type(balance(1), int)
    deposit(pipe, 1)  # type: ignore[arg-type]
    assert_type(optimistic.run(lambda pipe: "value", "key", attempts=3), str)
    for rate in optimistic.conflicts():
        assert_type(rate.rate, float)


async def async_transactions_lose_the_pipeline() -> None:
    async def body(pipe: AsyncPipeline) -> str:
        return "value"

    assert_type(await adeposit(1), float)
    assert_type(await optimistic.arun(body, "key"), str)


def rows() -> None:
    assert_type(inspection.names(), list[str])
    assert_type(inspection.locks(limit=10), list[inspection.LockInfo])
    assert_type(inspection.lock("report"), inspection.LockInfo | None)
    assert_type(inspection.contended(), list[inspection.LockInfo])
    for waiter in inspection.parties().waiters:
        assert_type(waiter.lock, str)
        assert_type(inspection.blocking(waiter.session), list[inspection.HolderInfo])
        assert_type(inspection.cancel(waiter), bool)
        waiter.lock = "other"  # type: ignore[misc]
    assert_type(inspection.force_release("report"), inspection.ForceReleased)
    assert_type(inspection.drain("web-3"), inspection.Parties)


async def async_rows() -> None:
    for waiter in (await inspection.aparties()).waiters:
        assert_type(await inspection.ablocking(waiter.session), list[inspection.HolderInfo])
    assert_type(await inspection.aforce_release("report"), inspection.ForceReleased)
    assert_type(await inspection.adrain("web-3"), inspection.Parties)


def errors() -> None:
    try:
        blocks()
    except LockNotAvailable as error:
        assert_type(error.name, str)
        assert_type(error.holder, str | None)
        assert_type(error.retry_after, float | None)
    except TooMuchContention as error:
        assert_type(error.keys, tuple[str, ...])
        assert_type(error.attempts, int)
    except LockError:
        raise


def compat_locks(client: redis.Redis) -> None:
    lock = compat.Lock(client, "report", timeout=10)
    assert_type(lock.acquire(blocking_timeout=1.5), bool)
    assert_type(lock.release(), None)
    as_redis_py_s: redis.lock.Lock = lock
    with as_redis_py_s:
        pass


async def async_compat_locks(client: aioredis.Redis) -> None:
    lock = compat.AsyncLock(client, "report")
    assert_type(await lock.acquire(token="mine"), bool)  # noqa: S106
    await lock.release()


@run_once("invoice:{number}", max_attempts=3, done_ttl=60, store_result=True, wait=None)
def invoice(number: int) -> str:
    return str(number)


@run_once(on_conflict="skip", store_result=True)
async def ainvoice(number: int) -> str:
    return str(number)


class Watched(run_once):
    def acquired(self, event: RunEvent) -> None:
        assert_type(event.last_attempt, bool)


async def jobs() -> None:
    assert_type(invoice(1), str)
    assert_type(await ainvoice(1), str | None)
    assert_type(run_once("invoice")(invoice)(1), str | None)
    invoice("one")  # type: ignore[arg-type]
    job = Watched("nightly", lease=5)
    assert_type(job.acquire(wait=0), Attempt | None)
    assert_type(await job.aacquire(), Attempt | None)
    assert_type(job.status(), RunStatus)
    try:
        with job as attempt:
            assert_type(attempt, Attempt)
            assert_type(attempt.number, int)
            attempt.done({"rows": 3})
        async with job as attempt:
            await attempt.afail("no paper")
    except AlreadyDone as error:
        assert_type(error.attempt, int)


async def locked_rows(permission: Permission) -> None:
    with lock_rows(permission, "no_key", nowait=True) as locked:
        assert_type(locked, LockedRows[Permission])
        assert_type(locked.hold_of(permission), Hold)
        assert_type(locked[0], Permission)
        assert_type(locked.hold, Hold | None)
    async with lock_rows(Permission.objects.filter(pk=1), skip_locked=True, limit=1) as some:
        assert_type(some, LockedRows[Permission])
    assert_type(
        lock_rows([permission], of=["content_type"]).acquire(), LockedRows[Permission] | None
    )
    found: RedisLockQuerySet[Permission] = RedisLockQuerySet(Permission)
    assert_type(found.select_for_lock("key_share"), RedisLockQuerySet[Permission])
    async with lock_model(Permission, "shared") as hold:
        assert_type(hold, Hold)
    lock_rows(permission, "update")  # type: ignore[arg-type]


def fenced_rows(hold: Hold) -> None:
    assert_type(Account.objects.fenced(hold).get(name="one"), Account)
    assert_type(
        Account.objects.filter(cents__lt=0).order_by("name").fenced(hold), FencedRows[Account]
    )
