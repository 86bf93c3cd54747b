"""Change how a lock is held, from shared to exclusive and back, without letting go of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic

from redis_locks import replication, store, waiting
from redis_locks.attempts import Won
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.contention import not_available
from redis_locks.deadlines import bounded
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.durations import wait_seconds
from redis_locks.exceptions import LockError, LockLost
from redis_locks.identity import new_token, session
from redis_locks.leases import Lease
from redis_locks.possession import Possession
from redis_locks.store import Refused, Request


class Convertible(Possession):
    """A hold whose mode can change."""

    __slots__ = ()

    def upgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one, without letting go of it in between.

        Waits up to `wait` seconds (0: not at all; None: for ever; not given: REDIS_LOCKS["WAIT"])
        for the other shared holders to leave, before everyone in the queue. `fencing_token` and `token` change. An exclusive
        hold stays as it is.

        Raises:
            LockNotAvailable: Others share the lock, and the wait is 0. The hold stays shared.
            LockTimeout: Others still shared the lock after the wait. The hold stays shared.
            DeadlockDetected: Another shared holder upgrades as well. The hold stays shared.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; the lease ends when it would have.
            NotReplicated: Too few replicas acknowledged it, see `Lock`. The hold stays shared.
            TypeError: It is a permit of a semaphore, or of rows.
        """
        run_blocking(self._upgrade(self._backend.driver, wait))

    async def aupgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one; see `upgrade`. Cancelled, it stays shared."""
        driver, _ = await self._backend.of_loop()
        await self._upgrade(driver, wait)

    def downgrade(self) -> None:
        """Turn an exclusive hold into a shared one and let shared waiters in.

        A shared hold stays as it is.

        Raises:
            LockError: Others are nested with this hold.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; it may be shared already.
            TypeError: It is a permit of a semaphore, or of rows.
        """
        run_blocking(self._downgrade(self._backend.driver))

    async def adowngrade(self) -> None:
        """Turn an exclusive hold into a shared one; see `downgrade`. Cancelled on its way, it is shared."""
        driver, _ = await self._backend.of_loop()
        await self._downgrade(driver)

    async def _upgrade(self, driver: Driver, wait: float | Unset | None) -> None:
        seconds = bounded(get_settings().wait if wait is UNSET else wait_seconds(wait))
        refused = await self.try_upgrade(driver, seconds)
        if refused is not None:
            raise not_available(self.name, refused, seconds)

    async def try_upgrade(self, driver: Driver, seconds: float | None) -> Refused | None:
        """Turn a shared hold into an exclusive one; return why it could not be, or None."""
        if self._stays("exclusive"):
            return None
        shared = self._lease
        mode = f"upgrade:{shared.token}"
        token = new_token(session(task=driver is not self._backend.driver))
        request = replace(shared.request, token=token, mode=mode, reads=())
        shared.upgrading = inf
        try:
            outcome = await waiting.acquire(
                driver, request, seconds, get_settings().deadlock_timeout
            )
            if isinstance(outcome, Refused):
                return outcome
            await self._become_exclusive(driver, request, outcome)
        except LockLost:
            shared.lost = True
            raise self._lost() from None
        finally:
            shared.upgrading = monotonic()
        return None

    async def _become_exclusive(self, driver: Driver, request: Request, won: Won) -> None:
        """Have the lease of an upgrade. Interrupted, or if too few replicas know of it, the hold is shared again."""
        tenure, shared = self._tenure, self._lease
        lease: Lease | None = None
        try:
            deadline = max(won.deadline, shared.deadline)  # the script never shortens it
            lease = Lease(request, deadline, won.fencing_token, name=shared.name, mode="exclusive")
            if request.replicas:
                await replication.confirm(driver, lease, won.read)
            # One hold goes on: it began once and ends once.
            lease.since, lease.untold = shared.since, shared.untold
            lease.on_lost = shared.on_lost
            lease.renews_if(shared.renews)
            shared.ended = True
            tenure.renewer.discard(shared)
            tenure.renewer.add(lease)
            tenure.lease = lease
        except BaseException:
            if lease is not None:
                lease.ended = True
                tenure.renewer.discard(lease)
            tenure.lease, shared.ended = shared, False
            await waiting.take_back(driver, request)
            tenure.renewer.add(shared)
            raise

    async def _downgrade(self, driver: Driver) -> None:
        if self._stays("shared"):
            return
        self._require_alone("downgrade()")
        await self._restate(driver)
        self._lease.leave_line()
        try:
            await self._become_shared(driver)
        except LockError:
            raise
        except BaseException:
            # It may have happened: do not go on as if it were exclusive.
            with suppress(LockError):
                await driver.finish(self._become_shared(driver))
            raise

    async def _become_shared(self, driver: Driver) -> None:
        lease = self._lease
        held, _ = await self._persist(
            driver, lambda link: store.downgrade(link, lease.keys, lease.token)
        )
        if not held:
            lease.lost = True
            raise self._lost()
        lease.mode = "shared"

    def _stays(self, mode: str) -> bool:
        """Return whether there is nothing to change; raise if it cannot be changed."""
        self._require_held()
        if self.is_lost:
            raise self._lost()
        self._require_no_rows()
        if self.mode not in {"exclusive", "shared"}:
            msg = "a permit of a semaphore is neither shared nor exclusive; acquire a Lock instead"
            raise TypeError(msg)
        return self.mode == mode
