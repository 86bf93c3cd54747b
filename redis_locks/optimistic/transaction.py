"""What a transaction is to do. Options are validated when they are given, keys at each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.locks.data_commands import to_bytes
from redis_locks.locks.reads import keys_of_read
from redis_locks.values.arguments import whole_number
from redis_locks.values.durations import MAX_SECONDS, seconds, wait_seconds
from redis_locks.values.keys import validate_name

if TYPE_CHECKING:
    from redis_locks.optimistic.clients import Using

MAX_ATTEMPTS = 10_000


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """The options that all calls of a transaction share; see `optimistic`."""

    attempts: int = 5
    remember: float = 3600.0
    escalate_after: int = 2
    wait: float | Unset | None = UNSET
    using: Using = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for argument in ("attempts", "escalate_after"):
            whole_number(1, MAX_ATTEMPTS)(getattr(self, argument), argument)
        if not 1 <= seconds(self.remember, argument="remember") <= MAX_SECONDS:
            msg = f"remember must be from 1 second to one year, not {self.remember!r}"
            raise ValueError(msg)
        if self.wait is not UNSET:
            wait_seconds(self.wait)
        if self.using is not None and not isinstance(self.using, str):
            # Not imported above: without a client, redis-py may not be imported yet.
            from redis_locks.optimistic.clients import require_using

            require_using(self.using)

    def require_escalation(self) -> None:
        """Raise ValueError if the attempts end before the lock would be taken."""
        if self.escalate_after >= self.attempts:
            msg = (
                f"escalate_after={self.escalate_after} leaves none of attempts={self.attempts} for "
                "the time when the lock is held; give more attempts"
            )
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One call: the options, and what its arguments fill in."""

    options: TransactionOptions
    keys: tuple[str, ...]
    operation_id: str | None = None
    escalate_to: str | None = None
    label: str | None = None
    reads: tuple[tuple[bytes | str, ...], ...] = ()
    """Commands that travel with the WATCH."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not self.keys:
            msg = "give at least one key to watch: without one, nothing is protected"
            raise ValueError(msg)
        for key in self.keys:
            validate_name(key, argument="a key to watch")
        if self.operation_id is not None:
            validate_name(self.operation_id, argument="operation_id")
        if self.escalate_to is not None:
            validate_name(self.escalate_to, argument="escalate_to")
            self.options.require_escalation()

    @property
    def keys_read(self) -> tuple[str, ...]:
        """The keys of the commands that travel with the WATCH."""
        words = ([to_bytes(word) for word in command] for command in self.reads)
        return tuple(
            key.decode(errors="surrogateescape")
            for command in words
            for key in keys_of_read(command)
        )

    @property
    def lock_using(self) -> str | None:
        """Where the lock lives: with the data, unless `using` is a client."""
        using = self.options.using
        return using if isinstance(using, str) else None
