"""Give a hold away as text, to another thread, process or task queue worker."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Self

from redis_locks import replication, store
from redis_locks.arguments import flag, optional_text
from redis_locks.backends import Backend, backend_for
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.detached import Detached
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.durations import lease_ms
from redis_locks.exceptions import LockBackendError, LockError, LockLost
from redis_locks.identity import new_session, new_token, note_unconfirmed, session, whoami
from redis_locks.leases import Lease, tell_moved
from redis_locks.releasing import Releasable
from redis_locks.renewal.base import Renewer
from redis_locks.store import Adopted, Request, may_be_buried
from redis_locks.tenure import Tenure


class Movable(Releasable):
    """A hold that can be detached here and adopted elsewhere."""

    __slots__ = ()

    def detach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away: return text from which `adopt` makes it again, once, anywhere.

        The lock stays held, by nobody's thread, for `lease` seconds (not given: the hold's own lease), or longer if
        its lease is longer already; then it is free, if nobody adopted it. This hold is
        released, as far as it goes. The text is signed with SECRET_KEY but can be read. Blocks for a round trip.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockError: A transaction keeps the hold, others are nested with it, its locks are in
                several partitions, or it is one with `crash_release`.
            LockBackendError: Redis could not be asked. It is still this hold, unless only the
                answers got lost: then this hold is found lost, and the lock is free with its lease.
            TypeError: `lease` is not a number, or it is a hold of rows.
            ValueError: `lease` is not between 0.01 and one year.
        """
        return run_blocking(self._detach(self._backend.driver, lease))

    async def adetach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away; see `detach`. Cancelled, it is still this hold."""
        driver, _ = await self._backend.of_loop()
        return await self._detach(driver, lease)

    @classmethod
    def adopt(
        cls,
        text: str,
        *,
        using: str | None = None,
        renew: bool | Unset = UNSET,
        label: str | None = None,
    ) -> Self:
        """Return the hold that `detach` gave away, now this thread's; its fencing token is the same.

        Nobody can take the lock in between. Blocks for a round trip. Interrupted, the hold either is still to be
        adopted or is released.

        Args:
            text: What `detach` returned.
            using: The server, as for the lock.
            renew: Whether it is renewed in the background; not given: REDIS_LOCKS["RENEW"].
            label: What the holder runs, for people; None is the command of this process.

        Raises:
            LockLost: It was adopted already, or its lease ended before.
            LockBackendError: Redis could not be asked.
            ValueError: `text` is not what `detach` returned, or was signed with another SECRET_KEY.
            TypeError: An argument has the wrong type.
        """
        detached, backend = _asked_for(text, using, renew, label)
        return run_blocking(
            cls._adopt(detached, backend, backend.driver, backend.renewer, renew, label, task=False)
        )

    @classmethod
    async def aadopt(
        cls,
        text: str,
        *,
        using: str | None = None,
        renew: bool | Unset = UNSET,
        label: str | None = None,
    ) -> Self:
        """Return the hold that `detach` gave away, now this task's; see `adopt`."""
        detached, backend = _asked_for(text, using, renew, label)
        driver, renewer = await backend.of_loop()
        return await cls._adopt(detached, backend, driver, renewer, renew, label, task=True)

    async def _detach(self, driver: Driver, lease: float | Unset) -> str:
        self._require_movable()
        await self._restate(driver)
        held = self._lease
        milliseconds = held.lease_ms if lease is UNSET else lease_ms(lease)
        # A session of its own: nobody who waits is to be told that this thread is in the way.
        transit = replace(held.request, token=new_token(new_session()), lease_ms=milliseconds)
        held_ms = round((monotonic() - held.since) * 1000)
        travels = Detached(
            held.request.names,
            transit.token,
            self.mode,
            held.lease_ms,
            milliseconds,
            held.request.template,
            held.request.replicas,
            0,
            held_ms,
        )
        travels.text()  # what is wrong with the key is to show before anything has happened
        # From here on a renewal that finds nothing is no loss.
        held.ended = True
        try:
            moved = await self._move_out(driver, transit)
            text = travels._replace(at_ms=moved.at_ms).text()
            await tell_moved(driver, "detached", held)
        except BaseException:
            await driver.finish(self._move_back(driver, transit.token))
            raise
        self._released = True
        held.leave_line()
        self._tenure.leave(self)
        self._tenure.renewer.discard(held)
        return text

    def _require_movable(self) -> None:
        self._require_held()
        self._require_no_rows()
        self._require_alone("detach()")
        if self.kept:
            msg = f"Lock {self.name!r} is kept until its transaction ends; take it with scope='block' to detach it"
            raise LockError(msg)
        if may_be_buried(self._lease.request.who):
            msg = f"Lock {self.name!r} is to be released when its process ends (crash_release): it cannot be given away"
            raise LockError(msg)
        if self.is_lost:
            raise self._lost()

    async def _move_out(self, driver: Driver, transit: Request) -> Adopted:
        """Give this hold to `transit`, and let its replicas know. Raises LockLost if it was too late."""
        held = self._lease
        moved = await self._move(driver, held.token, transit)
        if moved is None:
            held.lost = True
        if moved is None or held.is_over():
            raise self._lost()
        if transit.replicas:
            on_its_way = Lease(transit, held.deadline, held.fencing_token)
            if not await replication.extend(driver, on_its_way, transit.lease_ms):
                raise self._lost()
        return moved

    async def _move(self, driver: Driver, token: str, heir: Request) -> Adopted | None:
        """Give the hold of `token` to `heir`; None if there is none."""
        moved, _ = await self._persist(driver, lambda link: store.adopt(link, heir, token))
        return moved

    async def _move_back(self, driver: Driver, token: str) -> None:
        """Be this hold again, after a detachment of which nobody knows whether it happened."""
        held = self._lease
        with suppress(LockBackendError):
            await self._move(driver, token, held.request)
        # Should it be lost, whoever renews finds that out.
        held.ended = False
        self._tenure.renewer.add(held)

    @classmethod
    async def _adopt(
        cls,
        detached: Detached,
        backend: Backend,
        driver: Driver,
        renewer: Renewer,
        renew: bool | Unset,  # noqa: FBT001 - as given
        label: str | None,
        *,
        task: bool,
    ) -> Self:
        own = session(task=task)
        request = Request(
            backend.keys(*detached.names),
            new_token(own),
            detached.lease_ms,
            detached.mode,
            whoami(label, task=task),
            names=detached.names,
            template=detached.template,
            replicas=detached.replicas,
        )
        if request.replicas:
            renewer = backend.patient(driver)
        renews = get_settings().renew if renew is UNSET else renew
        sent = monotonic()
        lease = Lease(request, sent + request.lease_ms / 1000, 0)
        lease.untold.clear()  # until there is something to tell the end of
        hold = cls(backend, Tenure(lease, renewer))
        hold._tenure.begin(hold)
        try:
            adopted = await hold._move(driver, detached.token, request)
            if adopted is not None:
                lease.fencing_token = adopted.fencing_token
                lease.renewed_until(sent + adopted.left_ms / 1000)
                if request.replicas:
                    await hold._extend(driver, request.lease_ms)
                # One hold goes on: its time before, and on the way, counts.
                lease.since -= (detached.held_ms + adopted.at_ms - detached.at_ms) / 1000
                lease.renews_if(renews)
                renewer.add(lease)
                if not renews:
                    note_unconfirmed(lease.token)
                hold._tenure.begin(hold, own.held, backend)
                lease.untold.append(True)
                await tell_moved(driver, "adopted", lease)
        except BaseException:
            await hold._give_back(driver)
            raise
        if adopted is None:
            lease.ended = True
            msg = (
                f"Lock {hold.name!r} cannot be adopted: it was adopted already, or its lease ended"
            )
            raise LockLost(msg)
        return hold

    async def _give_back(self, driver: Driver) -> None:
        """Release what an adoption, of which nobody knows whether it happened, may have got."""
        with suppress(LockError):
            await driver.finish(self._release(driver, repeated=True))


def _asked_for(
    text: str,
    using: str | None,
    renew: bool | Unset,  # noqa: FBT001 - as given
    label: str | None,
) -> tuple[Detached, Backend]:
    """Return what is to be adopted, and where; raises as `Movable.adopt` says."""
    optional_text(label, "label")
    if renew is not UNSET:
        flag(renew, "renew")
    backend = backend_for(optional_text(using, "using"))
    return Detached.read(text), backend
