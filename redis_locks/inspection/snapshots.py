"""Locks, holders and waiters as frozen rows, in seconds: what `inspection` returns."""

from __future__ import annotations

import time
from dataclasses import dataclass

from redis_locks.conf.name_function import listed
from redis_locks.inspection.replies import Snapshot
from redis_locks.values.claims import Claim, Who
from redis_locks.values.modes import shown

_UNKNOWN = Who(host="", pid=0, unit="", label="")


class _Party:
    """What holders and waiters have in common."""

    __slots__ = ()

    token: str
    host: str
    pid: int
    unit: str
    label: str

    def __str__(self) -> str:
        return str(Who(self.host, self.pid, self.unit, self.label))

    @property
    def session(self) -> str:
        """The thread or task that holds or waits: the same for all its holds and waits."""
        return session_of(self.token)


@dataclass(frozen=True, slots=True)
class HolderInfo(_Party):
    """One hold; times in seconds. Unknown texts are empty, unknown numbers 0.

    `lease` is the length that the holder asked for when acquiring, which each renewal restores.
    `lock` is the name of the lock.
    """

    token: str
    fencing_token: int
    held_for: float
    lease_left: float
    mode: str
    host: str
    pid: int
    unit: str
    label: str
    lease: float = 0.0
    lock: str = ""


@dataclass(frozen=True, slots=True)
class WaiterInfo(_Party):
    """One waiter; `waited` in seconds. Unknown details, and `lock`, are as in `HolderInfo`."""

    token: str
    waited: float
    mode: str
    host: str
    pid: int
    unit: str
    label: str
    lock: str = ""


@dataclass(frozen=True, slots=True)
class LockInfo:
    """One lock, with its first living holders and its first waiters.

    Holders come by the end of their leases, waiters in the order of the queue.

    `holding` counts all holders, and `waiting` all waiters. `waiting` includes waiters that died,
    until the next hand-off skips them. `at` is when the lock was read, by the server's clock, in
    seconds since 1970.
    """

    name: str
    mode: str
    holders: tuple[HolderInfo, ...]
    waiters: tuple[WaiterInfo, ...]
    waiting: int
    at: float = 0.0
    holding: int = 0

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of its holders, each once; without holders, the mode of the first waiter."""
        return tuple(dict.fromkeys(holder.mode for holder in self.holders)) or (self.mode,)


def lock_info(name: str, snapshot: Snapshot) -> LockInfo:
    """Return the lock `name` as a snapshot shows it."""
    name = listed(name)
    holders = tuple(_holder(name, snapshot.at_ms, *holder) for holder in snapshot.holders)
    waiters = tuple(_waiter(name, snapshot.at_ms, *waiter) for waiter in snapshot.waiters)
    modes = [holder.mode for holder in holders] + [waiter.mode for waiter in waiters]
    return LockInfo(
        name,
        modes[0] if modes else "",
        holders,
        waiters,
        snapshot.waiting,
        snapshot.at_ms / 1000,
        snapshot.holding,
    )


def free_lock(name: str) -> LockInfo:
    """Return a lock that nobody holds or waits for, as it is now."""
    return LockInfo(name, "", (), (), 0, time.time())


def session_of(token: str) -> str:
    """Return the session of a token; a session comes back as it is."""
    return token.rpartition(".")[0] or token


def _holder(name: str, now_ms: int, token: str, ends_ms: int, text: str) -> HolderInfo:
    claim = _claim(text, now_ms)
    held_for, lease_left = _seconds(now_ms - claim.since_ms), _seconds(ends_ms - now_ms)
    who, lease = claim.who or _UNKNOWN, claim.lease_ms / 1000
    return HolderInfo(
        token, claim.fencing_token, held_for, lease_left, claim.mode, *who, lease, name
    )


def _waiter(name: str, now_ms: int, token: str, text: str) -> WaiterInfo:
    claim = _claim(text, now_ms)
    who = claim.who or _UNKNOWN
    waited = _seconds(now_ms - claim.since_ms)
    return WaiterInfo(token, waited, shown(claim.mode), *who, name)


def _claim(text: str, now_ms: int) -> Claim:
    return Claim.parse(text) or Claim(0, now_ms, "", None)


def _seconds(milliseconds: int) -> float:
    # Not below 0, even if somebody set the server's clock back meanwhile.
    return max(0, milliseconds) / 1000
