"""A strict Content-Security-Policy on every page: scripts, styles and data from this site only."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Django has a middleware for this from version 6.0 on; the demo runs on 5.2 too.
POLICY = "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that adds the header."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return middleware
