"""What locks of all kinds do, in a page: who holds, who waits, and who is granted next.

Nothing here knows Redis, clocks, connections or lost replies: the machines hold the scripts and the
library against it, whatever of those comes in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby


@dataclass(eq=False)
class Party:
    """Somebody who wants, or has, all of some locks."""

    names: tuple[str, ...]
    mode: str
    """"exclusive", "shared" or "permit:CAPACITY"."""
    upgrades: Party | None = None
    """The shared hold that this one, which is exclusive, is to take the place of."""
    token: str = ""
    """What the server knows it by."""
    tokens: dict[str, str] = field(default_factory=dict)
    """What it is known by where that differs: a hold of several partitions is made of holds."""
    lost: set[str] = field(default_factory=set)
    """Those of its locks that somebody else has ended its hold of."""
    whole: Party | None = None
    """Of a part of a set that is waited for, the set: it has several partitions, taken one by one.
    """

    def known_as(self, name: str) -> str:
        return self.tokens.get(name, self.token)

    @property
    def is_permit(self) -> bool:
        return self.mode.startswith("permit:")

    @property
    def capacity(self) -> int:
        return int(self.mode.removeprefix("permit:"))


class Model:
    """Some locks. A verb that makes room returns who is granted by that, in this order.

    Args:
        partition: In which partition a lock is.
    """

    def __init__(self, partition: Callable[[str], int] = lambda name: 0) -> None:
        self.partition = partition
        self.holders: list[Party] = []
        self.line: list[Party] = []
        """In order of arrival, over all locks: a party stands in the queues of all of its names."""

    def holders_of(self, name: str) -> list[Party]:
        return [party for party in self.holders if name in party.names and name not in party.lost]

    def queue_of(self, name: str) -> list[Party]:
        return [party for party in self.line if name in party.names]

    def parts(self, party: Party) -> list[tuple[str, ...]]:
        """Its locks, partition by partition."""
        names = sorted(party.names, key=self.partition)
        return [tuple(part) for _, part in groupby(names, self.partition)]

    def upgrading(self, held: Party) -> list[Party]:
        """The waits of a shared hold to become exclusive."""
        return [party for party in self.line if party.upgrades is held]

    def has_room(self, name: str, party: Party) -> bool:
        """Exclusive stands alone; shared beside shared; permits up to their smallest capacity."""
        others = [other for other in self.holders_of(name) if other is not party.upgrades]
        if party.is_permit and all(other.is_permit for other in others):
            return len(others) < min(each.capacity for each in (party, *others))
        return not others or {party.mode, *(other.mode for other in others)} == {"shared"}

    def is_free(self, party: Party) -> bool:
        """Whether a newcomer gets all of its locks: nobody overtakes, but for an upgrade."""
        in_line = not party.upgrades and any(map(self.queue_of, party.names))
        return not in_line and all(self.has_room(name, party) for name in party.names)

    def is_next(self, party: Party) -> bool:
        """Whether a waiter gets all of its locks: it stands first everywhere, and there is room."""
        first = all(self.queue_of(name)[0] is party for name in party.names)
        return first and all(self.has_room(name, party) for name in party.names)

    def comes(self, party: Party, *, waits: bool) -> list[Party]:
        """All of its locks, or a place in all queues, or nothing.

        No place in queues of several partitions: there it takes a part, then waits for the next.
        """
        if self.is_free(party):
            return self._grant(party)
        if waits and len(self.parts(party)) > 1:
            return self._go_on(party)
        if waits:
            self.line.insert(0 if party.upgrades else len(self.line), party)
        return []

    def leaves(self, party: Party) -> list[Party]:
        """End a hold, and with it what would have been made of it; or end a wait."""
        gone = [party, *self.upgrading(party)]
        gone += [each for each in self.holders if party.whole and each.whole is party.whole]
        self.holders = [other for other in self.holders if other not in gone]
        self.line = [other for other in self.line if other not in gone]
        return self._settle()

    def loses(self, party: Party, name: str) -> list[Party]:
        """End a hold of one of its locks, from outside."""
        party.lost.add(name)
        return self.leaves(party) if party.lost.issuperset(party.names) else self._settle()

    def downgrades(self, party: Party) -> list[Party]:
        party.mode = "shared"
        return self._settle()

    def _grant(self, party: Party) -> list[Party]:
        """Returns it, or whoever has all parts of a set by now."""
        self.holders = [other for other in self.holders if other is not party.upgrades]
        self.line = [other for other in self.line if other is not party]
        self.holders.append(party)
        if party.whole:
            return self._go_on(party.whole)
        return [party]

    def _go_on(self, whole: Party) -> list[Party]:
        """Ask for the next part of a set; or have all of them as one hold."""
        had = [other for other in self.holders if other.whole is whole]
        parts = self.parts(whole)
        if len(had) < len(parts):
            return self.comes(Party(parts[len(had)], whole.mode, whole=whole), waits=True)
        self.holders = [other for other in self.holders if other not in had] + [whole]
        return [whole]

    def _settle(self) -> list[Party]:
        granted: list[Party] = []
        while party := next(filter(self.is_next, self.line), None):
            granted += self._grant(party)
        return granted
