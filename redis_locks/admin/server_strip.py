"""The head of the list: is anything wrong?

How many hold and wait, the oldest wait, and how the server is.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from time import monotonic
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.template.defaultfilters import filesizeformat
from django.utils.formats import number_format, time_format
from django.utils.timezone import localtime, now
from django.utils.translation import gettext as _

from redis_locks.admin.paths import ServerPages
from redis_locks.admin.screens import Piece
from redis_locks.admin.table_rows import Headline
from redis_locks.conf.settings import get_settings
from redis_locks.connections.backends import Backend, backend_for
from redis_locks.diagnosis.server_checks import Vitals, vitals
from redis_locks.inspection.cases import LONG_WAIT, Case
from redis_locks.inspection.filters import Search
from redis_locks.inspection.headline import headline
from redis_locks.inspection.localized_times import duration
from redis_locks.inspection.survey import Named, Queues, Survey, queues, survey
from redis_locks.inspection.time_limit import within
from redis_locks.values.text import printable

_VITALS_KEPT = 15.0
"""Seconds for which this process shows what it read of the server: that takes a connection of its
own.
"""

_QUICK = 0.1
"""Seconds that a survey may take without being kept for other readers."""

_SHARE = 10
"""A survey that takes longer is kept for so many times what it took."""


def strip(result: Search, pages: ServerPages) -> Piece:
    """Return the figures of all locks, whether they match a search or not.

    Asks the server how it is, now and then.
    """
    every, oldest = result.survey, result.survey.oldest
    known = _vitals(pages.using)
    verdict = Headline.of(headline(result), every.at, pages)
    shown = {
        "held": every.held,
        "waiting": every.crowd.most,
        "places": every.crowd.places,
        "counted": every.counted,
        "whole": result.complete,
        "waiting_since": f"{every.at - oldest.oldest_wait:.3f}" if oldest else "",
        "long_wait": oldest is not None and oldest.oldest_wait >= LONG_WAIT,
        "gone": sum(state.case is Case.GONE for state in result.states.values()),
        "lost": result.recent.lost,
        "deadlocks": result.recent.deadlocks,
        "list_url": pages.url("changelist"),
        "waiting_url": pages.url("changelist", contended="on"),
        "worst_url": pages.url("change", oldest.name) if oldest else "",
        "gone_url": pages.url("changelist", gone="on"),
        "lost_url": pages.url("stats", o="lost"),
        "deadlocks_url": pages.url("deadlocks"),
        "server": known.server if known else "",
        "server_details": _details(known) if known else "",
        "warning": away(pages.using) or (_warning(known) if known else ""),
    }
    # The oldest wait counts on by itself.
    oldest_wait = duration(oldest.oldest_wait) if oldest else ""
    context = {**shown, "verdict": verdict, "oldest_wait": oldest_wait}
    return Piece("strip", (verdict, *shown.values()), {"strip": context})


def away(using: str | None) -> str:
    """Return which servers or nodes this process does not ask for now, as they do not answer.

    Empty if there is none.
    """
    text = _(
        "%(server)s has not answered this process since %(time)s. %(calls)s of its calls have "
        "failed, and further ones fail at once until there is an answer."
    )
    return " ".join(
        text
        % {
            "server": printable(breaker.description),
            "time": time_format(localtime(now() - timedelta(seconds=breaker.away_for)), "H:i T"),
            "calls": number_format(breaker.asks, force_grouping=True),
        }
        for breaker in backend_for(using).driver.breakers
        if breaker.is_open
    )


def _details(known: Vitals) -> str:
    # Rounded, so that they change seldom.
    took = (
        _("under 1 ms")
        if known.latency < 0.001  # noqa: PLR2004 - one millisecond
        else f"{known.latency * 1000:.0f} ms"
    )
    memory = filesizeformat(float(f"{known.used_memory:.2g}"))
    if known.max_memory:
        memory = _("%(share)s %% of %(memory)s") % {
            "share": f"{known.used_memory / known.max_memory * 100:.0f}",
            "memory": filesizeformat(known.max_memory),
        }
    return f"{took}, {memory}, {known.policy}"


def _warning(known: Vitals) -> str:
    """Return the warning for who looks at the page; `manage.py locks doctor` says more."""
    if not known.warning:
        return ""
    if known.policy == "noeviction":
        return _("Most of maxmemory is used. Without memory no lock can be acquired.")
    text = _(
        "maxmemory-policy is %(policy)s. When memory is short, the server may remove a held lock, "
        "and two holders would not know of each other. Set it to noeviction."
    )
    return text % {"policy": known.policy}


_BADGE_WAITS, _BADGE_KEPT = 1.0, 5.0
"""Seconds in which the server must answer, and for which this process shows what it answered, or
that it did not.
"""

_kept: WeakKeyDictionary[Backend, tuple[float, Vitals | None]] = WeakKeyDictionary()
_surveys: WeakKeyDictionary[
    Backend, dict[tuple[int, Named | None], tuple[float, float, Survey]]
] = WeakKeyDictionary()
_contended: WeakKeyDictionary[Backend, tuple[float, Queues | None]] = WeakKeyDictionary()


def _vitals(using: str | None) -> Vitals | None:
    backend = backend_for(using)
    known = _kept.get(backend)
    if known is None or monotonic() > known[0]:
        known = monotonic() + _VITALS_KEPT, vitals(using=using)
        _kept[backend] = known
    return known[1]


def shared_survey(*, using: str | None = None, most: int, named: Named | None) -> Survey:
    """Return a survey. A slow one is kept for a while, so that many readers cost little; blocks.

    See `survey` for the arguments.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    backend = backend_for(using)
    surveys, asked = _surveys.setdefault(backend, {}), (most, named)
    kept = surveys.get(asked)
    if kept is not None and monotonic() < kept[0]:
        _, read_at, read = kept
        return replace(read, age=monotonic() - read_at)
    started = monotonic()
    read = survey(using=using, most=most, named=named)
    read_at = monotonic()
    took = read_at - started
    if took > _QUICK:
        for each, (until, *_) in tuple(surveys.items()):
            if until <= monotonic():
                surveys.pop(each, None)
        surveys[asked] = read_at + _SHARE * took, read_at, read
    return read


def contended_now() -> list[Queues | None]:
    """Return which locks have waiters, for each server; at most some seconds old.

    None: it does not say so at once.

    Locks, as a waiter for several stands in several queues, which do not tell who it is. Blocks for
    a second for each server at most.
    """
    return [_contended_at(using) for using in get_settings().server_names]


def _contended_at(using: str | None) -> Queues | None:
    try:
        backend = backend_for(using)
    except ImproperlyConfigured:  # `manage.py check` says so
        return None
    known = _contended.get(backend)
    if known is None or monotonic() > known[0]:
        queues_now = within(_BADGE_WAITS, partial(queues, using=using))
        known = monotonic() + _BADGE_KEPT, queues_now
        _contended[backend] = known
    return known[1]
