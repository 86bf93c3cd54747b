"""What a client gets instead of a view's response.

The lock is held, or its server cannot be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist, loader
from django.template.backends.django import DjangoTemplates
from django.utils.cache import patch_vary_headers

from redis_locks.decorators.answers import answer_to
from redis_locks.decorators.view_calls import is_api_class
from redis_locks.exceptions import LockBackendError, LockError, LockNotAvailable

if TYPE_CHECKING:
    from redis_locks.inspection import LockInfo

_SUFFIXES: Final = {"text/plain": "txt", "text/html": "html", "application/json": "json"}
"""The templates by media type; a client that takes any gets the first."""


def respond(
    error: LockError,
    request: HttpRequest,
    *,
    conflict_status: int | None = None,
    view: object = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> HttpResponseBase:
    """Return the answer to a request that did not get its lock, with Retry-After.

    It is HTML, plain text or JSON, as the client asks, or what Django REST framework makes of an
    error.

    Args:
        error: One of `answers.ANSWERED`.
        request: Django's request.
        conflict_status: As for `answer_to`.
        view: The view: an instance of its class, or the function that the URLconf has.
        args: The positional arguments from the URL.
        kwargs: The named ones.
    """
    if is_api_view(view):
        # Not above: only a process with such a view has the framework.
        from redis_locks.decorators.api_errors import api_error, api_response

        failure = api_error(error, conflict_status)
        return api_response(failure, error, view, request, args, kwargs or {})
    answer = answer_to(error, conflict_status)
    asked_with = "application/json" if request.content_type == "application/json" else "text/plain"
    preferred = sorted(_SUFFIXES, key=lambda media_type: media_type != asked_with)
    media_type = request.get_preferred_type(preferred) or "text/plain"
    response = HttpResponse(
        _render(f"redis_locks/{answer.code}.{_SUFFIXES[media_type]}", answer._asdict(), request),
        status=answer.status,
        content_type=f"{media_type}; charset=utf-8",
    )
    response["Retry-After"] = str(answer.retry_after)
    patch_vary_headers(response, ["Accept", "Accept-Language"])
    return response


def _render(template: str, context: dict[str, Any], request: HttpRequest) -> str:
    try:
        return loader.render_to_string(template, context, request)
    except TemplateDoesNotExist as error:
        if str(error) != template:
            raise  # one that the project's own template extends or includes
        # A project that renders no templates, or not those of apps.
        return str(_own_templates().get_template(template).render(context, request))


@cache
def _own_templates() -> DjangoTemplates:
    folder = Path(__file__).parents[1] / "templates"
    return DjangoTemplates(
        {"NAME": "redis_locks", "DIRS": [folder], "APP_DIRS": False, "OPTIONS": {}}
    )


def is_api_view(view: object) -> bool:
    """Whether a view, as `respond` takes it, is one of Django REST framework."""
    kind = getattr(view, "cls", type(view))
    return isinstance(kind, type) and is_api_class(kind)


def note_queue(error: LockNotAvailable, names: Sequence[str], using: str | None) -> None:
    """Complete ``error`` with how many wait in the longest of the queues; blocks for a round trip.

    Leaves it as it is if Redis cannot be asked: it is a hint only.
    """
    # Not above: most processes never inspect a lock, and to import this takes Django's start a
    # while.
    from redis_locks import inspection

    with suppress(LockBackendError):
        _note(error, inspection.locks(using=using, names=names))


async def anote_queue(error: LockNotAvailable, names: Sequence[str], using: str | None) -> None:
    """Complete ``error`` with how many wait in the longest of the queues; see `note_queue`."""
    from redis_locks import inspection  # not above, as in `note_queue`

    with suppress(LockBackendError):
        _note(error, await inspection.alocks(using=using, names=names))


def _note(error: LockNotAvailable, infos: Iterable[LockInfo]) -> None:
    error.waiting = max((info.waiting for info in infos), default=0)
