"""What the bank's pages say when Redis cannot be asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import redis
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from demo_project.bank.live_page import wants_news
from redis_locks import LockError

View = Callable[..., HttpResponse]


def explains_trouble(view: View) -> View:
    """Answer 503 with the reason, as a page, when Redis cannot be asked."""

    @wraps(view)
    def explained(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except (redis.RedisError, LockError) as error:
            if wants_news(request):
                return JsonResponse({"unreachable": str(error)}, status=503)
            return render(request, "bank/trouble.html", {"error": error}, status=503)

    return explained
