"""Locks of rows, as tests of blocking and of async code take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ledger.models import Counter
from tests.support.rows import row_of
from tests.support.world import World

Make = Callable[..., Counter]
"""Makes a row."""


def lock_of(row: Any) -> str:
    return row_of(type(row), "default", row.pk).name


def locked(world: World, what: Any) -> Any:
    """Acquire, which must succeed."""
    found: Any = world.acquire(what)
    assert found is not None
    return found
