"""How a lock is asked for: what all its acquires have in common, worked out once."""

from __future__ import annotations

from dataclasses import dataclass

from redis_locks.backends import Backend
from redis_locks.conf import Settings
from redis_locks.drivers.base import PromptDriver
from redis_locks.identity import Session
from redis_locks.keys import Keys


@dataclass(slots=True, eq=False)
class Terms:
    """On what terms a lock is asked for on one server, as the settings are now.

    The same for all locks that a decorator makes of one description.
    """

    settings: Settings
    backend: Backend
    prompt: PromptDriver | None
    """Whom to ask in the shortest way; None if there is more to it."""
    lease_ms: int
    renews: bool
    replicas: int
    asker: tuple[Session, str, str | None, str] | None = None
    """Who asked last: the session, the name of its thread, the label, and what people read of them."""


@dataclass(slots=True, eq=False)
class Plan:
    """How the locks of one partition are asked for, like a prepared statement of a database."""

    terms: Terms
    prompt: PromptDriver | None
    """As that of the terms, if there are no locks in other partitions."""
    names: tuple[str, ...]
    keys: Keys
