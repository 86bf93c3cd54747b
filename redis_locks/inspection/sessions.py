"""All holders and waiters of a server, and which holds a session waits for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from redis_locks.connections.backends import Backend, async_answer, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.inspection.parameters import validate_session
from redis_locks.inspection.queries import read_queues, read_whole
from redis_locks.inspection.snapshots import HolderInfo, LockInfo, WaiterInfo
from redis_locks.values.identity import COOLDOWN
from redis_locks.values.keys import QUEUED


@dataclass(frozen=True, slots=True)
class Parties:
    """Holders and waiters, sorted by the name of their lock, which is in `lock`.

    A hold of several locks, or a wait for several, appears once for each lock.
    """

    holders: tuple[HolderInfo, ...]
    waiters: tuple[WaiterInfo, ...]

    @property
    def hosts(self) -> list[str]:
        """The known hosts of all holders and waiters, sorted."""
        hosts = {party.host for party in self.holders} | {party.host for party in self.waiters}
        return sorted(hosts - {""})


def parties(*, using: str | None = None) -> Parties:
    """Return everybody who holds or waits; blocks.

    It takes a round trip per hundred locks, and more for a lock with more than ten of either.

    Args:
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    return blocking_answer(using, read_parties)


async def aparties(*, using: str | None = None) -> Parties:
    """Return everybody who holds or waits; see `parties`."""
    return await async_answer(using, read_parties)


def contended(*, using: str | None = None) -> list[LockInfo]:
    """Return the locks that somebody waits for, by name, with their whole queues; blocks.

    Args:
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    return blocking_answer(using, _contended)


async def acontended(*, using: str | None = None) -> list[LockInfo]:
    """Return the locks that somebody waits for; see `contended`."""
    return await async_answer(using, _contended)


def blocking(session: str, *, using: str | None = None) -> list[HolderInfo]:
    """Return the holds that a session waits for, as `pg_blocking_pids` does; blocks.

    These are the holds of the locks in whose queues it stands; none if it does not wait. Waiters
    that stand before it in a queue are not included: `contended` has the queues.

    Args:
        session: A thread or task: `session` of a `HolderInfo` or `WaiterInfo`, or a token of it.
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `session` is not a string.
        ValueError: `session` is empty, or neither a session nor a token.
    """
    return blocking_answer(using, partial(_blocking, session=validate_session(session)))


async def ablocking(session: str, *, using: str | None = None) -> list[HolderInfo]:
    """Return the holds that a session waits for; see `blocking`."""
    return await async_answer(using, partial(_blocking, session=validate_session(session)))


async def read_parties(backend: Backend, driver: Driver) -> Parties:
    """Return everybody who holds or waits."""
    locks = await read_whole(backend, driver)
    return Parties(
        tuple(holder for lock in locks for holder in lock.holders),
        tuple(waiter for lock in locks for waiter in lock.waiters),
    )


async def read_parties_of_host(backend: Backend, driver: Driver, host: str) -> Parties:
    """Return the holders and waiters of one host, by its exact name.

    The lock of a queued task is left out. The message may still be in its queue, though the host
    that sent it is gone. So is a cooldown, for which nobody works.
    """
    everybody = await read_parties(backend, driver)
    return Parties(
        tuple(
            holder
            for holder in everybody.holders
            if holder.host == host
            and not holder.lock.startswith(QUEUED)
            and not holder.label.startswith(COOLDOWN)
        ),
        tuple(waiter for waiter in everybody.waiters if waiter.host == host),
    )


async def _contended(backend: Backend, driver: Driver) -> list[LockInfo]:
    queues = await read_queues(backend, driver)
    names = [name for name, waiting in queues.items() if waiting]
    return [lock for lock in await read_whole(backend, driver, names) if lock.waiting]


async def _blocking(backend: Backend, driver: Driver, *, session: str) -> list[HolderInfo]:
    return [
        holder
        for lock in await _contended(backend, driver)
        if any(waiter.session == session for waiter in lock.waiters)
        for holder in lock.holders
    ]
