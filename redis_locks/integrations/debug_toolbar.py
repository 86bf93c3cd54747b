"""A panel for django-debug-toolbar: the locks that a request took, waited for and held.

``DEBUG_TOOLBAR_PANELS = [..., "redis_locks.integrations.debug_toolbar.LocksPanel"]``. The panel
listens only during requests for which the toolbar is shown. It covers sync and async views, their
tasks, and what they call with ``sync_to_async``.
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
from django.template.defaultfilters import floatformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from redis_locks.integrations.telemetry import hold_key
from redis_locks.protocol.lock_events import LockEvent
from redis_locks.signals import LOCK_SIGNALS
from redis_locks.values.identity import user_frame
from redis_locks.values.text import printable

MAX_ROWS: Final = 500
"""How many acquires of one request the panel shows at most."""


class LocksPanel(Panel):
    """The locks of one request."""

    title = pgettext_lazy("locks", "Locks")
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
        """The number of acquires, and how long they waited."""
        stats = self.get_stats()
        count = len(stats.get("rows", ()))
        if not count:
            return _("none acquired")
        text = ngettext(
            "%(count)s acquire, waited %(time)s ms", "%(count)s acquires, waited %(time)s ms", count
        )
        return text % {"count": count, "time": floatformat(stats["waited_ms"], 1)}

    def enable_instrumentation(self) -> None:
        """Listen to the locks of this thread or task.

        And to those of the threads and tasks that it starts and awaits.
        """
        _current.set(self)
        with _mutex:
            if not _watching:
                for signal in LOCK_SIGNALS.values():
                    signal.connect(_receive, weak=False)
            _watching.add(self)

    def disable_instrumentation(self) -> None:
        """Stop listening."""
        _current.set(None)
        with _mutex:
            _watching.discard(self)
            if not _watching:
                for signal in LOCK_SIGNALS.values():
                    signal.disconnect(_receive)

    def generate_stats(self, request: HttpRequest, response: HttpResponseBase) -> None:  # noqa: ARG002 - the toolbar's
        """Give the events to the toolbar; holds that have not ended are shown as held."""
        now = monotonic()
        for row, since in list(self._open.values()):
            row["held_ms"] = (now - since) * 1000
        rows = self._rows
        blocked = [row for row in rows if row["holder"] and row["waited_ms"]]
        self.record_stats(
            {
                "rows": rows,
                "worst": max(blocked, key=lambda row: row["waited_ms"], default=None),
                "left_out": self._left_out,
                "waited_ms": sum(row["waited_ms"] for row in rows),
                "held_ms": sum(row["held_ms"] or 0 for row in rows),
            }
        )

    def hear(self, event: LockEvent) -> None:
        """Note the outcome of an acquire of this request."""
        asker = (event.who, event.names, event.mode)
        if event.kind == "contended" and event.wait != 0:
            self._in_the_way[asker] = event.holder  # another event tells how it ends
            return
        in_the_way = self._in_the_way.pop(asker, None) or event.holder
        if len(self._rows) >= MAX_ROWS:
            self._left_out += 1
            return
        row = {
            "name": printable(event.name),
            "template": printable(event.template or ""),
            "mode": event.mode,
            "outcome": str(_OUTCOMES[event.kind]),
            "waited_ms": event.waited * 1000,
            "holder": printable(in_the_way or ""),
            "held_ms": None,
            "fencing_token": event.fencing_token or None,
            "went_wrong": event.kind in {"timed_out", "deadlock", "unavailable"},
            "stack": _stack(),
        }
        if event.kind in {"acquired", "adopted"}:
            self._open[hold_key(event)] = row, event.since
        self._rows.append(row)

    def hear_the_end(self, event: LockEvent) -> None:
        """Note how a hold ended, if it began in this request."""
        row, _since = self._open.pop(hold_key(event), (None, 0))
        if row is not None:
            row["held_ms"], row["outcome"] = event.held * 1000, str(_OUTCOMES[event.kind])
            row["went_wrong"] = event.kind == "lost"


_OUTCOMES: Final = {
    "acquired": pgettext_lazy("locks", "held"),
    "adopted": pgettext_lazy("locks", "held"),
    "contended": gettext_lazy("not available"),
    "timed_out": gettext_lazy("timed out"),
    "deadlock": pgettext_lazy("locks", "deadlock"),
    "unavailable": pgettext_lazy("locks", "Redis away"),
    "detached": pgettext_lazy("locks", "detached"),
    "released": pgettext_lazy("locks", "released"),
    "lost": pgettext_lazy("locks", "lost"),
}

_current: ContextVar[LocksPanel | None] = ContextVar("redis_locks_panel", default=None)
_watching: set[LocksPanel] = set()
_mutex = threading.Lock()


def _receive(event: LockEvent, **_signal: object) -> None:
    if event.kind in {"detached", "released", "lost"}:
        # Perhaps in another thread: a renewal reports a loss from its own.
        for watching in tuple(_watching):
            watching.hear_the_end(event)
        return
    panel = _current.get()
    if panel is not None and panel in _watching:
        panel.hear(event)


def _stack() -> str:
    """Return the stack as the toolbar shows it, without our own frames."""
    _, depth = user_frame()
    return str(render_stacktrace(get_stack_trace(skip=depth)))
