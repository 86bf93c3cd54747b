"""Look whether a rule of ``REDIS_LOCKS["ALERTS"]`` fires, and tell of it.

It tells a log, and sends a signal.

Any number of processes may look. The server notes which alerts fire, so each is told once, by
one of them. `manage.py locks watch --alerts` looks all the time; a task that calls
`check_alerts` every minute does as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from redis_locks import scripts
from redis_locks.conf.settings import get_settings
from redis_locks.connections.backends import Backend, blocking_answer
from redis_locks.diagnosis.server_checks import vitals
from redis_locks.drivers.base import Driver, Link, argv
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.cases import is_cooldown
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.survey import MOST, Named, survey
from redis_locks.inspection.time_limit import require_answer
from redis_locks.signals import lock_alert
from redis_locks.statistics.usual import recent, troubles
from redis_locks.values.keys import QUEUED
from redis_locks.values.lock_alert import DEFAULT_ALERTS, LockAlert
from redis_locks.values.name_patterns import matches
from redis_locks.values.text import duration, latency, printable

logger = logging.getLogger("redis_locks.alerts")

ANSWERS_WITHIN: Final = 2.0
"""Seconds after which a server that says nothing counts as one that cannot be asked."""

TOLD_AGAIN: Final = 3600.0
"""Seconds after which an alert that still fires is told again."""

MOST_LOCKS: Final = 10
"""How many locks an alert names: the worst ones."""

_SHOWN = 3
_FAR_ABOVE_USUAL = 3
_LEVELS = {"warning": logging.WARNING, "critical": logging.CRITICAL}
_COUNTED = {"lost": ("l", "lost"), "deadlocks": ("d", "deadlocks")}
_ALL = "*"

_State = Literal["firing", "resolved"]


@dataclass(frozen=True, slots=True)
class AlertEvent:
    """An alert that fires, or does no longer.

    Attributes:
        alert: The rule.
        state: "firing" or "resolved".
        since: When it began to fire, by the server's clock, in seconds since 1970.
        value: The longest wait or hold in seconds, or the number of events; 0 if resolved.
        locks: The names of the locks concerned, worst first, at most ten.
        message: The same as a sentence, for people.
    """

    alert: LockAlert
    state: _State
    since: float
    value: float
    locks: tuple[str, ...]
    message: str


class _Trouble(NamedTuple):
    """One thing that a rule found; the name is empty if it is not of one lock."""

    value: float
    name: str
    text: str


def check_alerts(*, using: str | None = None) -> list[AlertEvent]:
    """Return the alerts that fire now; tell of those that began or ended.

    Blocks for some round trips.

    Told by the logger ``redis_locks.alerts`` and the signal ``lock_alert``, by one process of all.

    Args:
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.

    Raises:
        ImproperlyConfigured: REDIS_LOCKS is wrong.
    """
    rules = get_settings().alerts
    rules = DEFAULT_ALERTS if rules is None else rules
    try:
        require_answer(using, ANSWERS_WITHIN)
        figures = _Figures(rules, using)
        troubles_of = {
            rule.label: troubles for rule in rules if (troubles := figures.troubles(rule))
        }
        noted = blocking_answer(using, partial(_note, names=tuple(troubles_of)))
    except LockBackendError as error:
        return _unreachable(rules, using, str(error))
    back = _gone.pop(using, None)
    if back is not None:
        for event in _of_server(rules, "resolved", back, "The server answers."):
            _tell(event)
    by_name = {rule.label: rule for rule in rules}
    firing = []
    for name, since, state in noted:
        # A process with other rules may have noted one that is not known here.
        if name in troubles_of:
            firing.append(_event(by_name[name], since, troubles_of[name]))
            if state == "firing":
                _tell(firing[-1])
        elif name in by_name:
            _tell(AlertEvent(by_name[name], "resolved", since, 0.0, (), "It is over."))
    return firing


_gone: dict[str | None, float] = {}
"""Since when each server cannot be asked, on this host's clock. It cannot note that itself."""


def _unreachable(rules: Iterable[LockAlert], using: str | None, why: str) -> list[AlertEvent]:
    now = time.time()
    since = _gone.setdefault(using, now)
    new = since is now  # of threads that find it gone together, one is the first
    events = _of_server(rules, "firing", since, printable(why))
    for event in events if new else ():
        _tell(event)
    return events


def _of_server(
    rules: Iterable[LockAlert], state: _State, since: float, message: str
) -> list[AlertEvent]:
    server = [rule for rule in rules if rule.rule == "server"]
    return [AlertEvent(rule, state, since, 0.0, (), message) for rule in server]


