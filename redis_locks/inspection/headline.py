"""Whether anything is wrong, in a few sentences.

The first lines of the admin's list, of `manage.py locks list` and of `watch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from redis_locks.inspection.cases import LONG_WAIT, RECENT, Case, newcomer_waits
from redis_locks.inspection.filters import Search
from redis_locks.inspection.localized_times import duration
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.story import Phrase, filled
from redis_locks.inspection.survey import Crowd
from redis_locks.values.text import printable, shorten

LONGEST_NAME = 80
"""How many characters of a name a sentence shows."""


class Sentence(NamedTuple):
    """One sentence in parts; `alarm` if somebody should look."""

    parts: tuple[Phrase, ...]
    alarm: bool = False

    def text(self, later: float = 0.0) -> str:
        """Return it as text, so many seconds later."""
        return "".join(
            part.text if part.ago is None else duration(part.ago + later) for part in self.parts
        )

    @property
    def said(self) -> str:
        """It without what counts on by itself, for screen readers.

        They are to say only what is new.
        """
        return "".join("…" if part.ago is not None else part.text for part in self.parts)


_CASES: Mapping[Case, Callable[[int], str]] = {
    Case.GONE: lambda count: ngettext(
        "A holder of %(lock)s is gone, or has detached its hold.",
        "%(count)s locks have a holder that is gone or has detached its hold, %(lock)s first.",
        count,
    ),
    Case.LONG: lambda count: ngettext(
        "%(lock)s is held far longer than usual.",
        "%(count)s locks are held far longer than usual, %(lock)s first.",
        count,
    ),
    Case.STALE: lambda count: ngettext(
        "The lease of %(lock)s is not being renewed.",
        "The leases of %(count)s locks are not being renewed, that of %(lock)s first.",
        count,
    ),
}


def headline(search: Search) -> tuple[Sentence, ...]:
    """Return what is most wrong with all locks that a search looked at.

    Whether they match or not. The worst comes first.
    """
    survey = search.survey
    sentences = [*_troubles(search), *_convoys(search), *_deadlocks(search)]
    if survey.oldest is None and not survey.total:
        return Sentence((Phrase(_("No lock is held.")),)), *sentences
    first = waits(survey.crowd, survey.contended, survey.oldest, counted=survey.counted)
    return first, *sentences


def crowd_text(crowd: Crowd, *, counted: bool = True) -> str:
    """Return how many wait, and in how many places if these are more.

    Not `counted`: there may be more.
    """
    places = number_format(crowd.places, force_grouping=True)
    if crowd.waiters is None:
        text = ngettext("%(places)s place in a queue", "%(places)s places in queues", crowd.places)
    elif crowd.waiters < crowd.places:
        text = ngettext(
            "%(count)s waiter in %(places)s places",
            "%(count)s waiters in %(places)s places",
            crowd.waiters,
        )
    else:
        text = ngettext("%(count)s waiter", "%(count)s waiters", crowd.waiters)
    count = number_format(crowd.most, force_grouping=True)
    said = text % {"count": count, "places": places}
    return said if counted else _("At least %(count)s") % {"count": said}


def waits(crowd: Crowd, contended: int, oldest: Summary | None, *, counted: bool) -> Sentence:
    """Return how many wait for so many locks, and for how long the first one does.

    Args:
        crowd: Who waits.
        contended: For how many locks.
        oldest: The lock with the oldest wait.
        counted: Whether these are all; else there may be more.
    """
    if oldest is None:
        return Sentence((Phrase(_("Nobody waits.") if counted else _("No long wait is known.")),))
    locks = ngettext("%(count)s lock", "%(count)s locks", contended)
    at = locks % {"count": number_format(contended, force_grouping=True)}
    start = _("%(crowd)s at %(locks)s.") % {
        "crowd": crowd_text(crowd, counted=counted),
        "locks": at,
    }
    wait = Phrase(duration(oldest.oldest_wait), oldest.oldest_wait)
    rest = filled(
        _("The oldest wait: %(time)s, for %(lock)s."), time=wait, lock=_named(oldest.name)
    )
    return Sentence((Phrase(start), Phrase(" "), *rest), oldest.oldest_wait >= LONG_WAIT)


def _worst(search: Search, case: Case) -> Sequence[Summary]:
    """Return the locks of a case, of all that were looked at: those with the oldest waits first."""
    states = search.states
    locks = [lock for lock in search.survey.locks if states[lock.name].case is case]
    if case is Case.STALE:
        locks = [lock for lock in locks if lock.waiting]
    return sorted(locks, key=lambda lock: (-lock.oldest_wait, -lock.held_for))


def _troubles(search: Search) -> Iterator[Sentence]:
    for case, sentence in _CASES.items():
        if locks := _worst(search, case):
            text = sentence(len(locks))
            # Of very many locks only a part is looked at.
            more = "" if search.complete else "+"
            count = Phrase(f"{number_format(len(locks), force_grouping=True)}{more}")
            parts = filled(text, count=count, lock=_named(locks[0].name))
            yield Sentence(tuple(parts), alarm=True)


def _convoys(search: Search) -> Iterator[Sentence]:
    for lock in _worst(search, Case.CONVOY)[:1]:
        usual = search.recent.usual(lock.name)
        if usual is not None:
            time = newcomer_waits(lock.waiting, lock.holding, usual)
            text = _("More callers come than %(lock)s can serve: a newcomer waits about %(time)s.")
            yield Sentence(tuple(filled(text, lock=_named(lock.name), time=Phrase(duration(time)))))


def _deadlocks(search: Search) -> Iterator[Sentence]:
    at = search.survey.at
    circles = [circle for circle in search.recent.circles if circle.at >= at - RECENT]
    if circles:
        ago = max(0.0, at - circles[0].at)
        text = ngettext(
            "A deadlock was broken %(time)s ago, at %(lock)s.",
            "%(count)s deadlocks were broken within 5 minutes, the last one %(time)s ago, at "
            "%(lock)s.",
            len(circles),
        )
        parts = filled(
            text,
            count=Phrase(str(len(circles))),
            time=Phrase(duration(ago), ago),
            lock=_named(circles[0].names[0]),
        )
        yield Sentence(tuple(parts), alarm=True)


def _named(name: str) -> Phrase:
    return Phrase(shorten(printable(name), LONGEST_NAME), lock=name)
