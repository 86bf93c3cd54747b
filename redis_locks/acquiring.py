"""How a lock is acquired: in a transaction, nested, in several partitions, or anew."""

from __future__ import annotations

from contextlib import nullcontext

from redis_locks import lines, observing, replication, spread, waiting
from redis_locks.attempts import Won
from redis_locks.backends import Backend, backend_for
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.drivers.base import Driver, run_blocking
from redis_locks.exceptions import LockError
from redis_locks.holds import Hold
from redis_locks.identity import new_token, note_unconfirmed, session, whoami
from redis_locks.kept import Taken
from redis_locks.keys import Group
from redis_locks.leases import Lease, tell_acquired
from redis_locks.lines import Line
from redis_locks.reads import checked
from redis_locks.reentry import reenter
from redis_locks.renewal.base import Renewer
from redis_locks.scopes import Scope
from redis_locks.sides import Side
from redis_locks.store import Refused, Request
from redis_locks.tenure import Tenure


class Acquirable:
    """What a `Lock` describes, as far as acquiring it goes."""

    _names: tuple[str, ...]
    _name: str
    _mode: str
    _lease_ms: int | Unset
    _renew: bool | Unset
    _using: str | None
    _label: str | None
    _reads: tuple[bytes, ...]
    _scope: Scope
    _reentrant: bool
    _crash_release = False
    _replicas: int | Unset = UNSET
    _template: str | None = None
    """What the names were made from; see `LockEvent.template`."""
    _hold_type: type[Hold] = Hold

    @property
    def mode(self) -> str:
        """How the lock is held: "exclusive", "shared" or "permit:CAPACITY"."""
        return self._mode

    def _acquire_blocking(self, wait: float | None) -> Hold | Refused:
        backend = backend_for(self._using)
        transaction = self._scope.transaction()

        def acquire() -> Hold | Refused:
            return run_blocking(
                self._acquire(backend, backend.driver, backend.renewer, wait, task=False)
            )

        if transaction is None:
            return acquire()
        taken = Taken(backend, frozenset(self._names), self._mode)
        if not self._reads and (kept := transaction.find(lambda its: its.covers(taken))):
            replication.require(kept._lease, backend.replicas(self._replicas))  # noqa: SLF001 - one package
            return kept
        outcome = acquire()
        if isinstance(outcome, Hold):
            transaction.keep(outcome, taken)
        return outcome

    async def _acquire_async(self, wait: float | None) -> Hold | Refused:
        self._scope.refuse_async()
        backend = backend_for(self._using)
        driver, renewer = await backend.of_loop()
        return await self._acquire(backend, driver, renewer, wait, task=True)

    async def _acquire(
        self, backend: Backend, driver: Driver, renewer: Renewer, wait: float | None, *, task: bool
    ) -> Hold | Refused:
        renew = self._renews
        groups = backend.groups(self._names)
        if backend.replicas(self._replicas):
            renewer = backend.patient(driver)
        with renewer.listening() if self._crash_release else nullcontext():
            if len(groups) > 1:
                return await self._acquire_spread(
                    backend, driver, renewer, groups, wait, renew=renew, task=task
                )
            return await self._acquire_group(
                backend, driver, renewer, groups[0], wait, renew=renew, task=task
            )

    async def _acquire_spread(
        self,
        backend: Backend,
        driver: Driver,
        renewer: Renewer,
        groups: list[Group],
        wait: float | None,
        *,
        renew: bool,
        task: bool,
    ) -> Hold | Refused:
        if self._reads:
            msg = (
                f"the locks {self._name} are in several partitions and read= reaches only one: "
                "read when they are held"
            )
            raise ValueError(msg)

        async def take(group: Group, left: float | None) -> Hold | Refused:
            return await self._acquire_group(
                backend, driver, renewer, group, left, renew=True, task=task
            )

        return await spread.acquire(driver, take, groups, wait, renew=renew)

    async def _acquire_group(
        self,
        backend: Backend,
        driver: Driver,
        renewer: Renewer,
        group: Group,
        wait: float | None,
        *,
        renew: bool,
        task: bool,
    ) -> Hold | Refused:
        names, _ = group
        own = session(task=task)
        if own.held:
            taken = Taken(backend, frozenset(names), self._mode)
            nested = await reenter(taken, own, driver, wait, self._reads, reentrant=self._reentrant)
            if isinstance(nested, Hold):
                await self._require_replicas(backend, driver, nested)
            if nested is not None:
                return nested
        side = Side(backend, driver, renewer, task)
        return await self._acquire_new(side, group, wait, renew=renew)

    async def _require_replicas(self, backend: Backend, driver: Driver, nested: Hold) -> None:
        """Release a nested hold and raise LockError if it asks for more replicas than the outer one has."""
        try:
            replication.require(nested._lease, backend.replicas(self._replicas))  # noqa: SLF001 - one package
        except LockError:
            await nested._release_surely(driver)  # noqa: SLF001
            raise

    async def _acquire_new(
        self, side: Side, group: Group, wait: float | None, *, renew: bool
    ) -> Hold | Refused:
        request = self._request(side, group)
        settings = get_settings()
        patience, most = settings.deadlock_timeout, settings.local_batch
        line = before = None
        won: Won | Refused
        if most and wait != 0 and not request.replicas and self._may_pass:
            won, line, before = await lines.acquire(
                side.driver, request, wait, patience, renew, most
            )
        else:
            asked = replication.with_confirmation(side.driver, request)
            won = await waiting.acquire(side.driver, asked, wait, patience)
        if isinstance(won, Refused):
            return won
        return await self._holding(side, request, won, wait, line, before, renew=renew)

    @property
    def _may_pass(self) -> bool:
        """Whether a hold of it may pass to another thread or task of this process."""
        return (
            self._mode == "exclusive"
            and len(self._names) == 1
            and not self._reads
            and not self._crash_release
        )

    @property
    def _renews(self) -> bool:
        return get_settings().renew if self._renew is UNSET else self._renew

    def _request(self, side: Side, group: Group) -> Request:
        names, keys = group
        lease = get_settings().lease_ms if self._lease_ms is UNSET else self._lease_ms
        # The token is chosen before the first byte is sent, so that it can be taken back.
        return Request(
            keys,
            new_token(session(task=side.task)),
            lease,
            self._mode,
            whoami(
                self._label,
                task=side.task,
                ear=side.backend.own_channel if self._crash_release else None,
            ),
            self._reads,
            names,
            self._template,
            side.backend.replicas(self._replicas),
        )

    async def _holding(
        self,
        side: Side,
        request: Request,
        won: Won,
        wait: float | None,
        line: Line | None = None,
        before: Lease | None = None,
        *,
        renew: bool,
    ) -> Hold:
        """Return the hold of what was won; interrupted, it takes that back."""
        backend, driver, renewer, task = side
        held: Lease | None = None
        try:
            held = Lease(request, won.deadline, won.fencing_token, name=self._name, mode=self.mode)
            read = won.read
            if request.replicas:
                renewer = backend.patient(driver)
                read = await replication.confirm(driver, held, read)
            read = checked(read)
            held.renews_if(renew)
            held.line = line
            if before is not None:
                held.takes_over(before.token)
            renewer.add(held)
            if not renew and before is None:
                note_unconfirmed(held.token)  # it ends by itself: no dead end for whoever waits
            if observing.counted("acquired", request, driver, won.waited):
                await tell_acquired(driver, held, wait=wait, waited=won.waited)
            tenure = Tenure(held, renewer)
            hold = self._hold_type(backend, tenure, read=read)
            tenure.begin(hold)
            tenure.note(session(task=task).held, backend)
        except BaseException:
            if line is not None:
                line.end(request.token)
            if held is not None:
                held.ended = True
                renewer.discard(held)
            await _take_back(driver, request, before)
            raise
        return hold


async def _take_back(driver: Driver, request: Request, before: Lease | None) -> None:
    """Give up what was won, or had passed to us from `before`."""
    try:
        if before is not None:
            # First: Redis may be learning this moment that the hold is ours.
            await waiting.take_back(driver, request._replace(token=before.token))
    finally:
        await waiting.take_back(driver, request)
