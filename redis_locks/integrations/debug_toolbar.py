"""A panel for django-debug-toolbar: the locks that a request took, waited for and held.

``DEBUG_TOOLBAR_PANELS = [..., "redis_locks.integrations.debug_toolbar.LocksPanel"]``. It listens
only while a request is handled for which the toolbar is shown, in sync and async views alike, what
they run in tasks and with ``sync_to_async`` included.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from time import monotonic
from typing import Any, Final

from debug_toolbar.panels import Panel
from debug_toolbar.utils import get_stack_trace, render_stacktrace
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from redis_locks.integrations.call_site import user_frame
from redis_locks.integrations.telemetry import hold_key
from redis_locks.protocol.lock_events import LockEvent
from redis_locks.signals import LOCK_SIGNALS
from redis_locks.values.text import printable

MAX_ROWS: Final = 500
"""How many acquires of one request are shown."""


class LocksPanel(Panel):
    """The locks of one request."""

    title = "Locks"
    template = "redis_locks/debug_toolbar.html"
    is_async = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rows: list[dict[str, Any]] = []
        self._left_out = 0
        self._open: dict[tuple[object, ...], tuple[dict[str, Any], float]] = {}
        self._in_the_way: dict[tuple[object, ...], str | None] = {}

    @property
    def nav_subtitle(self) -> str:
        """How many acquires there were, and how long they waited."""
        stats = self.get_stats()
        count = len(stats.get("rows", ()))
        if not count:
            return "none acquired"
        return f"{count} acquire{'s' * (count > 1)}, waited {stats['waited_ms']:.1f} ms"

    def enable_instrumentation(self) -> None:
        """Listen to the locks of this thread or task, and of those it starts and waits for."""
        _current.set(self)
        with _mutex:
            if not _watching:
                for signal in LOCK_SIGNALS.values():
                    signal.connect(_receive, weak=False)
            _watching.add(self)

    def disable_instrumentation(self) -> None:
        """Listen no more."""
        _current.set(None)
        with _mutex:
            _watching.discard(self)
            if not _watching:
                for signal in LOCK_SIGNALS.values():
                    signal.disconnect(_receive)

    def generate_stats(self, request: HttpRequest, response: HttpResponseBase) -> None:  # noqa: ARG002 - the toolbar's
        """Hand the toolbar what was heard; holds that have not ended are shown as held."""
        now = monotonic()
        for row, since in list(self._open.values()):
            row["held_ms"] = (now - since) * 1000
        rows = self._rows
        self.record_stats(
            {
                "rows": rows,
                "left_out": self._left_out,
                "waited_ms": sum(row["waited_ms"] for row in rows),
                "held_ms": sum(row["held_ms"] or 0 for row in rows),
            }
        )

    def hear(self, event: LockEvent) -> None:
        """Note how an acquire of this request went."""
        asker = (event.who, event.names, event.mode)
        if event.kind == "contended" and event.wait != 0:
            self._in_the_way[asker] = event.holder  # how it ends will be told
            return
        in_the_way = self._in_the_way.pop(asker, None) or event.holder
        if len(self._rows) >= MAX_ROWS:
            self._left_out += 1
            return
        row = {
            "name": printable(event.name),
            "template": printable(event.template or ""),
            "mode": event.mode,
            "outcome": _OUTCOMES[event.kind],
            "waited_ms": event.waited * 1000,
            "holder": printable(in_the_way or ""),
            "held_ms": None,
            "fencing_token": event.fencing_token or None,
            "went_wrong": event.kind in {"timed_out", "deadlock"},
            "stack": _stack(),
        }
        if event.kind in {"acquired", "adopted"}:
            self._open[hold_key(event)] = row, event.since
        self._rows.append(row)

    def hear_the_end(self, event: LockEvent) -> None:
        """Note how a hold ended, if it began in this request."""
        row, _ = self._open.pop(hold_key(event), (None, 0))
        if row is not None:
            row["held_ms"], row["outcome"] = event.held * 1000, _OUTCOMES[event.kind]
            row["went_wrong"] = event.kind == "lost"


_OUTCOMES: Final = {
    "acquired": "held",
    "adopted": "held",
    "contended": "not available",
    "timed_out": "timed out",
    "deadlock": "deadlock",
    "detached": "detached",
    "released": "released",
    "lost": "lost",
}

_current: ContextVar[LocksPanel | None] = ContextVar("redis_locks_panel", default=None)
_watching: set[LocksPanel] = set()
_mutex = threading.Lock()


def _receive(event: LockEvent, **_: object) -> None:
    if event.kind in {"detached", "released", "lost"}:
        # Perhaps elsewhere: a renewal tells of a loss in a thread of its own.
        for watching in tuple(_watching):
            watching.hear_the_end(event)
        return
    panel = _current.get()
    if panel is not None and panel in _watching:
        panel.hear(event)


def _stack() -> str:
    """Return the stack as the toolbar shows it, without our part of it."""
    _, depth = user_frame()
    return str(render_stacktrace(get_stack_trace(skip=depth)))
