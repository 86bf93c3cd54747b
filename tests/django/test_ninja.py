"""Operations of django-ninja whose locks somebody else holds."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import path

from redis_locks import redis_lock, run_once
from redis_locks.integrations.ninja import answer_locks
from redis_locks.testing import assert_locked, assert_released, held, override_locks

ninja: Any = pytest.importorskip("ninja")

pytestmark = [pytest.mark.urls(__name__), pytest.mark.usefixtures("redis_server")]

api = ninja.NinjaAPI(urls_namespace="locks")
answer_locks(api)


@api.post("/block/{name}")
def block(request: Any, name: str) -> str:
    with redis_lock(name, wait=0):
        assert_locked(name)
        return "done"


@api.post("/async/{name}")
async def in_async(request: Any, name: str) -> str:
    async with redis_lock(name, wait=0):
        return "done"


@api.post("/decorated/{name}")
@redis_lock("{name}", wait=0)
def decorated(request: Any, name: str) -> str:
    assert_locked(name)
    return "done"


urlpatterns = [path("api/", api.urls)]


@pytest.mark.parametrize("kind", ["block", "async", "decorated"])
@pytest.mark.parametrize("debug", [True, False])
def test_an_operation_answers_contention(kind: str, debug: bool, name: str) -> None:
    with override_settings(DEBUG=debug):
        with held(name):
            answer = Client().post(f"/api/{kind}/{name}")
            assert 423 == answer.status_code
            assert 1 <= int(answer["Retry-After"]) <= 60
        assert "done" == Client().post(f"/api/{kind}/{name}").json()
        assert 404 == Client().post(f"/api/{kind}/{'a' * 600}").status_code
    assert_released(name)


@override_locks("unavailable")
def test_an_operation_answers_that_redis_cannot_be_asked() -> None:
    answer = Client().post("/api/block/x")
    assert (503, {"detail"}) == (answer.status_code, answer.json().keys())


@pytest.mark.parametrize("ours", [redis_lock("a lock"), run_once("a job")])
def test_an_operation_beneath_ours_is_refused(ours: Any) -> None:
    def refund(request: Any) -> str:
        return "not locked"

    operation = ninja.NinjaAPI(urls_namespace="order").post("/refunds")(refund)
    with pytest.raises(TypeError, match=r"(?s)the operation refund: .* decorator above"):
        ours(operation)


def test_a_router_is_no_api() -> None:
    with pytest.raises(TypeError, match=r"api must be a NinjaAPI, not .*Router"):
        answer_locks(ninja.Router())
