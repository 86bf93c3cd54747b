"""The admin's lock pages under themes, which replace Django's templates and need their context."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import reverse

from redis_locks.testing.server import EmbeddedServer
from tests.django.admin_pages import LIST, page_of
from tests.support.children import ROOT, run_python
from tests.support.parties import held


@pytest.mark.parametrize(
    "theme",
    [
        "unfold",
        *(pytest.param(theme, marks=pytest.mark.ci) for theme in ("jazzmin", "grappelli", "none")),
    ],
)
def test_the_pages_render_under_a_theme(theme: str, redis_server: EmbeddedServer) -> None:
    if theme != "none":
        pytest.importorskip(theme)
    script = str(Path(__file__).with_name("themed_site.py"))
    env = {**os.environ, "REDIS_URL": redis_server.url, "PYTHONPATH": str(ROOT)}
    done = run_python(script, *([] if theme == "none" else [theme]), within=120, env=env)
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert [] == [line for line in lines if not line.startswith("200 True /admin/")]
    assert 9 == len(lines)


def themed() -> Any:
    """Templates of a theme: all but those that the pages may use raise."""
    fails = "{% load no_such_library %}"
    its = dict.fromkeys(("admin/change_list.html", "admin/change_form.html"), fails)
    base = "<title>{{ title }}</title>{% block content %}{% endblock %}"
    loader = ("django.template.loaders.locmem.Loader", {**its, "admin/base_site.html": base})
    (engine,) = settings.TEMPLATES
    options = {
        **engine["OPTIONS"],
        "loaders": [loader, "django.template.loaders.app_directories.Loader"],
    }
    return override_settings(TEMPLATES=[{**engine, "APP_DIRS": False, "OPTIONS": options}])


@pytest.mark.django_db
@pytest.mark.usefixtures("own_prefix")
def test_the_pages_need_the_base_of_the_site_only(viewer: Client, name: str) -> None:
    with themed(), held(name):
        stats = reverse("admin:redis_locks_lock_stats")
        for page in (reverse(LIST), page_of(name), stats):
            response = viewer.get(page)
            assert 200 == response.status_code
            assert b"locks-page" in response.content
