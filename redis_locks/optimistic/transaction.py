"""What a transaction is to do. Options are validated when they are given, keys at each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.drivers.resp import UNFINISHED, new_reader, pack
from redis_locks.locks.data_commands import to_bytes
from redis_locks.locks.options import remembered
from redis_locks.locks.reads import keys_of_read
from redis_locks.optimistic.packets import bulk, watching
from redis_locks.values.arguments import flag, whole_number
from redis_locks.values.durations import MAX_SECONDS, seconds, wait_seconds
from redis_locks.values.keys import hash_tag, validate_name

if TYPE_CHECKING:
    from redis_locks.optimistic.clients import Using

MAX_ATTEMPTS = 10_000

Reads = tuple[tuple[bytes | str, ...], ...]
"""Commands that only read, in words."""


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """The options that calls of a transaction share, wherever the keys live; see `optimistic`."""

    attempts: int = 5
    remember: float = 3600.0
    escalate_after: int = 2
    wait: float | Unset | None = UNSET
    replies: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for argument in ("attempts", "escalate_after"):
            whole_number(1, MAX_ATTEMPTS)(getattr(self, argument), argument)
        if not 1 <= seconds(self.remember, argument="remember") <= MAX_SECONDS:
            raise ValueError(f"remember must be from 1 second to one year, not {self.remember!r}")
        if self.wait is not UNSET:
            wait_seconds(self.wait)
        flag(self.replies, "replies")

    def require_escalation(self) -> None:
        """Raise ValueError if the attempts end before the lock would be taken."""
        if self.escalate_after >= self.attempts:
            raise ValueError(
                f"escalate_after={self.escalate_after} leaves none of attempts={self.attempts} for "
                "the time when the lock is held; give more attempts"
            )

    def require_no_id(self, operation_id: object) -> None:
        """Raise ValueError if the replies of an operation are wanted that may be repeated."""
        if self.replies and operation_id is not None:
            raise ValueError(
                "replies=True and operation_id exclude each other: a repeated operation has no "
                "replies any more"
            )


options_of = remembered(TransactionOptions, what="optimistic")
"""Returns the options, checked once for all transactions that are told the same."""


def checked_using(using: Using) -> Using:
    """Return `using`. Raises TypeError if it is of no type that can name a server."""
    if using is not None and not isinstance(using, str):
        # Not imported above: without a client, redis-py may not be imported yet.
        from redis_locks.optimistic.clients import require_using

        require_using(using)
    return using


@dataclass(slots=True, eq=False)
class FirstPacket:
    """What a transaction watches and reads: its first packet.

    The operation's key goes into it, and is watched as well.
    """

    keys: tuple[str, ...]
    watch: bytes
    """The start of the WATCH, which lacks one word."""
    reads: bytes
    """Commands that travel with the WATCH, in RESP."""
    names: tuple[str, ...]
    """Their names, in capitals."""
    tag: str
    """What places the operation's key in the slot of the others."""

    @classmethod
    def of(cls, keys: tuple[str, ...], commands: Reads) -> FirstPacket:
        """Return what watches these keys, which are checked, and sends these commands."""
        watch = watching(len(keys) + 1) + b"".join(map(bulk, keys))
        return cls(keys, watch, b"".join(map(pack, commands)), names_of(commands), tag_of(keys))

    @property
    def keys_read(self) -> tuple[str, ...]:
        """The keys of the commands that travel with the WATCH."""
        reader = new_reader()
        reader.feed(self.reads)
        return tuple(
            key.decode(errors="surrogateescape")
            for words in iter(reader.gets, UNFINISHED)
            for key in keys_of_read(words)
        )


def tag_of(keys: tuple[str, ...]) -> str:
    """Return the `hash_tag` of an operation that watches these keys, in whatever order.

    A set has another in each process.
    """
    return hash_tag(min(keys))


def names_of(commands: Reads) -> tuple[str, ...]:
    """Return the names of commands, in capitals."""
    return tuple(to_bytes(command[0]).decode().upper() for command in commands)


@dataclass(slots=True, eq=False)
class Transaction:
    """One call: the options, and what its arguments fill in, which are checked already."""

    options: TransactionOptions
    using: Using
    first_packet: FirstPacket
    label: str
    operation_id: str | None = None
    escalate_to: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys to watch."""
        return self.first_packet.keys

    @property
    def lock_using(self) -> str | None:
        """Where the lock lives: with the data, unless `using` is a client."""
        return self.using if isinstance(self.using, str) else None


def checked_keys(keys: tuple[object, ...]) -> tuple[str, ...]:
    """Return keys to watch; raises ValueError or TypeError if they cannot be that."""
    if not keys:
        raise ValueError("give at least one key to watch: without one, nothing is protected")
    return tuple(validate_name(key, argument="a key to watch") for key in keys)
