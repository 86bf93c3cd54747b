"""Force-release and cancel.

What somebody was shown, with a reason, and with an entry in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.http import Http404, HttpRequest
from django.template.defaultfilters import floatformat
from django.utils import translation
from django.utils.functional import Promise
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy, pgettext

from redis_locks.admin.paths import ServerPages
from redis_locks.admin.table_rows import HolderRow, PartyRow, mark_of
from redis_locks.connections.backends import blocking_answer
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo, audit
from redis_locks.inspection.queries import MOST_WAITERS, read_lock
from redis_locks.models import Lock
from redis_locks.values.keys import validate_name
from redis_locks.values.text import printable

Party = HolderInfo | WaiterInfo


@dataclass(frozen=True)
class Ending:
    """What a user may end, how that is done, and what is said of it.

    Attributes:
        view: The name of its page and of its template.
        permission: Which one it takes.
        parties: Returns whom it may end, of a lock.
        takes_all: Whether a user who has chosen nobody means all.
        row: Returns a party as it is shown, in a snapshot that was read at a time.
        end: Ends parties of a lock, and returns those that had not ended by themselves.
        describe: Returns a party as one line for the log.
        outcome: Returns what happens to the parties now, for the user.
        counted: What the user is told of the `count` that were ended.
        nothing: What the user is told if there is none to be shown.
        had_ended: What the user is told if all that were shown had ended by themselves.
        success: What the user is told of the `parties`, before the outcome.
        log_done: What the admin's log says of the `parties` and the `reason`.
        log_unknown: Likewise, if Redis did not answer.
        log_in_vain: Likewise, if they ended by themselves.
    """

    view: str
    permission: str
    parties: Callable[[LockInfo], Sequence[Any]]
    takes_all: bool
    row: Callable[[Any, float], HolderRow | PartyRow]
    end: Callable[[audit.Deed, str, Sequence[Any]], Sequence[Any]]
    describe: Callable[[Any], str]
    outcome: Callable[[Sequence[Any]], str]
    counted: str | Promise
    nothing: str | Promise
    had_ended: str | Promise
    success: str | Promise
    log_done: str | Promise
    log_unknown: str | Promise
    log_in_vain: str | Promise

    def choose(self, lock: LockInfo, marks: Collection[str]) -> Sequence[Any]:
        """Return the parties to ask about, of whom the user has chosen some by their marks."""
        there = self.parties(lock)
        if self.takes_all and not marks:
            return there
        return [party for party in there if mark_of(party.token) in marks]

    def listed(self, parties: Sequence[Party]) -> str:
        """Return parties as a part of a sentence."""
        return get_text_list(list(map(self.describe, parties)), pgettext("locks", "and"))

    def tell(self, request: HttpRequest, ended: Sequence[Party]) -> None:
        """Tell the user which parties were ended."""
        if not ended:
            messages.warning(request, str(self.had_ended))
        else:
            text = str(self.success) % {"parties": self.listed(ended)}
            messages.success(request, f"{text} {self.outcome(ended)}")


def _holder(party: HolderInfo) -> str:
    """Return the holder, and the fencing token that tells its writes."""
    named = {"who": printable(str(party)), "token": party.fencing_token}
    return _("%(who)s with fencing token %(token)s") % named


def _holders_learn(parties: Sequence[HolderInfo]) -> str:
    learns = max(hold.lease for hold in parties) / 3
    return _(
        "The holder is told at once. If it cannot be reached, it learns of it at its next renewal, "
        "within %(seconds)s s, and goes on working until then."
    ) % {"seconds": floatformat(learns, 1)}


RELEASING = Ending(
    view="release",
    permission="redis_locks.release_lock",
    parties=lambda lock: lock.holders,
    takes_all=True,
    row=HolderRow.of,
    end=lambda deed, name, parties: deed.force_release(name, parties)[0],
    describe=_holder,
    outcome=_holders_learn,
    counted=ngettext_lazy(
        "Force-released %(count)s hold.", "Force-released %(count)s holds.", "count"
    ),
    nothing=gettext_lazy("Nobody holds this lock: there is nothing to release."),
    had_ended=gettext_lazy("The hold that you were shown has ended; nothing was force-released."),
    success=gettext_lazy("Force-released; it was held by %(parties)s."),
    log_done=gettext_lazy("Force-released; held by %(parties)s. Reason: %(reason)s"),
    log_unknown=gettext_lazy(
        "Tried to force-release, but Redis did not answer: it may have been done or not; "
        "held by %(parties)s. Reason: %(reason)s"
    ),
    log_in_vain=gettext_lazy(
        "Tried to force-release, but the hold ended by itself; held by %(parties)s. "
        "Reason: %(reason)s"
    ),
)

CANCELLING = Ending(
    view="cancel",
    permission="redis_locks.cancel_waiter",
    parties=lambda lock: lock.waiters,
    takes_all=False,
    row=PartyRow.of,
    end=lambda deed, name, parties: deed.cancel(name, parties),
    describe=lambda party: printable(str(party)),
    outcome=lambda _parties: _("The waiter gets an error that says so, at once."),
    counted=ngettext_lazy("Cancelled %(count)s wait.", "Cancelled %(count)s waits.", "count"),
    nothing=gettext_lazy("The wait that you were shown has ended: there is nothing to cancel."),
    had_ended=gettext_lazy("The wait that you were shown has ended; nothing was cancelled."),
    success=gettext_lazy("Cancelled; it was waited for by %(parties)s."),
    log_done=gettext_lazy("Cancelled; waited for by %(parties)s. Reason: %(reason)s"),
    log_unknown=gettext_lazy(
        "Tried to cancel, but Redis did not answer: it may have been done or not; "
        "waited for by %(parties)s. Reason: %(reason)s"
    ),
    log_in_vain=gettext_lazy(
        "Tried to cancel, but the wait ended by itself; waited for by %(parties)s. "
        "Reason: %(reason)s"
    ),
)

ENDINGS = (RELEASING, CANCELLING)


def existing(name: str, using: str | None, most: int | None = MOST_WAITERS) -> LockInfo | None:
    """Return a lock, with `most` holders and waiters (None: all).

    None if nobody holds it or waits for it. Blocks.

    Raises:
        Http404: The name cannot name a lock.
        LockBackendError: Redis could not be asked.
    """
    try:
        return blocking_answer(using, partial(read_lock, name=validate_name(name), most=most))
    except ValueError as error:
        raise Http404(str(error)) from error


def end_logged(
    ending: Ending,
    model_admin: admin.ModelAdmin[Lock],
    request: HttpRequest,
    pages: ServerPages,
    name: str,
    reason: str,
    shown: Collection[str],
) -> Sequence[Party]:
    """End what the user was shown of a lock, and write who and why to the log.

    Later holders and waiters are left alone. Returns the parties that were ended.

    Args:
        ending: What to end, and how.
        model_admin: The admin of locks, which writes the log.
        request: The user's request.
        pages: Of which server.
        name: The lock.
        reason: Why, as the user gave it.
        shown: The marks of the holds or waits that the user was shown.

    Raises:
        Http404: The name cannot name a lock.
        LockBackendError: Redis could not be asked; the log says that the outcome is not known.
    """
    lock = existing(name, pages.using, most=None)
    there = ending.choose(lock, shown) if lock else []
    parties = [party for party in there if mark_of(party.token) in shown]
    if not parties:
        return []
    # Locks of several servers have one log if their names are the same.
    where = f"{pages.label(pages.using)}: " if pages.using else ""

    def entry_of(text: str | Promise, whose: Sequence[Party]) -> str:
        # Everybody reads the log, whatever the language of the user who is at work.
        with translation.override(settings.LANGUAGE_CODE):
            return where + str(text) % {"parties": ending.listed(whose), "reason": reason}

    # Before it is done: there may be an entry without an end, but never the reverse.
    message = entry_of(ending.log_done, parties)
    entry = model_admin.log_change(request, Lock(name=name), message)
    deed = audit.Deed(request.user.get_username(), reason, pages.using)
    try:
        ended = ending.end(deed, name, parties)
    except LockBackendError:
        entry.change_message = entry_of(ending.log_unknown, parties)
        entry.save(update_fields=["change_message"])
        raise
    if len(ended) < len(parties):
        entry.change_message = (
            entry_of(ending.log_done, ended) if ended else entry_of(ending.log_in_vain, parties)
        )
        entry.save(update_fields=["change_message"])
    return ended
