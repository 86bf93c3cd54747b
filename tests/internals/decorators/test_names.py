"""Templates: what they may say, and the names they give for a call."""

from __future__ import annotations

import functools
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


@pytest.mark.parametrize(
    ("template", "args", "kwargs", "expected"),
    [
        ("account:{account_id}", (7,), {}, "account:7"),
        ("account:{account_id}", (), {"account_id": 7}, "account:7"),
        ("{account_id}:{currency}:{day}", (7,), {}, "7:EUR:today"),
        ("{account_id}:{currency}:{day}", (7, "USD"), {"day": "d"}, "7:USD:d"),
        ("{account_id}:{account_id}", (7,), {}, "7:7"),
        ("{{{account_id}}}", (7,), {}, "{7}"),
        ("all {{accounts}}", (7,), {}, "all {accounts}"),
    ],
)
def test_a_template_takes_the_values_of_the_call(
    template: str, args: tuple[object, ...], kwargs: dict[str, object], expected: str
) -> None:
    assert name_for(account, template, *args, **kwargs) == expected


def test_a_field_follows_attributes() -> None:
    request = SimpleNamespace(user=SimpleNamespace(pk=5))
    assert name_for(lambda request: None, "user:{request.user.pk}", request) == "user:5"


def test_a_method_can_name_itself() -> None:
    class Job:
        key = "nightly"

        def run(self) -> None: ...

    assert name_for(Job.run, "job:{self.key}", Job()) == "job:nightly"


def test_a_keyword_of_a_positional_only_parameters_name_is_another_value() -> None:
    assert name_for(positional, "{account_id}", 1, account_id=2) == "1"


def test_a_field_may_come_from_any_keyword() -> None:
    assert name_for(positional, "{pk}", 1, pk=2) == "2"
    assert name_for(anything, "{pk}", pk=3) == "3"


def test_a_keyword_that_the_call_does_not_give_is_named() -> None:
    with pytest.raises(ValueError, match="no argument named 'pk'"):
        name_for(anything, "{pk}", 3)


def test_a_call_with_a_missing_argument_fails_as_the_function_would() -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'account_id'"):
        name_for(account, "{account_id}")


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


@pytest.mark.parametrize("value", [None, ""])
def test_a_value_that_everybody_would_share_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="account_id"):
        name_for(account, "account:{account_id}", value)


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


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match=r"\{account_id\.pk\}: a int has no attribute 'pk'"):
        name_for(account, "{account_id.pk}", 7)


def test_a_name_too_long_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="512"):
        name_for(account, "{account_id}", "x" * 513)


@pytest.mark.parametrize("result", [None, 5, ""])
def test_a_callable_must_return_a_name(result: object) -> None:
    with pytest.raises((TypeError, ValueError), match="name callable"):
        name_for(account, lambda account_id: result, 7)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ValueError, match="no name of its own"):
        for_calls_of(lambda: None, None)
