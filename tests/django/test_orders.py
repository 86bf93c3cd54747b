"""WARN_ORDER: locks that are taken in opposite orders are told before they ever deadlock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import Group
from django.test import override_settings

from redis_locks import Lock, Semaphore, redis_lock
from redis_locks.rows import lock_rows
from tests.support.world import granted


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    with override_settings(REDIS_LOCKS={"WARN_ORDER": True}):
        yield


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "redis_locks")

    def found() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        # Lines that sum up the waits of other tests may come late.
        return [line for line in lines if " and in it " in line]

    return found


def nested(*locks: Lock) -> None:
    with locks[0]:
        if locks[1:]:
            nested(*locks[1:])


def test_opposite_orders_are_told_once_with_both_places(
    name: str, warnings: Callable[[], list[str]]
) -> None:
    a, b = Lock(f"{name}:a"), Lock(f"{name}:b")

    def forth() -> None:
        with a:
            hold = granted(b.acquire())
            hold.release()

    def back() -> None:
        with b:
            hold = granted(a.acquire())
            hold.release()

    for _ in range(2):
        forth()
    assert [] == warnings()
    for _ in range(2):
        back()
    (message,) = warnings()
    line, other = (function.__code__.co_firstlineno for function in (forth, back))
    assert (
        f"'{name}:a' at {__file__}:{line + 1} and in it '{name}:b' at {__file__}:{line + 2}; "
        f"but '{name}:b' at {__file__}:{other + 1} and in it '{name}:a' at {__file__}:{other + 2}"
    ) in message


def test_what_has_been_released_or_is_taken_at_once_has_no_order(
    name: str, warnings: Callable[[], list[str]]
) -> None:
    a, b = f"{name}:a", f"{name}:b"
    nested(Lock(a), Lock(b))
    for lock in (Lock(b), Lock(a), Lock(b, a)):
        nested(lock)
    nested(Lock(a), Lock(b), Lock(a))  # re-entrant
    assert [] == warnings()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("shared", "shared"), ("shared", "shared"), 0),
        (("shared", "exclusive"), ("exclusive", "shared"), 0),
        (("shared", "exclusive"), ("shared", "exclusive"), 1),
        (("exclusive", "exclusive"), ("shared", "shared"), 1),
    ],
)
def test_only_modes_that_would_wait_for_each_other_count(
    name: str,
    first: tuple[str, str],
    second: tuple[str, str],
    expected: int,
    warnings: Callable[[], list[str]],
) -> None:
    a, b = f"{name}:a", f"{name}:b"
    nested(Lock(a, mode=first[0]), Lock(b, mode=first[1]))  # type: ignore[arg-type]
    nested(Lock(b, mode=second[0]), Lock(a, mode=second[1]))  # type: ignore[arg-type]
    assert expected == len(warnings())


def test_permits_do_not_count(name: str, warnings: Callable[[], list[str]]) -> None:
    nested(Lock(f"{name}:a"), Semaphore(f"{name}:s", 2))
    nested(Semaphore(f"{name}:s", 2), Lock(f"{name}:a"))
    assert [] == warnings()


def test_templates_are_compared_whatever_fills_them(
    name: str, warnings: Callable[[], list[str]]
) -> None:
    @redis_lock(name + ":order:{pk}")
    def order(pk: int, then: Callable[[int], None] | None = None) -> None:
        if then:
            then(pk + 100)

    @redis_lock(name + ":account:{pk}")
    def account(pk: int, then: Callable[[int], None] | None = None) -> None:
        if then:
            then(pk + 100)

    order(1, account)
    account(2, order)
    account(3, order)
    (message,) = warnings()
    assert f"{name}:order:{{pk}}" in message
    assert f"{name}:account:{{pk}}" in message


@pytest.mark.django_db(transaction=True)
def test_rows_are_compared_but_not_the_intents_on_their_model(
    warnings: Callable[[], list[str]],
) -> None:
    first, second = (Group.objects.create(name=name) for name in ("first", "second"))
    for outer, inner in ((first, second), (second, first)):
        with lock_rows(outer), lock_rows(inner):
            pass
    (message,) = warnings()
    assert f"'auth.Group@default:{first.pk}'" in message
    assert f"'auth.Group@default:{second.pk}'" in message
