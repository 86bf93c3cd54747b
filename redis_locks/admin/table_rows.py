"""Snapshots made ready to be shown: text that misleads nobody, and times as points in time.

The page's script counts on from points in time by itself. So the page changes only when the locks
do, and an unchanged one is not sent again. What a row shows is its ``repr``, which leaves out what
changes by itself. Numbers for the script and numbers that name something
are texts, so that no template gives them the reader's separators.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from redis_locks.admin.paths import ServerPages
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.blockers import Node
from redis_locks.inspection.cases import LONG_WAIT, Case, is_long, is_renewed
from redis_locks.inspection.filters import Group, LockState
from redis_locks.inspection.headline import Sentence
from redis_locks.inspection.localized_times import duration, latency, seconds
from redis_locks.inspection.story import Phrase, longest
from redis_locks.statistics import Event, PastHold
from redis_locks.statistics.circles import Circle
from redis_locks.statistics.usual import Usual
from redis_locks.values.text import printable, shorten

LONGEST_NAME = 120
"""How many characters of a name a list shows; the lock's own page shows all."""

MOST_ENDS = 3
"""How many sessions that block nobody the tree shows below one session."""


def fingerprint(*facts: object) -> str:
    """Return text that changes when a fact does."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def mark_of(token: str) -> str:
    """Return what stands for the hold or the wait with this token in pages, addresses and forms.

    The token itself is the proof of a hold: whoever may only look must not see it.
    """
    return fingerprint("party", token)


def mode_text(mode: str) -> str:
    """Return a mode as it is written in claims as text for people."""
    kind, detail = (*mode.split(":", 1), "")[:2]
    if kind == "permit":
        return _("permit, one of %(capacity)s") % {"capacity": detail}
    if kind == "intent":
        return _("%(mode)s on rows") % {"mode": _MODES.get(detail, detail)}
    if kind == "upgrade":
        return _("exclusive, by upgrade")
    return str(_MODES.get(kind, kind))


# The other modes of rows are the arguments' and PostgreSQL's words in any language.
_MODES = {
    "exclusive": pgettext_lazy("locks", "exclusive"),
    "shared": pgettext_lazy("locks", "shared"),
}


_CASES = {
    Case.FREE: pgettext_lazy("locks", "free"),
    Case.HAND_OFF: pgettext_lazy("locks", "hand-off"),
    Case.NORMAL: pgettext_lazy("locks", "normal"),
    Case.CONVOY: pgettext_lazy("locks", "convoy"),
    Case.LONG: gettext_lazy("held for long"),
    Case.STALE: gettext_lazy("not renewed"),
    Case.GONE: gettext_lazy("holder gone"),
    Case.DEADLOCK: pgettext_lazy("locks", "deadlock"),
}


def case_text(case: Case) -> str:
    """Return what is going on with a lock in a word or two, for screen readers."""
    return str(_CASES[case])


def _plain(at: float) -> str:
    return f"{at:.3f}"


@dataclass(frozen=True, slots=True)
class PartyRow:
    """A holder or a waiter. Times are seconds since 1970, by the server's clock."""

    mark: str
    """What stands for it on pages; see `mark_of`."""
    label: str
    host: str
    host_url: str
    """The list of the locks for which this host is among the first ten; empty if it is not known,
    or nothing is to lead there.
    """
    pid: str
    unit: str
    mode: str
    since: str = field(repr=False)
    started: datetime = field(repr=False)
    lasted: str = field(repr=False)

    @classmethod
    def of(
        cls, party: HolderInfo | WaiterInfo, at: float, pages: ServerPages | None = None
    ) -> PartyRow:
        """Return the row of a party in a snapshot, with links to these pages.

        `at` is when the snapshot was read.
        """
        lasted = party.held_for if isinstance(party, HolderInfo) else party.waited
        # To the millisecond, as the server keeps it: the same each time it is read.
        since = round(at - lasted, 3)
        return cls(
            mark=mark_of(party.token),
            label=printable(party.label),
            host=printable(party.host),
            host_url=pages.url("changelist", host=party.host) if pages and party.host else "",
            pid=str(party.pid),
            unit=printable(party.unit),
            mode=mode_text(party.mode),
            since=_plain(since),
            started=datetime.fromtimestamp(since, UTC),
            lasted=duration(lasted),
        )


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The lease of a hold. While it is renewed, nothing is told that changes with each renewal."""

    length: str
    ends: str
    """When, if it is not renewed."""
    left: str = field(repr=False)
    renewed: bool
    """Whether enough of it is left; see `is_renewed`."""
    was_renewed: bool
    """Whether it has lasted for longer than without a renewal."""

    @classmethod
    def of(cls, holder: HolderInfo, at: float) -> LeaseRow:
        """Return the row of a hold in a snapshot that was read at `at`."""
        renewed = is_renewed(holder.lease_left, holder.lease)
        return cls(
            length=seconds(holder.lease or holder.lease_left),
            ends="" if renewed else _plain(at + holder.lease_left),
            left=duration(holder.lease_left),
            renewed=renewed,
            was_renewed=0 < holder.lease < holder.held_for,
        )


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A hold."""

    party: PartyRow
    lease: LeaseRow
    fencing_token: str

    @classmethod
    def of(cls, holder: HolderInfo, at: float, pages: ServerPages | None = None) -> HolderRow:
        """Return the row of a hold in a snapshot, with links to these pages.

        `at` is when the snapshot was read.
        """
        party = PartyRow.of(holder, at, pages)
        return cls(party, LeaseRow.of(holder, at), str(holder.fencing_token))


