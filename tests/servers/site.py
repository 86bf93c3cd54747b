"""A small Django project with locked views for real servers: settings, views, applications.

The environment says where database and Redis are, and the name of the lock. Every view adds 1 to a
number that it reads in Python and writes back, so that two at once lose one of them.
"""

from __future__ import annotations

import os
import time

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

NAME = os.environ["SITE_LOCK"]

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ["SITE_DATABASE"],
            "ATOMIC_REQUESTS": True,
            "OPTIONS": {"timeout": 30},
        }
    },
    INSTALLED_APPS=["redis_locks"],
    REDIS_LOCKS={"CONNECTION": os.environ["REDIS_LOCKS_TEST_URL"], "WAIT": 30},
    ROOT_URLCONF=__name__,
    SECRET_KEY="only for tests",  # noqa: S106
)
django.setup()

from redis_locks import Hold, Lock, redis_lock  # noqa: E402 - the settings come first


def add_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM counter")
        (value,) = cursor.fetchone()
        time.sleep(
            0.002
        )  # others may read the same value meanwhile, if there is nothing to stop them
        cursor.execute("UPDATE counter SET value = %s", [value + 1])


@redis_lock(NAME)
def add(request: HttpRequest) -> HttpResponse:
    """Add in the transaction of the request, which is committed after this function's return."""
    add_one()
    return HttpResponse(os.getpid())


@redis_lock(NAME)
@transaction.non_atomic_requests
async def add_async(request: HttpRequest) -> HttpResponse:
    await sync_to_async(transaction.atomic(add_one))()
    return HttpResponse(os.getpid())


def is_lost(request: HttpRequest) -> HttpResponse:
    """Whether the hold that was taken when this module was imported is lost to this process."""
    return HttpResponse("none" if kept is None else kept.is_lost)


urlpatterns = [path("add", add), path("async", add_async), path("lost", is_lost)]

kept: Hold | None = None
if "SITE_KEEPS" in os.environ:
    kept = Lock(f"{NAME}:kept", lease=0.9).acquire()

wsgi = get_wsgi_application()
asgi = get_asgi_application()
