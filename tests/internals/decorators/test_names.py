"""Templates: what they may say, and the names they give for a call."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import TextChoices
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from redis_locks.decorators.calls import for_calls_of
from redis_locks.values.name_templates import parse


def account(account_id: int, currency: str = "EUR", *, day: str = "today") -> None: ...


def positional(account_id: int, /, **options: object) -> None: ...


def anything(*args: object, **kwargs: object) -> None: ...


def name_for(function: Any, name: object, *args: object, **kwargs: object) -> str:
    (rendered,) = for_calls_of(function, name)(args, kwargs)
    return rendered


def test_several_templates_name_a_set_of_locks() -> None:
    names = for_calls_of(account, "account:{account_id}", "day:{day}")
    assert names((7,), {}) == ("account:7", "day:today")


def test_a_callable_may_name_a_set_of_locks() -> None:
    names = for_calls_of(account, lambda account_id: [f"a:{account_id}", "b", "b"])
    assert names((7,), {}) == ("a:7", "b")


class Job:
    key = "nightly"

    def run(self) -> None: ...


REQUEST = SimpleNamespace(user=SimpleNamespace(pk=5))


@pytest.mark.parametrize(
    ("function", "template", "args", "kwargs", "expected"),
    [
        (account, "account:{account_id}", (7,), {}, "account:7"),
        (account, "account:{account_id}", (), {"account_id": 7}, "account:7"),
        (account, "{account_id}:{currency}:{day}", (7,), {}, "7:EUR:today"),
        (account, "{account_id}:{currency}:{day}", (7, "USD"), {"day": "d"}, "7:USD:d"),
        (account, "{account_id}:{account_id}", (7,), {}, "7:7"),
        (account, "{{{account_id}}}", (7,), {}, "{7}"),
        (account, "all {{accounts}}", (7,), {}, "all {accounts}"),
        (lambda request: None, "user:{request.user.pk}", (REQUEST,), {}, "user:5"),
        (Job.run, "job:{self.key}", (Job(),), {}, "job:nightly"),
        # A keyword of a positional-only parameter's name is another value.
        (positional, "{account_id}", (1,), {"account_id": 2}, "1"),
        (positional, "{pk}", (1,), {"pk": 2}, "2"),
        (anything, "{pk}", (), {"pk": 3}, "3"),
    ],
)
def test_a_template_takes_the_values_of_the_call(
    function: Any, template: str, args: tuple[object, ...], kwargs: dict[str, object], expected: str
) -> None:
    assert name_for(function, template, *args, **kwargs) == expected


@pytest.mark.parametrize(
    ("function", "template", "args", "error", "message"),
    [
        (anything, "{pk}", (3,), ValueError, "no argument named 'pk'"),
        # As the function would fail.
        (account, "{account_id}", (), TypeError, "missing a required argument: 'account_id'"),
        (account, "account:{account_id}", (None,), ValueError, "account_id"),
        (account, "account:{account_id}", ("",), ValueError, "account_id"),
        (account, "{account_id}", ("x" * 513,), ValueError, "512"),
        (account, "{account_id.pk}", (7,), AttributeError, "{account_id.pk}: a int has no attri"),
    ],
)
def test_a_call_without_a_value_for_the_template_is_refused(
    function: Any, template: str, args: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        name_for(function, template, *args)


@pytest.mark.parametrize(
    "template",
    [
        "{}",
        "{0}",
        "{account_id[0]}",
        "{account_id!r}",
        "{account_id:>5}",
        "{account_id:{currency}}",
        "{account_id.__class__}",
        "{account_id._private}",
        "{account_id.}",
        "{account id}",
        "{account_id",
        "account_id}",
        "",
    ],
)
def test_a_template_that_could_run_code_or_is_malformed_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="name"):
        parse(template)


@pytest.mark.parametrize("function", [account, lambda account_id, currency, day, *a: None])
@pytest.mark.parametrize("template", ["{acount_id}", "{a}", "{self.pk}"])
def test_an_unknown_parameter_is_refused_before_any_call(function: Any, template: str) -> None:
    with pytest.raises(ValueError, match="there are: account_id, currency, day"):
        for_calls_of(function, template)


def test_all_further_arguments_together_are_no_field() -> None:
    with pytest.raises(ValueError, match="it has none"):
        for_calls_of(anything, "{args}")


@dataclass
class Money:
    cents: int


class Currency(TextChoices):
    EURO = "EUR"


@pytest.mark.parametrize(
    "value",
    [
        *(b"7", object(), print, [].append, functools.partial(print)),
        *([7], (7,), {}, Money(7), HttpRequest(), User.objects.all()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_text_of_its_own_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="account_id"):
        name_for(account, "account:{account_id}", value)


@pytest.mark.parametrize(
    "value",
    [User(pk=7, username="ann"), SimpleLazyObject(lambda: User(pk=7)), AnonymousUser()],
    ids=["a user", "a lazy one", "nobody"],
)
def test_a_model_s_instance_is_refused_for_its_pk_is_meant(value: object) -> None:
    with pytest.raises(TypeError, match=r"write \{account_id\.pk\}"):
        name_for(account, "account:{account_id}", value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "True"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (date(2026, 11, 25), "2026-11-25"),
        (datetime(2026, 11, 25, tzinfo=UTC), "2026-11-25 00:00:00+00:00"),
        (Currency.EURO, "EUR"),
        (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (SimpleLazyObject(lambda: 7), "7"),
    ],
)
def test_a_value_with_a_text_of_its_own_is_fine(value: object, expected: str) -> None:
    assert expected == name_for(account, "{account_id}", value)


@pytest.mark.parametrize("result", [None, 5, ""])
def test_a_callable_must_return_a_name(result: object) -> None:
    with pytest.raises((TypeError, ValueError), match="name callable"):
        name_for(account, lambda account_id: result, 7)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ValueError, match="no name of its own"):
        for_calls_of(lambda: None, None)