@dataclass(frozen=True, slots=True)
class Badge:
    """A word or two for what is wrong with a lock."""

    text: str
    alarm: bool
    url: str = ""
    since: str = ""
    ago: str = field(default="", repr=False)
    """How long ago it was, which counts on from `since`."""


_BADGES = (Case.GONE, Case.LONG, Case.CONVOY)
"""The cases that get a badge. The column of the lease says that one is not renewed."""


def _badges(state: LockState, at: float, pages: ServerPages) -> Iterator[Badge]:
    if state.case in _BADGES:
        yield Badge(case_text(state.case), alarm=state.case is not Case.CONVOY)
    if state.deadlock is not None:
        since, ago = _plain(state.deadlock), duration(max(0.0, at - state.deadlock))
        text = case_text(Case.DEADLOCK)
        yield Badge(text, alarm=True, url=pages.url("deadlocks"), since=since, ago=ago)


@dataclass(frozen=True, slots=True)
class LockRow:
    """A lock in the list, with its longest hold."""

    url: str
    name: str
    mode: str
    holder: HolderRow | None
    more: int
    """How many more holders there are."""
    usual: str
    is_long: bool
    waiting: int
    oldest_wait: str = field(repr=False)
    """The duration of the oldest wait."""
    waiting_since: str
    """When that began, as a point in time; empty if nobody waits."""
    long_wait: bool
    badges: tuple[Badge, ...]
    """What is wrong with it, in a word or two."""

    @classmethod
    def of(
        cls, lock: LockInfo, usual: Usual | None, pages: ServerPages, state: LockState | None = None
    ) -> LockRow:
        """Return the row of a lock on these pages, with badges for its state."""
        holder = longest(lock) if lock.holders else None
        oldest = max((waiter.waited for waiter in lock.waiters), default=0.0)
        return cls(
            url=pages.url("change", lock.name),
            name=short_name(lock.name),
            # The usual mode goes without saying.
            mode="" if lock.modes == ("exclusive",) else ", ".join(map(mode_text, lock.modes)),
            holder=HolderRow.of(holder, lock.at, pages) if holder else None,
            more=max(0, lock.holding - 1),
            usual=latency(usual.p99) if usual else "",
            is_long=holder is not None and is_long(holder.held_for, usual),
            waiting=lock.waiting,
            oldest_wait=duration(oldest),
            waiting_since=_plain(round(lock.at - oldest, 3)) if lock.waiting else "",
            long_wait=oldest >= LONG_WAIT,
            badges=tuple(_badges(state, lock.at, pages)) if state else (),
        )

    @property
    def level(self) -> str:
        """How much of a trouble it is, as the end of a CSS class."""
        stale = self.holder is not None and not self.holder.lease.renewed
        if self.long_wait or self.is_long or stale or any(badge.alarm for badge in self.badges):
            return "trouble"
        return "contended" if self.waiting else "calm"


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Locks with names of one pattern."""

    name: str
    pattern: str
    locks: int
    contended: int
    waiting: int
    gone: int
    long_wait: bool
    oldest_wait: str = field(repr=False)
    waiting_since: str
    """When that began, as a point in time; empty if nobody waits."""
    held_for: str = field(repr=False)
    held_since: str
    """When that began, as a point in time; empty if nobody holds."""

    @classmethod
    def of(cls, group: Group, at: float) -> GroupRow:
        """Return the row of a group in a survey that was read at `at`."""
        return cls(
            name=short_name(group.pattern),
            pattern=group.pattern,
            locks=group.locks,
            contended=group.contended,
            waiting=group.waiting,
            gone=group.gone,
            long_wait=group.oldest_wait >= LONG_WAIT,
            oldest_wait=duration(group.oldest_wait),
            waiting_since=_plain(round(at - group.oldest_wait, 3)) if group.waiting else "",
            held_for=duration(group.held_for),
            held_since=_plain(round(at - group.held_for, 3)) if group.held_for else "",
        )

    @property
    def level(self) -> str:
        """How much of a trouble it is, as the end of a CSS class."""
        if self.gone or self.long_wait:
            return "trouble"
        return "contended" if self.waiting else "calm"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in the tree of who blocks whom; `holds` are the locks others wait for."""

    party: PartyRow
    waits_for: str
    holds: tuple[tuple[str, str], ...]
    blocks: tuple[SessionRow, ...]
    more: int
    """How many more sessions it blocks that block nobody: the table has them."""
    repeated: bool
    deadlocked: bool
    cut: bool

    @classmethod
    def of(cls, node: Node, at: float, pages: ServerPages) -> SessionRow:
        """Return the row of a session, and of those that it blocks."""
        shown, more = node.first_blocked(MOST_ENDS)
        # As a dict: each once, in order.
        names = dict.fromkeys(below.lock for below in node.blocks if below.lock)
        return cls(
            party=PartyRow.of(node.who, at, pages),
            waits_for=short_name(node.lock or ""),
            holds=tuple((short_name(name), pages.url("change", name)) for name in names),
            blocks=tuple(cls.of(below, at, pages) for below in shown),
            more=more,
            repeated=node.repeated,
            deadlocked=node.deadlocked,
            cut=node.cut,
        )

    @property
    def branches(self) -> bool:
        """Whether the tree says more than that some wait for one lock of this session."""
        return len(self.holds) > 1 or any(
            below.blocks or below.repeated or below.deadlocked or below.cut for below in self.blocks
        )


