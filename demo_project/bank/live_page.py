"""Pages that keep themselves up to date: no page loads again under a keyboard.

The script of the locks' admin does it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import redis
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django_redis import get_redis_connection

from redis_locks import LockError
from redis_locks.admin.screens import Piece, Screen
from redis_locks.admin.script_texts import script_texts

from .processes import ActorFailed, Busy

Part = partial(Piece, folder="bank")
"""A part of a page of the bank; see `Piece`."""


View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """Answer by GET, never from a cache, and say so if Redis cannot be asked."""
    return never_cache(require_GET(_explains_trouble(view)))


def action(view: View) -> View:
    """Answer by POST, and say so if Redis cannot be asked."""
    return require_POST(_explains_trouble(view))


def _explains_trouble(view: View) -> View:
    """Answer 503 with the reason when Redis cannot be asked."""

    @wraps(view)
    def explained(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except (redis.RedisError, LockError) as error:
            if wants_news(request):
                return JsonResponse({"unreachable": str(error)}, status=503)
            return render(request, "bank/trouble.html", {"error": error}, status=503)

    return explained


def bank() -> redis.Redis:
    """The client of the bank's server."""
    found: redis.Redis = get_redis_connection("default")
    return found


def wants_news(request: HttpRequest) -> bool:
    """Whether a page's script asks for what has changed."""
    return not request.accepts("text/html")


def answer(
    request: HttpRequest,
    template: str,
    parts: Sequence[Piece],
    *,
    over: bool = False,
    live_url: str | None = None,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """Return a page, or the news of its parts.

    Args:
        request: The page has its parts from the same address that it has itself.
        template: The page's template, which has a place for each part.
        parts: What changes while somebody looks.
        over: Whether nothing will change any more.
        live_url: Where the news are, if the page is the answer to a form.
        status: That of the page.
        context: What the template needs beside the parts.
    """
    screen = Screen(now=time.time(), parts=parts, over=over)
    if wants_news(request):
        found = screen.answer(request)
    else:
        texts = script_texts()
        live = {
            "live_url": "" if over else live_url or request.path,
            "texts": texts,
            "texts_json": json.dumps(texts),
        }
        found = render(request, template, {**context, **screen.context, **live}, status=status)
    patch_vary_headers(found, ["Accept"])
    return found


def begin(
    request: HttpRequest, start: Callable[[], object], front: str, found: str
) -> HttpResponse:
    """Start something, and lead to its page `found`; to `front` if it cannot be started.

    `found` takes what the start returns.
    """
    try:
        return redirect(found, start())
    except (Busy, ActorFailed, OSError) as error:
        messages.error(request, str(error))
        return redirect(front)


def forgotten(request: HttpRequest, text: str, front: str) -> HttpResponse:
    """Say that what the address names is not known any more; the reader is led to `front`."""
    if wants_news(request):
        return JsonResponse({"gone": text}, status=404)
    messages.warning(request, text)
    return redirect(front)
