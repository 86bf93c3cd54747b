"""API views of Django REST framework under a lock, and what their clients get on contention."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connections
from django.http import HttpResponse
from django.urls import path
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

from redis_locks import LockLost, LockNotAvailable
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from redis_locks.testing import assert_locked, assert_released, held, override_locks

pytestmark = pytest.mark.urls(__name__)


class Account(RedisLockAPIMixin, APIView):
    renderer_classes = [JSONRenderer]
    lock_name = "{name}"
    lock_wait = 0

    def get(self, request: Request, name: str) -> Response:
        assert self.hold is None
        return Response("read")

    def post(self, request: Request, name: str) -> Response:
        assert self.hold is not None
        assert_locked(name)
        return Response("done")

    def delete(self, request: Request, name: str) -> Response:
        return Response("gone")


class Private(Account):
    permission_classes = [IsAuthenticated]
    lock_name = "{name}:{request.user.username}"

    def post(self, request: Request, name: str) -> Response:
        assert_locked(f"{name}:{request.user.username}")
        return Response("done")


class Answering(Account):
    def lock_conflict(self, error: LockNotAvailable) -> HttpResponse:
        return Response({"held_by": error.holder, "waiting": error.waiting}, status=409)


class Failing(Account):
    def post(self, request: Request, name: str) -> Response:
        Group.objects.create(name=name)
        raise ValidationError({"amount": ["too much"]})


VIEWS: dict[str, Any] = {
    "account": Account,
    "private": Private,
    "answering": Answering,
    "failing": Failing,
}
urlpatterns = [path(f"{kind}/<str:name>/", view.as_view()) for kind, view in VIEWS.items()]


@override_locks("busy")
def test_the_answer_to_contention_can_be_built() -> None:
    response = APIClient().post("/answering/x/")
    assert response.status_code == 409
    assert "override_locks" in response.json()["held_by"]
    assert response.json()["waiting"] == 0


def test_the_lock_is_named_by_the_user_the_api_knows(name: str) -> None:
    client = APIClient()
    client.force_authenticate(User(username="ann"))
    assert client.post(f"/private/{name}/").json() == "done"
    with held(f"{name}:ann"):
        assert client.post(f"/private/{name}/").status_code == 423


@override_locks("busy")
def test_who_may_not_do_it_never_asks_for_the_lock() -> None:
    assert APIClient().post("/private/x/").status_code == 403


@override_locks("lost")
def test_a_lost_hold_comes_out_of_the_view() -> None:
    with pytest.raises(LockLost):
        APIClient().delete("/account/x/")


@pytest.mark.django_db(transaction=True)
def test_an_error_of_the_api_rolls_back_before_the_lock_is_released(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
    response = APIClient().post(f"/failing/{name}/")
    assert (response.status_code, response.json()) == (400, {"amount": ["too much"]})
    assert not Group.objects.exists()
    assert_released(name)
