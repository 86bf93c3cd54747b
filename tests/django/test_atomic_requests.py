"""ATOMIC_REQUESTS: a locked view releases after COMMIT, so the next holder sees its work."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test import Client, RequestFactory, override_settings

from tests.django import atomic_views as views
from tests.django.atomic_views import AROUND, ATOMIC, FAILING, KEPT, OPTED_OUT, seen_by_next_holder

pytestmark = [
    pytest.mark.urls(views.__name__),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("atomic_requests"),
]


@pytest.mark.parametrize("kind", ATOMIC | AROUND | KEPT)
def test_the_next_holder_sees_what_was_committed(kind: str, name: str) -> None:
    response = Client().post(f"/{kind}/{name}/")
    assert response.content == b"True"
    assert seen_by_next_holder(name) == [name]


@pytest.mark.parametrize("kind", ["function", "mixin", "calls-itself"])
@override_settings(MIDDLEWARE=[f"{views.__name__}.in_transaction"])
def test_so_it_does_below_a_middleware_that_opens_a_transaction(kind: str, name: str) -> None:
    assert Client().post(f"/{kind}/{name}/").content == b"True"
    assert seen_by_next_holder(name) == [name]


@pytest.mark.parametrize("kind", FAILING)
def test_an_error_rolls_back_before_the_lock_is_released(kind: str, name: str) -> None:
    with pytest.raises(RuntimeError, match="after the work"):
        Client().post(f"/{kind}/{name}/")
    assert seen_by_next_holder(name) == []


@pytest.mark.parametrize("kind", OPTED_OUT)
def test_a_view_that_opted_out_gets_no_transaction(kind: str, name: str) -> None:
    response = Client().post(f"/{kind}/{name}/")
    assert response.content == b"False"
    assert seen_by_next_holder(name) == [name]


@pytest.mark.parametrize("kind", ["mixin", "api", "kept-mixin", "kept-api"])
def test_a_method_without_lock_still_gets_its_transaction(kind: str, name: str) -> None:
    assert Client().get(f"/{kind}/{name}/").content == b"True"


@pytest.mark.parametrize("kind", ATOMIC)
def test_without_atomic_requests_there_is_no_transaction(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", False)
    assert Client().post(f"/{kind}/{name}/").content == b"False"
    assert seen_by_next_holder(name) == [name]


def test_a_view_called_as_a_function_gets_no_transaction(name: str) -> None:
    assert views.function(RequestFactory().post("/"), name).content == b"False"
    assert seen_by_next_holder(name) == [name]
