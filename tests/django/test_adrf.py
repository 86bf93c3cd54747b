"""Async views of adrf, which is Django REST framework with async handlers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import AsyncRequestFactory
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response

from redis_locks import LockNotAvailable, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from redis_locks.testing import assert_locked, assert_released, held

adrf: Any = pytest.importorskip("adrf.views")
viewsets: Any = pytest.importorskip("adrf.viewsets")

pytestmark = pytest.mark.usefixtures("redis_server")


class View(RedisLockAPIMixin, adrf.APIView):  # type: ignore[misc, name-defined]
    authentication_classes: Any = []
    lock_name = "{name}"
    lock_wait = 0

    async def post(self, request: Any, name: str) -> Response:
        await asyncio.to_thread(assert_locked, name)
        async with redis_lock(name, wait=0):  # nested: the handler is inside
            return Response(bool(self.hold))

    async def get(self, request: Any, name: str) -> Response:
        return Response(bool(self.hold))

    async def put(self, request: Any, name: str) -> Response:
        raise RuntimeError(name)


class Private(View):
    permission_classes = [IsAuthenticated]


class Answering(View):
    def lock_conflict(self, error: LockNotAvailable) -> Response:
        return Response("later", status=409)


def call(view: Any, method: str, name: str) -> Any:
    request = getattr(AsyncRequestFactory(), method)("/")
    return asyncio.run(view(request, name=name))


def test_the_lock_is_held_while_the_handler_runs_and_no_longer(name: str) -> None:
    for _ in range(2):
        assert call(View.as_view(), "post", name).data is True
        assert_released(name)
    with held(name):
        answer = call(View.as_view(), "post", name)
        assert 423 == answer.status_code
        assert answer["Retry-After"]
        assert call(View.as_view(), "get", name).data is False
        assert 409 == call(Answering.as_view(), "post", name).status_code
        assert 403 == call(Private.as_view(), "post", name).status_code
        assert 405 == call(View.as_view(), "delete", name).status_code


def test_a_cancelled_request_releases(name: str) -> None:
    class Slow(View):
        async def post(self, request: Any, name: str) -> Response:
            entered.set()
            await asyncio.sleep(60)
            return Response()

    async def main() -> None:
        nonlocal entered
        entered = asyncio.Event()
        task = asyncio.create_task(Slow.as_view()(AsyncRequestFactory().post("/"), name=name))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    entered: Any = None
    asyncio.run(main())
    assert_released(name)


def test_requests_in_one_loop_take_turns(name: str) -> None:
    inside = [0, 0]

    class Waiting(View):
        lock_wait = 20

        async def post(self, request: Any, name: str) -> Response:
            inside[0] += 1
            inside[1] = max(inside)
            await asyncio.sleep(0.05)
            inside[0] -= 1
            return Response()

    async def main() -> None:
        view = Waiting.as_view()
        posts = [view(AsyncRequestFactory().post("/"), name=name) for _ in range(3)]
        assert [200] * 3 == [each.status_code for each in await asyncio.gather(*posts)]

    asyncio.run(main())
    assert 1 == inside[1]