def _tell(event: AlertEvent) -> None:
    level = _LEVELS[event.alert.severity] if event.state == "firing" else logging.INFO
    logger.log(
        level,
        "%s (%s): %s",
        event.alert.label,
        event.state,
        event.message,
        extra={"alert": event.alert.label, "state": event.state, "locks": event.locks},
    )
    lock_alert.send_robust(LockAlert, event=event)


def _held_long(rules: Iterable[LockAlert]) -> Named | None:
    """Return which names to look for even among very many locks.

    Nobody but a waiter notes how long a hold is.

    They are half of what is read, so that they do not hide long waits.
    """
    patterns = [rule.locks for rule in rules if rule.rule == "long_hold" and rule.locks != _ALL]
    if not patterns:
        return None

    def wanted(_: str, name: str) -> bool:
        return any(matches(pattern, name) for pattern in patterns)

    return Named("", wanted, literal=False, most=MOST // 2)


class _Figures:
    """What the rules look at; read as far as they need it."""

    def __init__(self, rules: Iterable[LockAlert], using: str | None) -> None:
        wanted = {rule.rule for rule in rules}
        needs_locks = bool(wanted & {"oldest_wait", "long_hold"})
        self._locks = survey(using=using, named=_held_long(rules)).locks if needs_locks else ()
        self._usual = recent(using=using).usual
        self._counted = {
            within: troubles(within, using=using)
            for within in {rule.within for rule in rules if rule.rule in _COUNTED}
        }
        self._server = vitals(using=using) if "server" in wanted else None

    def troubles(self, rule: LockAlert) -> list[_Trouble]:
        """Return what the rule finds, worst first."""
        if rule.rule == "server":
            warning = self._server.warning.rstrip(".") if self._server else ""
            return [_Trouble(0.0, "", warning)] if warning else []
        if rule.rule in _COUNTED:
            return self._events(rule)
        look = self._wait if rule.rule == "oldest_wait" else self._hold
        looked = (look(rule, lock) for lock in self._locks if matches(rule.locks, lock.name))
        existing = [trouble for trouble in looked if trouble]
        return sorted(existing, key=lambda trouble: -trouble.value)

    def _wait(self, rule: LockAlert, lock: Summary) -> _Trouble | None:
        if lock.waiting < rule.waiters or lock.oldest_wait <= rule.above:
            return None
        text = f"{lock.waiting} wait, the first for {duration(lock.oldest_wait)}"
        return _Trouble(lock.oldest_wait, lock.name, text)

    def _hold(self, rule: LockAlert, lock: Summary) -> _Trouble | None:
        usual = self._usual(lock.name)
        bound = max(rule.above, _FAR_ABOVE_USUAL * usual.p99) if usual else rule.above
        # A message may be in its queue for long, and no process works meanwhile.
        is_message = lock.name.startswith(QUEUED) and not rule.locks.startswith(QUEUED)
        if not lock.holding or lock.held_for <= bound or is_message or is_cooldown(lock):
            return None
        who = f" by {lock.holders[0].label}" if lock.holders else ""
        often = f", usual: {latency(usual.p50)}" if usual else ""
        text = f"held for {duration(lock.held_for)}{who}{often}"
        return _Trouble(lock.held_for, lock.name, text)

    def _events(self, rule: LockAlert) -> list[_Trouble]:
        metric, what = _COUNTED[rule.rule]
        counts = {
            name: counts[metric]
            for name, counts in self._counted[rule.within].items()
            if counts.get(metric) and matches(rule.locks, name)
        }
        if sum(counts.values()) <= rule.above:
            return []
        worst = sorted(counts.items(), key=lambda each: -each[1])
        return [_Trouble(count, name, f"{count} {what}") for name, count in worst]


def _event(rule: LockAlert, since: float, found: Sequence[_Trouble]) -> AlertEvent:
    named = [f"{printable(each.name)}: {each.text}" if each.name else each.text for each in found]
    more = f"; and {len(found) - _SHOWN} more locks" if len(found) > _SHOWN else ""
    message = f"{'; '.join(named[:_SHOWN])}{more}."
    locks = tuple(each.name for each in found[:MOST_LOCKS] if each.name)
    value = sum(each.value for each in found) if rule.rule in _COUNTED else found[0].value
    return AlertEvent(rule, "firing", since, value, locks, message)


async def _note(
    backend: Backend, driver: Driver, *, names: Sequence[str]
) -> list[tuple[str, float, str]]:
    """Return alerts as the server has noted them.

    Which, since when, and "firing", "known" or "resolved".
    """
    keys = backend.partitions()[0]

    async def ask(link: Link) -> Any:
        words = argv("", round(TOLD_AGAIN * 1000), *names)
        (reply,) = await link.call(scripts.ALERTS, (keys, words))
        return reply

    words = [word.decode() for word in (await backend.ask(driver, ask))]
    each = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [(name, int(since) / 1000, state) for name, since, state in each]
