"""Snapshots made ready to be shown: text that misleads nobody, and times as points in time.

The page's script counts on from points in time by itself, so what is sent changes only when
the locks do, and an unchanged page need not be sent again. Numbers for the script and numbers
that name something are texts, so that no template gives them the reader's separators.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.admin.sites import AdminSite

from redis_locks.admin.paths import lock_url
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.blockers import Node
from redis_locks.statistics import Event
from redis_locks.values.text import duration, latency, printable, shorten

LONGEST_NAME = 120
"""How many characters of a name a list shows; the lock's own page shows all."""


def fingerprint(*facts: object) -> str:
    """Return text that changes when a fact does."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:20]


def mode_text(mode: str) -> str:
    """Return a mode as it is written in claims as text for people."""
    kind, _, detail = mode.partition(":")
    if kind == "permit":
        return f"permit, one of {detail}"
    if kind == "intent":
        return f"{detail} on rows"
    return "exclusive, by upgrade" if kind == "upgrade" else kind


def _plain(seconds: float) -> str:
    return f"{seconds:.3f}"


@dataclass(frozen=True, slots=True)
class PartyRow:
    """A holder or a waiter. Times are seconds since 1970, by the server's clock."""

    token: str
    label: str
    host: str
    pid: str
    unit: str
    mode: str
    since: str
    started: datetime
    lasted: str

    @classmethod
    def of(cls, party: HolderInfo | WaiterInfo, at: float) -> PartyRow:
        """Return the row of a party in a snapshot that was read at `at`."""
        lasted = party.held_for if isinstance(party, HolderInfo) else party.waited
        # To the millisecond, as the server keeps it: the same each time it is read.
        since = round(at - lasted, 3)
        return cls(
            token=party.token,
            label=printable(party.label),
            host=printable(party.host),
            pid=str(party.pid),
            unit=printable(party.unit),
            mode=mode_text(party.mode),
            since=_plain(since),
            started=datetime.fromtimestamp(since, UTC),
            lasted=duration(lasted),
        )


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """How much of a lease is left. Below a third of it, renewals must have failed twice."""

    length: str
    low: str
    ends: str
    left: str
    text: str

    @classmethod
    def of(cls, holder: HolderInfo, at: float) -> LeaseRow:
        """Return the row of a hold in a snapshot that was read at `at`."""
        left = holder.lease_left
        # A hold may have been extended beyond the length it was asked for with.
        length = max(holder.lease, left)
        return cls(
            length=_plain(length),
            low=_plain(length / 3),
            ends=_plain(at + left),
            left=_plain(left),
            text=duration(left),
        )


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A hold."""

    party: PartyRow
    lease: LeaseRow
    fencing_token: str

    @classmethod
    def of(cls, holder: HolderInfo, at: float) -> HolderRow:
        """Return the row of a hold in a snapshot that was read at `at`."""
        return cls(PartyRow.of(holder, at), LeaseRow.of(holder, at), str(holder.fencing_token))

    @property
    def state(self) -> str:
        """The same as long as nothing changed but the end of the lease: a hold may change its mode."""
        return f"{self.party.token} {self.fencing_token} {self.party.mode}"


@dataclass(frozen=True, slots=True)
class LockRow:
    """A lock in the list. The same `state` means: nothing changed but the end of the lease."""

    url: str
    name: str
    mode: str
    holders: tuple[HolderRow, ...]
    waiting: int
    state: str

    @classmethod
    def of(cls, lock: LockInfo, site: AdminSite) -> LockRow:
        """Return the row of a lock on the pages of `site`."""
        holders = tuple(HolderRow.of(holder, lock.at) for holder in lock.holders)
        return cls(
            url=lock_url(site, "change", lock.name),
            name=short_name(lock.name),
            mode=", ".join(map(mode_text, lock.modes)),
            holders=holders,
            waiting=lock.waiting,
            state=fingerprint(lock.modes, [holder.state for holder in holders], lock.waiting),
        )


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in the tree of who blocks whom; `holds` are the locks others wait for."""

    party: PartyRow
    waits_for: str
    holds: tuple[tuple[str, str], ...]
    blocks: tuple[SessionRow, ...]
    repeated: bool
    deadlocked: bool
    cut: bool

    @classmethod
    def of(cls, node: Node, at: float, site: AdminSite) -> SessionRow:
        """Return the row of a session, and of those that it blocks."""
        # As a dict: each once, in order.
        names = dict.fromkeys(below.lock for below in node.blocks if below.lock)
        return cls(
            party=PartyRow.of(node.who, at),
            waits_for=short_name(node.lock or ""),
            holds=tuple((short_name(name), lock_url(site, "change", name)) for name in names),
            blocks=tuple(cls.of(below, at, site) for below in node.blocks),
            repeated=node.repeated,
            deadlocked=node.deadlocked,
            cut=node.cut,
        )

    def facts(self) -> Iterator[object]:
        """Yield what the tree says, for its fingerprint."""
        yield self.party.token, self.waits_for, self.repeated, self.deadlocked, self.cut
        for below in self.blocks:
            yield from below.facts()


_EVENTS = {
    "acquired": "Acquired",
    "contended": "Contended",
    "timed_out": "Timed out",
    "lost": "Lost",
    "deadlock": "Deadlock",
    "force_released": "Force-released",
    "cancelled": "Cancelled",
}
_ORDINARY = frozenset({"acquired", "contended"})


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened to the lock; `ordinary` if it happens to every busy one."""

    kind: str
    at: datetime
    who: str
    lasted: str
    detail: str
    ordinary: bool

    @classmethod
    def of(cls, event: Event) -> EventRow:
        """Return the row of an event."""
        lasted = ""
        if event.seconds:
            verb = "held for" if event.kind == "lost" else "waited for"
            lasted = f"{verb} {latency(event.seconds)}"
        detail = printable(event.detail)
        if detail and event.kind != "lost":
            detail = f"held by {detail}"
        return cls(
            kind=_EVENTS.get(event.kind, event.kind),
            at=datetime.fromtimestamp(event.at, UTC),
            who=printable(event.who),
            lasted=lasted,
            detail=detail,
            ordinary=event.kind in _ORDINARY,
        )


def short_name(name: str) -> str:
    """Return a name as it is shown in lists."""
    return shorten(printable(name), LONGEST_NAME)
