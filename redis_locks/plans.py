"""How a lock is asked for: what all its acquires have in common, worked out once."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Final

from redis_locks.backends import Backend
from redis_locks.conf import Settings
from redis_locks.keys import MOST_KEPT, Keys
from redis_locks.packed import Packed

_MOST_PLANS: Final = 1024


@dataclass(slots=True, eq=False)
class Terms:
    """On what terms a lock is asked for on one server, as the settings are now.

    The same for all locks that are described alike, but for their names.
    """

    settings: Settings
    backend: weakref.ref[Backend]
    """Not kept alive: other settings make another one."""
    in_short: bool
    """Whether the shortest way will do, if the server and what is held already allow it."""
    lease_ms: int
    renews: bool
    replicas: int
    plans: dict[tuple[str, ...], Plan] = field(default_factory=dict)
    """How to ask on these terms, by names: of the locks that were asked for last, but for large sets."""
    asker: tuple[str, str, str | None, str] | None = None
    """The thread that asked last: its session, its name, the label, and what people read of them."""

    def keep(self, names: tuple[str, ...], plan: Plan) -> None:
        """Keep how to ask for these locks."""
        if len(names) < MOST_KEPT:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            self.plans[names] = plan


@dataclass(slots=True, eq=False)
class Plan:
    """How the locks of one partition are asked for, like a prepared statement of a database."""

    terms: Terms
    in_short: bool
    """As the terms say, if there are no locks in other partitions."""
    names: tuple[str, ...]
    keys: Keys
    packed: Packed | None
    """Their calls, unless they are a large set."""
