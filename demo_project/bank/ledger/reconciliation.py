"""What clerks say they did, beside the ledger and the balances. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from demo_project.bank.live.money import money

from .entries import Entry


@dataclass(frozen=True)
class Operation:
    """One transfer that was asked for, and what its caller knows of it.

    Attributes:
        id: Its operation id.
        sender: Account id.
        recipient: Account id.
        cents: Amount.
        attempts: How often it was given to a clerk.
        is_acknowledged: Whether a clerk said that it was made.
    """

    id: str
    sender: str
    recipient: str
    cents: int
    attempts: int = 0
    is_acknowledged: bool = False


@dataclass(frozen=True)
class Report:
    """All that there is to know of one way's run; amounts in cents.

    Attributes:
        way: A key of `entries.WAYS`.
        operations: What was asked for.
        entries: The ledger.
        before: The balances by account at the beginning.
        after: The balances by account at the end.
        replies_lost: How many replies of the server were lost.
        killed: How many clerks were killed.
        seconds: How long it took.
    """

    way: str
    operations: Sequence[Operation]
    entries: Sequence[Entry]
    before: Mapping[str, int]
    after: Mapping[str, int]
    replies_lost: int
    killed: int
    seconds: float

    @cached_property
    def times(self) -> Counter[str]:
        """How many entries each operation has."""
        return Counter(entry.operation for entry in self.entries)

    @property
    def attempts(self) -> int:
        """How often a clerk was given an operation."""
        return sum(operation.attempts for operation in self.operations)

    @property
    def acknowledged(self) -> int:
        """How many operations a clerk said were made."""
        return sum(operation.is_acknowledged for operation in self.operations)

    @property
    def unacknowledged(self) -> int:
        """How many operations no clerk said were made, made or not."""
        return len(self.operations) - self.acknowledged

    @property
    def duplicates(self) -> int:
        """How many entries repeat an operation that had one."""
        return sum(count - 1 for count in self.times.values())

    @property
    def missing(self) -> int:
        """How many operations were acknowledged without an entry."""
        return sum(
            operation.is_acknowledged and not self.times[operation.id]
            for operation in self.operations
        )

    @property
    def ordered(self) -> int:
        """What should have moved: each operation that was acknowledged, or has an entry, once."""
        return sum(
            operation.cents
            for operation in self.operations
            if operation.is_acknowledged or self.times[operation.id]
        )

    @property
    def booked(self) -> int:
        """What the ledger moved."""
        return sum(entry.cents for entry in self.entries)

    @cached_property
    def faults(self) -> list[str]:
        """What does not match, a sentence each; empty if every total does."""
        return [
            *_wrong_counts(self.operations, self.times),
            *_wrong_balances(self),
            *_falling_tokens(self.entries),
        ]

    @property
    def is_right(self) -> bool:
        """Whether all totals match, and no operation is there twice or acknowledged but missing."""
        return not self.faults


def _wrong_counts(operations: Sequence[Operation], times: Mapping[str, int]) -> Iterator[str]:
    for operation in operations:
        count = times.get(operation.id, 0)
        if operation.is_acknowledged and not count:
            yield f"{operation.id} was acknowledged, and is not in the ledger."
        elif count > 1:
            yield f"{operation.id} is in the ledger {count} times."
    for unknown in times.keys() - {operation.id for operation in operations}:
        yield f"{unknown} is in the ledger, and nobody asked for it."


def _wrong_balances(report: Report) -> Iterator[str]:
    expected = Counter(report.before)
    for operation in report.operations:
        if operation.is_acknowledged or report.times[operation.id]:
            expected[operation.sender] -= operation.cents
            expected[operation.recipient] += operation.cents
    for account, cents in report.after.items():
        if cents != expected[account]:
            yield f"Account {account} shows {money(cents)} instead of {money(expected[account])}."
    if sum(report.before.values()) != sum(report.after.values()):
        yield "Money was lost or made up."


def _falling_tokens(entries: Sequence[Entry]) -> Iterator[str]:
    """Each account's entries are in the order of the holds that wrote them."""
    last: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        if entry.token is None:
            continue
        for account in (entry.sender, entry.recipient):
            if entry.token <= last[account]:
                yield f"{entry.operation} has an older fencing token than the entry before it."
            last[account] = entry.token
