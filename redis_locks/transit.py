"""Give a hold away as text, to another thread, process or task queue worker."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import Any, Final, Self

from django.core import signing

from redis_locks import store
from redis_locks.backends import Backend, backend_for
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.durations import lease_ms
from redis_locks.exceptions import LockError, LockLost
from redis_locks.identity import new_token, note_unconfirmed, session, whoami
from redis_locks.leases import Lease
from redis_locks.releasing import Releasable
from redis_locks.renewal import Renewer
from redis_locks.store import Request, may_be_buried
from redis_locks.tenure import Tenure

SALT: Final = "redis_locks.detached hold"

CLOCKS_DIFFER: Final = 60.0
"""Seconds by which the clocks of two machines may differ; whether the lease has ended, Redis knows."""


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
            LockBackendError: Redis could not be asked; it is still this hold.
            TypeError: `lease` is not a number.
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
            TypeError: `text` is not a string.
        """
        backend = backend_for(using)
        detached = _read(text)
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
        backend = backend_for(using)
        detached = _read(text)
        driver, renewer = await backend.of_loop()
        return await cls._adopt(detached, backend, driver, renewer, renew, label, task=True)

    async def _detach(self, driver: Driver, lease: float | Unset) -> str:
        self._require_held()
        self._require_alone("detach()")
        if self.kept:
            msg = f"Lock {self.name!r} is kept until its transaction ends; take it with scope='block' to detach it"
            raise LockError(msg)
        held = self._lease
        if may_be_buried(held.request.who):
            msg = f"Lock {self.name!r} is to be released when its process ends (crash_release): it cannot be given away"
            raise LockError(msg)
        milliseconds = held.lease_ms if lease is UNSET else lease_ms(lease)
        await self._extend(driver, milliseconds)
        # Whatever happens from here on is not this hold's business any more.
        self._released = held.ended = True
        held.leave_line()
        self._tenure.leave(self)
        self._tenure.renewer.discard(held)
        note_unconfirmed(
            held.token
        )  # nobody who waits is to be told that this thread is in the way
        detached = {
            "names": held.request.names,
            "token": held.token,
            "mode": self.mode,
            "lease": held.lease_ms,
            "transit": milliseconds,
            "template": held.request.template,
            "replicas": held.request.replicas,
        }
        return signing.dumps(detached, salt=SALT)

    @classmethod
    async def _adopt(
        cls,
        detached: dict[str, Any],
        backend: Backend,
        driver: Driver,
        renewer: Renewer,
        renew: bool | Unset,  # noqa: FBT001 - as given
        label: str | None,
        *,
        task: bool,
    ) -> Self:
        own = session(task=task)
        names = tuple(detached["names"])
        request = Request(
            backend.keys(*names),
            new_token(own),
            detached["lease"],
            detached["mode"],
            whoami(label, task=task),
            names=names,
            template=detached["template"],
            replicas=detached.get("replicas", 0),
        )
        if request.replicas:
            renewer = backend.patient(driver)
        renews = get_settings().renew if renew is UNSET else renew
        sent = monotonic()
        lease = Lease(request, sent + request.lease_ms / 1000, 0)
        hold = cls(backend, Tenure(lease, renewer))
        hold._tenure.begin(hold)
        try:
            adopted, _ = await hold._persist(
                driver, lambda link: store.adopt(link, request, detached["token"])
            )
            if adopted is not None and request.replicas:
                await hold._extend(driver, request.lease_ms)
        except BaseException:
            await hold._give_back(driver)
            raise
        if adopted is None:
            lease.ended = True
            msg = (
                f"Lock {hold.name!r} cannot be adopted: it was adopted already, or its lease ended"
            )
            raise LockLost(msg)
        lease.fencing_token = adopted.fencing_token
        lease.renewed_until(sent + adopted.left_ms / 1000)
        lease.renews_if(renews)
        renewer.add(lease)
        if not renews:
            note_unconfirmed(lease.token)
        hold._tenure.note(own.held, backend)
        return hold

    async def _give_back(self, driver: Driver) -> None:
        """Release what an adoption, of which nobody knows whether it happened, may have got."""
        with suppress(LockError):
            await driver.finish(self._release(driver, repeated=True))


def _read(text: str) -> dict[str, Any]:
    """Return what `detach` wrote; raises TypeError, ValueError or LockLost."""
    if not isinstance(text, str):
        msg = f"text must be what Hold.detach() returned, not {text!r}"
        raise TypeError(msg)
    try:
        detached: dict[str, Any] = signing.loads(text, salt=SALT)
        within = detached["transit"] / 1000
        signing.loads(text, salt=SALT, max_age=within + CLOCKS_DIFFER)
    except signing.SignatureExpired:
        msg = f"Lock {', '.join(detached['names'])!r} was not adopted within its lease of {within:g} s"
        raise LockLost(msg) from None
    except signing.BadSignature:
        msg = (
            "text is not what Hold.detach() returned, or it was signed with another SECRET_KEY "
            "(SECRET_KEY_FALLBACKS are tried as well)"
        )
        raise ValueError(msg) from None
    return detached
