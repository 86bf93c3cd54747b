"""A project whose admin has a theme: ``python themed_site.py APP...`` with REDIS_URL set.

It visits the pages of locks, and prints the status of each.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import django
from django.conf import settings
from django.urls import include, path

THEMES = sys.argv[1:]

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
settings.ROOT_URLCONF = __name__
settings.INSTALLED_APPS = [*THEMES, *settings.INSTALLED_APPS]
settings.REDIS_LOCKS = {"CONNECTION": os.environ["REDIS_URL"], "PREFIX": f"themes:{os.getpid()}:"}
django.setup()

from django.contrib import admin  # noqa: E402 - after setup
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from redis_locks import Lock, inspection  # noqa: E402
from tests.support.admin import mark_of  # noqa: E402

urlpatterns: list[Any] = [path("admin/", admin.site.urls)]
if "grappelli" in THEMES:
    urlpatterns.append(path("grappelli/", include("grappelli.urls")))

LOCKS = "/admin/redis_locks/lock/"


def main() -> None:
    call_command("migrate", verbosity=0)
    browser = Client(raise_request_exception=False)
    browser.force_login(User.objects.create_superuser("root"))

    def wait() -> None:
        hold = Lock("report", wait=60).acquire()
        if hold is not None:
            hold.release()

    with Lock("report", label="the nightly report"):
        waiter = threading.Thread(target=wait)
        waiter.start()
        while not ((info := inspection.lock("report")) and info.waiters):
            time.sleep(0.01)
        party = mark_of(info.waiters[0].token)
        for page in (
            LOCKS,
            f"{LOCKS}report/change/",
            f"{LOCKS}stats/",
            f"{LOCKS}report/release/",
            f"{LOCKS}report/cancel/?party={party}",
            f"{LOCKS}bulk/?q=report",
            f"{LOCKS}report/history/",
            "/admin/redis_locks/",
            "/admin/",
        ):
            response = browser.get(page)
            text = response.content.decode()
            ours = page.startswith(LOCKS) and "history" not in page
            found = "locks-page" in text or not ours
            sys.stdout.write(f"{response.status_code} {found} {page}\n")
    waiter.join()


if __name__ == "__main__":
    main()
