"""`Semaphore`: a lock that several holders have at once, each with a permit of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, Never, Unpack, overload

from redis_locks.decorators.locked_function import OnConflict
from redis_locks.decorators.redis_lock import Else, Otherwise, redis_lock
from redis_locks.locks.options import PermitOptions, varied
from redis_locks.values.arguments import refuse_unknown, whole_number

MAX_CAPACITY = 1_000_000


class PermitCallOptions(PermitOptions, total=False):
    """The options of `Semaphore` that do not shape what a call returns."""

    conflict_status: int | None


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
        on_conflict: As for `redis_lock`.
        **options: As for `redis_lock`, but for those that only a lock has: mode, reentrant,
            crash_release, at_least and read. In one transaction one permit is taken.

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
        **options: Unpack[PermitCallOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Semaphore[None],
        name: str,
        capacity: int,
        *,
        on_conflict: Literal["skip"],
        **options: Unpack[PermitCallOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Semaphore[Else],
        name: str,
        capacity: int,
        *,
        on_conflict: Callable[..., Coroutine[Any, Any, Else]],
        **options: Unpack[PermitCallOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Semaphore[Else],
        name: str,
        capacity: int,
        *,
        on_conflict: Callable[..., Else],
        **options: Unpack[PermitCallOptions],
    ) -> None: ...

    @overload  # of a subclass
    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        on_conflict: OnConflict | None = None,
        **options: Unpack[PermitCallOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        on_conflict: OnConflict | None = None,
        **options: Unpack[PermitCallOptions],
    ) -> None:
        whole_number(1, MAX_CAPACITY)(capacity, "capacity")
        refuse_unknown(options, PermitCallOptions.__optional_keys__, "Semaphore")
        super().__init__(name, on_conflict=on_conflict, **options)
        self.options = varied(self.options, mode=f"permit:{capacity}")

    @property
    def capacity(self) -> int:
        """How many may hold it at once."""
        return int(self.options.mode.removeprefix("permit:"))
