"""Tenants that share a server: `REDIS_LOCKS["NAME_FUNCTION"]` prefixes names with the tenant's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.conf import settings
from django.test import override_settings

PATH: Final = f"{__name__}.name_on_server"

tenant: ContextVar[str] = ContextVar("tenant", default="public")
asked: Final[list[tuple[str, str]]] = []
"""What the function was asked for, name and kind; see `counting`."""


def name_on_server(name: str, kind: str) -> str:
    asked.append((name, kind))
    return f"{tenant.get()}|{name}"


@contextmanager
def of(schema: str) -> Iterator[None]:
    """Be this tenant's code in a block."""
    before = tenant.set(schema)
    try:
        yield
    finally:
        tenant.reset(before)


def sharing(path: str = PATH, **others: Any) -> override_settings:
    """Let the names of locks go through a function of this module."""
    return override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "NAME_FUNCTION": path, **others})


def no_text(name: str, kind: str) -> Any:
    return name.encode()


def nothing(name: str, kind: str) -> str:
    return ""


def with_nul(name: str, kind: str) -> str:
    return f"\0{name}"


def too_long(name: str, kind: str) -> str:
    return name * 600


def behind(name: str, kind: str) -> str:
    return f"{name}|{tenant.get()}"


def takes_one(name: str) -> str:
    return name


async def awaited(name: str, kind: str) -> str:
    return name
