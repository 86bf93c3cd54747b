"""Warn in the log of locks that this process takes in opposite orders, before that ever deadlocks.

Only with REDIS_LOCKS["WARN_ORDER"]; otherwise nothing here is called. As in a database, a deadlock
needs two that take the same locks in opposite orders at the same time. One after the other is
enough here to see that it can happen.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Iterator
from functools import cache
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from redis_locks.conf.settings import get_settings
from redis_locks.protocol import lock_events
from redis_locks.protocol.callers import Held, Place
from redis_locks.values import modes
from redis_locks.values.identity import caller

if TYPE_CHECKING:
    from redis_locks.protocol.lease import Lease

logger = logging.getLogger("redis_locks")

MOST_ORDERS: Final = 4096
"""How many orders are remembered; the oldest is forgotten first."""

MOST_PAIRS: Final = 256
"""How many pairs of locks one acquire adds; sets may have a thousand locks each."""

MOST_HELD: Final = 16
"""With how many of the locks that are held, the latest, a new one is compared: it costs the same
beside thousands.
"""


_MODES: Final = (
    *get_args(modes.RowMode),
    *(modes.intent(mode) for mode in get_args(modes.RowMode)),
)


class _One(NamedTuple):
    """A lock, and how it is taken."""

    server: object
    name: str
    """Its template, if it has one: in the other order it is seldom the same row's."""
    mode: str


class _Order(NamedTuple):
    """That one lock was taken while another was held, and where in the code."""

    outer: str
    inner: str


class Orders:
    """In which orders this process takes locks. Used by several threads at once."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._seen: dict[tuple[_One, ...], _Order] = {}
        self._warned: dict[frozenset[tuple[object, str]], None] = {}
        self._places: weakref.WeakKeyDictionary[Lease, str] = weakref.WeakKeyDictionary()

    def note(self, new: Lease, held: Held, server: object) -> None:
        """Note that `new` on `server` was just taken by the thread or task that has `held`."""
        where = self._places[new] = caller()
        for outer, inner in islice(_pairs(new, held, server), MOST_PAIRS):
            self._compare(*outer, inner, where)

    def _compare(self, held: Lease, outer: _One, inner: _One, where: str) -> None:
        order = _Order(self._places.get(held, "a place before this was watched"), where)
        with self._mutex:
            if (outer, inner) in self._seen:
                return
            _remember(self._seen, (outer, inner), order)
            opposite = next(filter(None, map(self._seen.get, _opposites(outer, inner))), None)
            both = frozenset({outer[:2], inner[:2]})
            if opposite is None or both in self._warned:
                return
            _remember(self._warned, both, None)
        logger.warning(
            "Locks %r and %r are taken in opposite orders, which can end in a deadlock: %r at %s "
            "and in it %r at %s; but %r at %s and in it %r at %s. Take them in the same order, or "
            "together as a set",
            *(outer.name, inner.name),
            *(inner.name, opposite.outer, outer.name, opposite.inner),
            *(outer.name, order.outer, inner.name, order.inner),
        )


def _remember(kept: dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= MOST_ORDERS:
        del kept[next(iter(kept))]
    kept[key] = value


def _opposites(outer: _One, inner: _One) -> Iterator[tuple[_One, ...]]:
    """The ways to take them the other way round in which each would wait for the other."""
    in_the_way = (
        [_One(one.server, one.name, mode) for mode in _in_the_way(one.mode)]
        for one in (inner, outer)
    )
    return product(*in_the_way)


@cache
def _in_the_way(mode: str) -> list[str]:
    return [other for other in _MODES if modes.excludes(mode, other)]


def _pairs(new: Lease, held: Held, server: object) -> Iterator[tuple[tuple[Lease, _One], _One]]:
    if new.mode.startswith("permit"):  # which waits for any of several to end
        return
    for (outer_server, name), outer in _latest(held):
        if not outer.is_held or outer.mode.startswith("permit"):
            continue
        for wanted in new.names:
            first, second = _named(outer, name), _named(new, wanted)
            if (outer_server, first) == (server, second):  # rows of one kind: only names tell
                first, second = name, wanted
            if (outer_server, first) != (server, second):
                one = _One(outer_server, first, _mode(outer, name))
                yield (outer, one), _One(server, second, _mode(new, wanted))


def _latest(held: Held) -> list[tuple[Place, Lease]]:
    try:
        return list(islice(reversed(held.items()), MOST_HELD))
    except RuntimeError:  # another thread has just released one
        return []


def _named(taken: Lease, name: str) -> str:
    # The template of a set is that of all its names together.
    return (len(taken.names) == 1 and taken.request.template) or name


def _mode(taken: Lease, name: str) -> str:
    return modes.intent(taken.mode) if name in taken.intents else taken.mode


def _switch(*, setting: str = "REDIS_LOCKS", **_: object) -> None:
    if setting not in {"REDIS_LOCKS", "DEBUG"}:
        return
    try:
        wanted = get_settings().warn_order
    except ImproperlyConfigured:  # said by the system checks
        wanted = False
    if wanted is None:
        wanted = django_settings.DEBUG
    lock_events.watch = Orders().note if wanted else None


def start() -> None:
    """Watch in which order locks are taken, if the settings say so, and follow these."""
    _switch()
    setting_changed.connect(_switch, dispatch_uid="redis_locks.events.lock_order")


def _after_fork() -> None:
    if lock_events.watch is not None:
        lock_events.watch = Orders().note  # another thread of the parent may have had the mutex


os.register_at_fork(after_in_child=_after_fork)
