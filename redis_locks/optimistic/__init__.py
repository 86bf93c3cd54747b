"""Optimistic transactions: WATCH, read, MULTI, EXEC; again after a conflict, but applied once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis_locks.optimistic.pipelines import AsyncWatchingPipeline, WatchingPipeline

__all__ = ["AsyncWatchingPipeline", "WatchingPipeline"]


def __getattr__(name: str) -> Any:
    """Import the pipelines when somebody first asks for one: they import redis-py."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from redis_locks.optimistic import pipelines

    return getattr(pipelines, name)
