"""Pages that keep themselves up to date, by the script of the locks' admin: no page loads again under a keyboard."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers

from redis_locks.admin.screens import Piece, Screen
from redis_locks.admin.script_texts import script_texts

Part = partial(Piece, folder="bank")
"""A part of a page of the bank; see `Piece`."""


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


def forgotten(request: HttpRequest, text: str, page: str) -> HttpResponse:
    """Say that what the address names is not known any more; the reader is led to `page`."""
    if wants_news(request):
        return JsonResponse({"gone": text}, status=404)
    messages.warning(request, text)
    return redirect(page)
