"""What the examples in README and docs take as given: names of the reader's own project."""

from __future__ import annotations

import redis
from django.db import models  # noqa: F401 - for examples
from django.http import HttpRequest, HttpResponse
from django.views import View  # noqa: F401 - for examples

from redis_locks import LockError

client: redis.Redis


def build_report(fence: int) -> None:
    """Write something that checks a fencing token."""


def retry_page(request: HttpRequest, error: LockError) -> HttpResponse:
    """Return a page of the project's own."""
    return HttpResponse(status=503)
