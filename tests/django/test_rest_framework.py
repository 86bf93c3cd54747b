"""API views of Django REST framework under a lock, and what their clients get on contention."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connections
from django.http import HttpResponse
from django.test import override_settings
from django.urls import include, path
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.test import APIClient, APIRequestFactory
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from redis_locks import Lock, LockLost, LockNotAvailable, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin, exception_handler
from redis_locks.testing import assert_locked, assert_released, override_locks
from tests import elsewhere

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


class Accounts(RedisLockAPIMixin, ViewSet):
    renderer_classes = [JSONRenderer]
    lock_name = "{pk}"
    lock_wait = 0

    def update(self, request: Request, pk: str) -> Response:
        assert_locked(pk)
        return Response("done")


class Inner(APIView):
    """Takes a lock by itself."""

    renderer_classes = [JSONRenderer]

    def get_exception_handler(self) -> Any:
        return exception_handler

    def post(self, request: Request, name: str) -> Response:
        with redis_lock(name, wait=0):
            return Response("done")

    def delete(self, request: Request, name: str) -> Response:
        raise ValidationError("no")


router = SimpleRouter()
router.register("accounts", Accounts, basename="account")
VIEWS: dict[str, Any] = {
    "account": Account,
    "private": Private,
    "answering": Answering,
    "failing": Failing,
    "inner": Inner,
}
urlpatterns = [
    *(path(f"{kind}/<str:name>/", view.as_view()) for kind, view in VIEWS.items()),
    path("", include(router.urls)),
]


def test_an_api_view_holds_its_lock_for_what_changes(name: str) -> None:
    assert APIClient().post(f"/account/{name}/").json() == "done"
    assert_released(name)
    with elsewhere.held(Lock(name)):
        assert APIClient().get(f"/account/{name}/").json() == "read"


def test_a_viewset_behind_a_router_holds_its_lock(name: str) -> None:
    assert APIClient().put(f"/accounts/{name}/").json() == "done"
    with elsewhere.held(Lock(name)):
        assert APIClient().put(f"/accounts/{name}/").status_code == 423


@pytest.mark.parametrize("kind", ["account", "inner"])
def test_contention_is_an_error_of_the_api_with_retry_after(kind: str, name: str) -> None:
    with elsewhere.held(Lock(name, lease=2.5, renew=False)):
        response = APIClient().post(f"/{kind}/{name}/")
    assert response.status_code == 423
    assert response.json() == {
        "detail": "Somebody else is changing this at the moment. Please try again."
    }
    assert 1 <= int(response["Retry-After"]) <= 3


@override_locks("busy")
@pytest.mark.parametrize("status", [409, 503])
def test_the_status_of_contention_is_the_setting(status: int) -> None:
    with override_settings(REDIS_LOCKS={"CONFLICT_STATUS": status}):
        response = APIClient().post("/account/x/")
    assert (response.status_code, response["Retry-After"]) == (status, "10")


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
    with elsewhere.held(Lock(f"{name}:ann")):
        assert client.post(f"/private/{name}/").status_code == 423


@override_locks("busy")
def test_who_may_not_do_it_never_asks_for_the_lock() -> None:
    assert APIClient().post("/private/x/").status_code == 403


@override_locks("busy")
def test_a_method_that_there_is_not_is_refused_as_ever() -> None:
    assert APIClient().options("/account/x/").status_code == 200
    assert APIClient().head("/inner/x/").status_code == 405


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


def test_the_handler_leaves_other_errors_to_the_framework(name: str) -> None:
    assert APIClient().delete(f"/inner/{name}/").status_code == 400
    assert exception_handler(KeyError("x"), {}) is None


def test_requests_take_turns(name: str) -> None:
    inside, most, lock = [0], [0], threading.Lock()

    class Waiting(Account):
        lock_wait = 20

        def post(self, request: Request, name: str) -> Response:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            assert_locked(name)
            with lock:
                inside[0] -= 1
            return Response("done")

    view = Waiting.as_view()
    statuses: list[int] = []

    def call() -> None:
        statuses.append(view(APIRequestFactory().post("/"), name=name).status_code)

    threads = [threading.Thread(target=call) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (statuses, most) == ([200] * 5, [1])
