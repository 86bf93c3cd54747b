"""Who looks at the admin's pages of locks, and what is on one."""

from __future__ import annotations

import re
from math import inf

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from tests.support import admin
from tests.support.admin import to_path

LIST = "admin:redis_locks_lock_changelist"
DATA = "admin:redis_locks_lock_data"
HOSTILE = [
    "<script>alert(1)</script>",
    "\u202egnp.exe",
    "first\nsecond\r\tthird",
    "x" * 512,
    "é/../?a=b&c#d%2F\\_5F",
    ".",
    "..",
    "صندوق",
    "add",
    "data",
]


def staff(*codenames: str, name: str = "staff") -> Client:
    """A browser in which a staff member with these permissions is logged in."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Whoever may only look. On a busy machine, too, the list shows what is so now."""
    admin.keep_surveys(monkeypatch, slower_than=inf)
    return staff("view_lock")


@pytest.fixture
def operator() -> Client:
    """Whoever may look, force-release and cancel."""
    return staff("view_lock", "release_lock", "cancel_waiter")


def page_of(name: str, view: str = "change") -> str:
    return reverse(f"admin:redis_locks_lock_{view}", args=[to_path(name)])


def text_of(browser: Client, url: str) -> str:
    response = browser.get(url)
    assert 200 == response.status_code
    return response.content.decode()


def rows(html: str) -> list[str]:
    return re.findall(r"<tr data-key.*?</tr>", html, re.DOTALL)
