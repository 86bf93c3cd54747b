"""Change how a lock is held, from shared to exclusive and back, without letting go of it."""

from __future__ import annotations

from math import inf
from time import monotonic

from redis_locks import replication, store, waiting
from redis_locks.attempts import Won
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.contention import not_available
from redis_locks.deadlines import bounded
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.durations import wait_seconds
from redis_locks.exceptions import LockLost
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
        """Turn an exclusive hold into a shared one; see `downgrade`."""
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
        request = shared.request._replace(token=token, mode=mode, reads=())
        shared.upgrading = inf
        try:
            outcome = await waiting.acquire(
                driver, request, seconds, get_settings().deadlock_timeout
            )
            if isinstance(outcome, Refused):
                return outcome
            lease = await self._upgraded(driver, request, outcome)
        except LockLost:
            shared.lost = True
            raise self._lost() from None
        finally:
            shared.upgrading = monotonic()
        shared.ended = True
        # One hold goes on: it began once and ends once.
        lease.since, lease.untold = shared.since, shared.untold
        lease.on_lost = shared.on_lost
        tenure = self._tenure
        tenure.renewer.discard(shared)
        lease.renews_if(shared.renews)
        tenure.renewer.add(lease)
        tenure.lease = lease
        return None

    async def _upgraded(self, driver: Driver, request: Request, won: Won) -> Lease:
        """Return the lease of an upgrade; if too few replicas know of it, the hold is shared again."""
        shared = self._lease
        deadline = max(won.deadline, shared.deadline)  # the script never shortens it
        lease = Lease(request, deadline, won.fencing_token, name=shared.name, mode="exclusive")
        if request.replicas:
            try:
                await replication.confirm(driver, lease, won.read)
            except BaseException:
                await waiting.take_back(driver, request)
                raise
        return lease

    async def _downgrade(self, driver: Driver) -> None:
        if self._stays("shared"):
            return
        self._require_alone("downgrade()")
        await self._restate(driver)
        lease = self._lease
        lease.leave_line()
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
