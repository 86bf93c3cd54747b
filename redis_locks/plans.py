"""How a lock is asked for: what all its acquires have in common, worked out once."""

from __future__ import annotations

from dataclasses import dataclass

from redis_locks.backends import Backend
from redis_locks.conf import Settings
from redis_locks.drivers.base import PromptDriver
from redis_locks.keys import Keys


@dataclass(slots=True, eq=False)
class Plan:
    """How the locks of one partition are asked for on one server, as the settings are now.

    Like a prepared statement of a database.
    """

    settings: Settings
    backend: Backend
    prompt: PromptDriver | None
    """Whom to ask in the shortest way; None if there is more to it."""
    names: tuple[str, ...]
    keys: Keys
    lease_ms: int
    renews: bool
    replicas: int
