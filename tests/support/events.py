"""How the product tells signals, logs and statistics what happened to a lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import pytest

from redis_locks.conf.validation import TELEMETRY
from redis_locks.events import log_lines
from redis_locks.events.dispatch import Teller
from redis_locks.events.log_lines import LEVELS
from redis_locks.exceptions import Wait
from redis_locks.protocol import lock_events
from redis_locks.values.claims import parse_who


def count_hold(
    teller: Teller,
    kind: Any,
    name: str,
    server: str = "server",
    *,
    seconds: float = 0.0,
    since: float = 0.0,
) -> bool:
    """Count a hold that nobody has; return whether somebody wants the event."""
    lease: Any = SimpleNamespace(
        plan=_plan(name, server),
        session=SimpleNamespace(unit="thread x"),
        since=since,
        fencing_token=1,
    )
    return teller.count_hold(kind, seconds, lease)


@lru_cache
def _plan(name: str, server: str) -> Any:
    terms = SimpleNamespace(description=server, label=None)
    return _Plan(names=(name,), terms=terms, is_large=False)


class _Plan(SimpleNamespace):
    __hash__ = object.__hash__


def record_events_made(monkeypatch: pytest.MonkeyPatch, made: Callable[..., Any]) -> None:
    """Have `made` build each event."""
    monkeypatch.setattr(lock_events, "LockEvent", made)


def nobody_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No integration is told of locks."""
    monkeypatch.setattr(lock_events, "observer", lock_events.Nobody())


def nobody_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statistics are kept."""
    monkeypatch.setattr(Teller, "count", lambda *_: False)
    monkeypatch.setattr(Teller, "count_hold", lambda *_: False)


def sum_up_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have one line of the log stand for all waits of a lock within so many seconds."""
    monkeypatch.setattr(log_lines.convoys, "interval", seconds)


def write_summaries() -> None:
    """Write what is counted for the log, as the end of the process does."""
    log_lines.convoys.flush()


def log_event_of(kind: Any, text: str) -> None:
    """Log an event in which each text is `text`."""
    event = lock_events.LockEvent(
        kind=kind,
        names=(text, f"{kind}{text}"),
        template=text,
        mode="exclusive",
        who=parse_who(f"host\tpid\t{text}\tthread"),
        server=text,
        lease=1.0,
        wait=1.0,
        holder=text,
        circle=(Wait((text,), "exclusive", text, text),),
        reason=text,
    )
    log_lines.log(event)
