"""ATOMIC_REQUESTS: what cannot be locked until COMMIT is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.transaction import TransactionManagementError
from django.test import Client

from tests.django import atomic_views as views
from tests.django.atomic_views import ASYNC, KEPT_OPTED_OUT, AsyncMixed, Mixed, waiting

pytestmark = [
    pytest.mark.urls(views.__name__),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("atomic_requests"),
]


@pytest.mark.parametrize("kind", KEPT_OPTED_OUT)
def test_a_lock_for_transactions_is_refused_to_a_view_that_opted_out(kind: str, name: str) -> None:
    with pytest.raises(TransactionManagementError, match="needs a transaction"):
        Client().post(f"/{kind}/{name}/")
    assert {} == waiting


@pytest.mark.parametrize(
    ("view", "options", "message"),
    [
        (Mixed, {"lock_scope": "request"}, "scope must be 'auto', 'block' or 'transaction'"),
        (Mixed, {"lock_database": ""}, "database must be an alias of DATABASES"),
        (Mixed, {"lock_commit_guard": None}, "commit_guard must be True or False, not None"),
        (AsyncMixed, {"lock_scope": "transaction"}, "not for async code"),
    ],
)
def test_a_mixin_refuses_what_the_decorator_refuses(
    view: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"{view.__name__}: .*{message}"):
        view.as_view(**options)


@pytest.mark.parametrize("kind", ASYNC)
def test_an_async_view_is_refused_as_django_refuses_it(kind: str, name: str) -> None:
    with pytest.raises(RuntimeError, match="ATOMIC_REQUESTS with async views"):
        Client().post(f"/{kind}/{name}/")
