"""`Semaphore`: a lock that several holders have at once, each with a permit of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, Never, Unpack, overload

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.conf.validation import OnUnavailable
from redis_locks.decorators.redis_lock import (
    Else,
    OnConflict,
    Otherwise,
    PermitOptions,
    redis_lock,
)
from redis_locks.locks.options import varied
from redis_locks.locks.scope import ScopeName
from redis_locks.values.arguments import whole_number

MAX_CAPACITY = 1_000_000


class Semaphore(redis_lock[Otherwise]):
    """A fair counting semaphore: at most `capacity` holders at once, in the order they came.

    Usable wherever `redis_lock` is: as a decorator, in ``with`` and ``async with``, and with
    `acquire`. Each permit has a lease of its own: one that a crashed holder had is free again
    when its lease ends.

    The capacity may differ between processes, say while a new one is being deployed. The smallest
    one among the holders and the caller counts. So a lower capacity takes effect with the first
    acquire that brings it. A higher one does when the holders of the lower one are gone. Present
    holders never lose their permits.

    Args:
        name: As for `redis_lock`. A `Lock` of the same name excludes it: an exclusive holder
            waits until all permits are back.
        capacity: How many may hold it at once, 1 to 1,000,000.
        wait: Seconds to wait for a permit. 0: do not wait. None: for ever.
        lease: Seconds a permit lives unless renewed or extended.
        renew: Whether a permit is renewed in the background while it is held.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path.
        label: What the holder runs, for people.
        scope: As for `redis_lock`; in one transaction one permit is taken.
        database: As for `redis_lock`.
        commit_guard: As for `redis_lock`.
        replicas: As for `redis_lock`.
        max_hold: As for `redis_lock`.
        on_unavailable: As for `redis_lock`.
        on_conflict: As for `redis_lock`.
        conflict_status: As for `redis_lock`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    @overload
    def __init__(
        self: Semaphore[Never],
        name: str,
        capacity: int,
        *,
        on_conflict: Literal["raise", "retry"] | None = None,
        **options: Unpack[PermitOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Semaphore[None],
        name: str,
        capacity: int,
        *,
        on_conflict: Literal["skip"],
        **options: Unpack[PermitOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Semaphore[Else],
        name: str,
        capacity: int,
        *,
        on_conflict: Callable[..., Coroutine[Any, Any, Else]],
        **options: Unpack[PermitOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Semaphore[Else],
        name: str,
        capacity: int,
        *,
        on_conflict: Callable[..., Else],
        **options: Unpack[PermitOptions],
    ) -> None: ...

    @overload  # of a subclass
    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        on_conflict: OnConflict | None = None,
        **options: Unpack[PermitOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        wait: float | Unset | None = UNSET,
        lease: float | Unset = UNSET,
        renew: bool | Unset = UNSET,
        using: str | None = None,
        label: str | None = None,
        scope: ScopeName = "auto",
        database: str | None = None,
        commit_guard: bool = True,
        replicas: int | Unset = UNSET,
        max_hold: float | Unset = UNSET,
        on_unavailable: OnUnavailable | Unset = UNSET,
        on_conflict: OnConflict | None = None,
        conflict_status: int | None = None,
    ) -> None:
        whole_number(1, MAX_CAPACITY)(capacity, "capacity")
        super().__init__(
            name,
            wait=wait,
            lease=lease,
            renew=renew,
            using=using,
            label=label,
            scope=scope,
            database=database,
            commit_guard=commit_guard,
            replicas=replicas,
            max_hold=max_hold,
            on_unavailable=on_unavailable,
            on_conflict=on_conflict,
            conflict_status=conflict_status,
        )
        self.options = varied(self.options, mode=f"permit:{capacity}")

    @property
    def capacity(self) -> int:
        """How many may hold it at once."""
        return int(self.options.mode.removeprefix("permit:"))
