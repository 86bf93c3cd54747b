"""ATOMIC_REQUESTS: a locked view releases after COMMIT, and commits only with its locks held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from itertools import product
from typing import Any

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections, transaction
from django.db.transaction import TransactionManagementError
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.utils.decorators import method_decorator

from redis_locks import LockLost, RedisLockMixin, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from tests.django import locked_views
from tests.django.locked_views import (
    Api,
    AsyncPlain,
    Plain,
    Views,
    doing,
    hides,
    mixed,
    run,
    urls,
)
from tests.django.transactions import increment, next_holder, values
from tests.support import stored
from tests.support.world import Observer, keys_of

pytestmark = [
    pytest.mark.urls(__name__),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("atomic_requests", "nothing_stays_kept"),
]


waiting: dict[str, Future[list[int]]] = {}
"""What the next holder of a lock sees."""


@pytest.fixture(autouse=True)
def work(server_side: Observer) -> Iterator[Callable[[str], HttpResponse]]:
    """Views write a row while the next holder waits in the queue."""

    def write(name: str) -> HttpResponse:
        increment("default", name)
        waiting[name] = next_holder(server_side, "default", name)
        return HttpResponse(str(connection.in_atomic_block))

    with doing(write):
        yield write
    waiting.clear()


def seen_by_next_holder(name: str) -> list[int]:
    return waiting[name].result(30)


def in_transaction(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """A middleware whose transaction is around that of the view."""
    return transaction.atomic(get_response)


@redis_lock("{name}")
def calls_itself(request: HttpRequest, name: str, again: bool = True) -> HttpResponse:
    return calls_itself(request, name, again=False) if again else run(request, name)


@transaction.non_atomic_requests
def opted_out(request: HttpRequest, name: str) -> HttpResponse:
    return run(request, name)


def of_each_kind(**options: Any) -> Views:
    apis = locked_views.apis(**options)
    return locked_views.sync(**options) | {kind: apis[kind] for kind in ("api-mixin", "api-set")}


outer, middle = redis_lock("outer:{name}"), redis_lock("middle:{name}")
PLAIN = of_each_kind()
KEPT = of_each_kind(scope="transaction")
STACKED: Views = {
    "stacked": outer(middle(PLAIN["function"])),
    "stacked-mixin": method_decorator(outer, name="dispatch")(
        mixed(RedisLockMixin, Plain)
    ).as_view(),
    "stacked-api": outer(mixed(RedisLockAPIMixin, Api).as_view()),
}
ATOMIC: Views = {
    **PLAIN,
    **STACKED,
    "hidden": hides(PLAIN["function"]),
    "hidden-mixin": hides(PLAIN["mixin"]),
    "calls-itself": calls_itself,
}
KEEPING: Views = {
    "atomic-above": transaction.atomic(PLAIN["function"]),
    "kept-outside": redis_lock("{name}", scope="transaction")(outer(run)),
    "kept-inside": outer(KEPT["function"]),
    **{f"kept-{kind}": view for kind, view in KEPT.items()},
}
OPTED_OUT: Views = {
    "opted-out-after": transaction.non_atomic_requests(of_each_kind()["function"]),
    "opted-out-before": redis_lock("{name}")(opted_out),
    "opted-out-mixin": transaction.non_atomic_requests(of_each_kind()["mixin"]),
}
KEPT_OPTED_OUT: Views = {
    "kept-opted-out": redis_lock("{name}", scope="transaction")(opted_out),
    "kept-opted-out-dispatch": transaction.non_atomic_requests(
        of_each_kind(scope="transaction")["dispatch"]
    ),
}
ASYNC = locked_views.coroutines()
UNGUARDED: Views = {
    f"{word}-{kind}": of_each_kind(**options)[kind]
    for word, options in (("unguarded", {"commit_guard": False}), ("block", {"scope": "block"}))
    for kind in ("function", "mixin")
}

urlpatterns = urls(ATOMIC | KEEPING | OPTED_OUT | KEPT_OPTED_OUT | ASYNC | UNGUARDED)


def post(kind: str, name: str) -> bytes:
    content: bytes = Client().post(f"/{kind}/{name}/").content
    return content


@pytest.mark.parametrize("kind", ATOMIC | KEEPING)
def test_the_next_holder_sees_what_was_committed(kind: str, name: str) -> None:
    assert post(kind, name) == b"True"
    assert seen_by_next_holder(name) == [1]


@pytest.mark.parametrize("kind", ["function", "mixin", "calls-itself"])
@override_settings(MIDDLEWARE=[f"{__name__}.in_transaction"])
def test_so_it_does_below_a_middleware_that_opens_a_transaction(kind: str, name: str) -> None:
    test_the_next_holder_sees_what_was_committed(kind, name)


@pytest.mark.parametrize("kind", ["function", "kept-function"])
def test_an_error_rolls_back_before_the_lock_is_released(
    kind: str, name: str, work: Callable[[str], HttpResponse]
) -> None:
    def fail(name: str) -> HttpResponse:
        work(name)
        raise RuntimeError("after the work")

    with doing(fail), pytest.raises(RuntimeError, match="after the work"):
        post(kind, name)
    assert seen_by_next_holder(name) == []


@pytest.mark.parametrize("kind", OPTED_OUT)
def test_a_view_that_opted_out_gets_no_transaction(kind: str, name: str) -> None:
    assert post(kind, name) == b"False"
    assert seen_by_next_holder(name) == [1]


@pytest.mark.parametrize("kind", ATOMIC)
def test_without_atomic_requests_there_is_no_transaction(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", False)
    test_a_view_that_opted_out_gets_no_transaction(kind, name)


def test_two_locks_around_a_view_open_one_transaction(name: str) -> None:
    with doing(lambda _: HttpResponse(str(len(connection.atomic_blocks)))):
        assert post("function", name) == post("stacked", name) == b"1"


# The commit guard


def losing(client: redis.Redis, lock: str) -> AbstractContextManager[None]:
    """Views write a row, and lose that lock."""

    def work(name: str) -> HttpResponse:
        increment("default", name)
        stored.drop_holder(client, keys_of(lock).lock)
        return HttpResponse()

    return doing(work)


@pytest.mark.parametrize("kind", ["function", "mixin", *UNGUARDED])
def test_a_view_whose_lock_is_lost_does_not_commit(
    kind: str, name: str, client: redis.Redis
) -> None:
    with losing(client, name), pytest.raises(LockLost):
        post(kind, name)
    assert ([1] if kind in UNGUARDED else []) == values("default", name)


@pytest.mark.parametrize(
    ("kind", "place"), [*product(STACKED, ["outer:", ""]), ("stacked", "middle:")]
)
def test_all_locks_of_a_view_are_verified(
    name: str, kind: str, place: str, client: redis.Redis
) -> None:
    with losing(client, f"{place}{name}"), pytest.raises(LockLost):
        post(kind, name)
    assert [] == values("default", name)


# What cannot be locked until COMMIT


@pytest.mark.parametrize("kind", KEPT_OPTED_OUT)
def test_a_lock_for_transactions_is_refused_to_a_view_that_opted_out(kind: str, name: str) -> None:
    with pytest.raises(TransactionManagementError, match="needs a transaction"):
        post(kind, name)
    assert {} == waiting


@pytest.mark.parametrize(
    ("view", "scope", "message"),
    [
        (Plain, "request", "scope must be 'auto', 'block' or 'transaction'"),
        (AsyncPlain, "transaction", "not for async code"),
    ],
)
def test_a_mixin_refuses_what_the_decorator_refuses(view: Any, scope: str, message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"Mixed: .*{message}"):
        mixed(RedisLockMixin, view).as_view(lock_scope=scope)


@pytest.mark.parametrize("kind", ASYNC)
def test_an_async_view_is_refused_as_django_refuses_it(kind: str, name: str) -> None:
    with pytest.raises(RuntimeError, match="ATOMIC_REQUESTS with async views"):
        post(kind, name)