_EVENTS = {
    "acquired": pgettext_lazy("locks", "Acquired"),
    "contended": pgettext_lazy("locks", "Contended"),
    "timed_out": gettext_lazy("Timed out"),
    "lost": pgettext_lazy("locks", "Lost"),
    "deadlock": pgettext_lazy("locks", "Deadlock"),
    "force_released": pgettext_lazy("locks", "Force-released"),
    "cancelled": pgettext_lazy("locks", "Cancelled"),
}
_ORDINARY = frozenset({"acquired", "contended"})


def event_row(event: Event) -> dict[str, object]:
    """Return an event of a lock as the page shows it.

    `ordinary` if it happens to every busy one.
    """
    lasted = ""
    if event.seconds:
        text = _("held for %(time)s") if event.kind == "lost" else _("waited for %(time)s")
        lasted = text % {"time": latency(event.seconds)}
    detail = printable(event.detail)
    if detail and event.kind != "lost":
        detail = _("held by %(who)s") % {"who": detail}
    return {
        "kind": str(_EVENTS.get(event.kind, event.kind)),
        "at": datetime.fromtimestamp(event.at, UTC),
        "who": printable(event.who),
        "lasted": lasted,
        "detail": detail,
        "ordinary": event.kind in _ORDINARY,
    }


def past_hold_row(hold: PastHold, usual: Usual | None) -> dict[str, object]:
    """Return a hold that has ended, as the page shows it.

    Its lock is usually held for so long.
    """
    lasted = hold.ended - hold.began
    return {
        "began": datetime.fromtimestamp(hold.began, UTC),
        "who": printable(hold.who),
        "lasted": latency(lasted),
        "is_long": usual is not None and usual.is_exceeded_by(lasted),
        "is_lost": hold.outcome == "lost",
        "detail": printable(hold.detail),
        "fencing_token": str(hold.fencing_token),
    }


def circle_row(circle: Circle, pages: ServerPages) -> dict[str, object]:
    """Return a deadlock that was broken as the page shows it, with links to these pages."""
    waits = [
        {
            "who": printable(wait.who),
            "mode": mode_text(wait.mode),
            "locks": [(short_name(name), pages.url("change", name)) for name in wait.names],
            "where": printable(wait.where),
        }
        for wait in circle.waits
    ]
    return {"at": datetime.fromtimestamp(circle.at, UTC), "waits": waits}


@dataclass(frozen=True, slots=True)
class StoryPart:
    """A part of a story; with `since`, a duration that counts on from there."""

    text: str
    since: str
    url: str = ""
    """The page of the lock that it names, if it does."""

    @classmethod
    def of(cls, span: Phrase, at: float, pages: ServerPages | None = None) -> StoryPart:
        """Return a part of a story that was told at `at`, with links to these pages."""
        since = "" if span.ago is None else _plain(round(at - span.ago, 3))
        return cls(span.text, since, pages.url("change", span.lock) if pages and span.lock else "")

    def __repr__(self) -> str:
        # The text of a duration changes by itself.
        return self.since or self.text


@dataclass(frozen=True, slots=True)
class Headline:
    """The headline of a page: sentences in parts."""

    sentences: tuple[tuple[StoryPart, ...], ...]
    alarm: bool
    said: str
    """What a screen reader says when it changes: nothing that counts on."""

    @classmethod
    def of(cls, sentences: Sequence[Sentence], at: float, pages: ServerPages) -> Headline:
        """Return what was found at `at`, with links to these pages."""
        first = sentences[0].parts[0].text.rstrip(". ")
        return cls(
            tuple(
                tuple(StoryPart.of(part, at, pages) for part in sentence.parts)
                for sentence in sentences
            ),
            any(sentence.alarm for sentence in sentences),
            "; ".join([first, *(each.said for each in sentences[1:])]),
        )


def short_name(name: str) -> str:
    """Return a name as it is shown in lists."""
    return shorten(printable(name), LONGEST_NAME)
