"""How a lock is asked for: what all its acquires have in common, worked out once."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Final

from redis_locks.backends import Backend
from redis_locks.conf import Settings
from redis_locks.keys import MOST_KEPT, Keys
from redis_locks.packed import Packed


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
    asker: tuple[str, str, str | None, str] | None = None
    """The thread that asked last: its session, its name, the label, and what people read of them."""


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


_MOST: Final = 4096

_plans: Final[dict[tuple[Terms, tuple[str, ...]], Plan]] = {}
"""How to ask on some terms for the locks with some names: for those that were asked for lately, but for large sets.

Not kept by the terms, which would keep themselves alive then.
"""


def known(terms: Terms, names: tuple[str, ...]) -> Plan | None:
    """Return how these locks are asked for on these terms, if that is kept."""
    return _plans.get((terms, names))


def keep(names: tuple[str, ...], plan: Plan) -> None:
    """Keep how the locks with these names are asked for; a plan has the first of them if they are in several partitions."""
    if len(names) < MOST_KEPT:
        if len(_plans) >= _MOST:
            _plans.clear()
        _plans[plan.terms, names] = plan
