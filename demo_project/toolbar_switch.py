"""Shows django-debug-toolbar to a browser from any page with ?toolbar=on until ?toolbar=off."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

_COOKIE, _ON = "toolbar", "on"


def is_on(request: HttpRequest) -> bool:
    """Whether this request is to be looked at: pages and what their buttons send, but no polls."""
    polls = (
        request.method == "GET" and request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"
    )
    if polls and not request.path.startswith("/__debug__/"):
        return False
    return request.GET.get(_COOKIE, request.COOKIES.get(_COOKIE)) == _ON


def toolbar_switch(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that remembers the choice in a cookie."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if _COOKIE in request.GET:
            response.set_cookie(_COOKIE, request.GET[_COOKIE], samesite="Strict", httponly=True)
        return response

    return middleware
