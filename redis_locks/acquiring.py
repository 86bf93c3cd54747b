"""How a lock is acquired: in a transaction, nested, in several partitions, or anew."""

from __future__ import annotations

import weakref
from typing import Any

from redis_locks import express, identity, lines, observing, plans, replication, spread, waiting
from redis_locks.attempts import Won
from redis_locks.backends import Backend
from redis_locks.beginning import Beginnable, take_back, tell_begun
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.drivers.base import run_blocking
from redis_locks.exceptions import LockError
from redis_locks.holds import Hold
from redis_locks.identity import task_unit
from redis_locks.kept import Taken
from redis_locks.keys import Group
from redis_locks.packed import kept
from redis_locks.plans import Plan, Terms
from redis_locks.reads import require_slot
from redis_locks.reentry import reenter
from redis_locks.scopes import Scope
from redis_locks.sides import Side
from redis_locks.store import Refused, Request


class Acquirable(Beginnable):
    """What a `Lock` describes, as far as acquiring it goes."""

    _names: tuple[str, ...]
    _mode: str
    _lease_ms: int | Unset
    _renew: bool | Unset
    _using: str | None
    _label: str | None
    _reads: tuple[bytes, ...]
    _scope: Scope
    _reentrant: bool
    _crash_release = False
    _terms: list[Terms]
    """Those on which it was asked for last, if it was. Shared by all locks with the same options."""
    _plan: Plan | None = None
    """How it was asked for last by somebody who held nothing."""
    _replicas: int | Unset = UNSET
    _template: str | None = None
    """What the names were made from; see `LockEvent.template`."""

    def __getstate__(self) -> dict[str, Any]:
        # A copy, or who unpickles it, may have other settings; and connections stay where they are.
        return {**vars(self), "_terms": [], "_plan": None}

    @property
    def mode(self) -> str:
        """How the lock is held: "exclusive", "shared" or "permit:CAPACITY"."""
        return self._shown_mode or self._mode

    def _acquire_blocking(self, wait: float | None) -> Hold | Refused:
        side = Side.blocking(self._using)
        transaction = self._scope.transaction()
        if transaction is None:
            return self._acquire_at_once(side, wait)
        taken = Taken(side.backend, frozenset(self._names), self._mode)
        if not self._reads and (kept := transaction.find(lambda its: its.covers(taken))):
            replication.require(kept._lease, side.backend.replicas(self._replicas))  # noqa: SLF001 - one package
            return kept
        outcome = self._acquire_at_once(side, wait)
        if isinstance(outcome, Hold):
            transaction.keep(outcome, taken)
        return outcome

    def _acquire_at_once(self, side: Side, wait: float | None) -> Hold | Refused:
        """Acquire in the shortest way, unless there is more to it."""
        plan, prompt, won = self._planned(side), side.backend.prompt, None
        hold: Hold | None = None
        if plan is not None and plan.in_short and prompt is not None:
            request, terms = self._request(side, plan), plan.terms

            def prepare() -> None:
                nonlocal hold
                hold = self._unbegun(side, request, side.renewer, renew=terms.renews)

            patience = terms.settings.deadlock_timeout
            won = express.acquire(prompt, request, wait, patience, prepare)
        if plan is None or won is None:
            return run_blocking(self._acquire(side, wait))
        if isinstance(won, Refused):
            return won
        # As `_holding`, without what is out of the ordinary.
        try:
            hold = hold or self._unbegun(side, request, side.renewer, renew=terms.renews)
            self._begin(side, hold, won)
            observer = observing.observer
            if observer is not None and observer.count(
                "acquired", plan.names, side.backend.description, won.waited
            ):
                run_blocking(tell_begun(side, hold, wait, won.waited))
        except BaseException:
            run_blocking(take_back(side.driver, request, hold))
            raise
        return hold

    async def _acquire_async(self, wait: float | None) -> Hold | Refused:
        self._scope.refuse_async()
        side = await Side.of_loop(self._using)
        plan, won = self._planned(side), None
        if plan is not None and plan.in_short and side.backend.prompt is not None:
            request = self._request(side, plan)
            driver: Any = side.driver  # that of one server
            patience = plan.terms.settings.deadlock_timeout
            won = await express.aacquire(driver, request, wait, patience)
        elif plan is not None and plan.terms.settings.local_batch and self._may_pass:
            # Who holds nothing, and wants one lock only: nothing else is to be looked at.
            return await self._acquire_planned(side, plan, wait, renew=plan.terms.renews)
        if plan is None or won is None:
            return await self._acquire(side, wait)
        if isinstance(won, Refused):
            return won
        return await self._holding(side, request, won, wait, renew=plan.terms.renews)

    def _planned(self, side: Side) -> Plan | None:
        """Return how to acquire; None if it holds some already."""
        held = side.session.held
        if (held or held.others) and held.has_any():
            return None
        plan, backend = self._plan, side.backend
        if (
            plan is None
            or plan.terms.settings is not get_settings()
            or plan.terms.backend() is not backend
        ):
            plan = self._plan = self._kept_plan(backend)
        return plan

    def _kept_plan(self, backend: Backend) -> Plan:
        """Return how to ask for its locks, as for those of other objects with these names and options."""
        names = self._names
        plan = plans.known(self._terms_for(backend), names)
        if plan is None:
            plan = self._plan_for(backend, *backend.groups(names))
            plans.keep(names, plan)
        return plan

    def _terms_for(self, backend: Backend) -> Terms:
        settings = get_settings()
        if self._terms:
            terms = self._terms[0]
            if terms.settings is settings and terms.backend() is backend:
                return terms
        replicas = settings.replicas if self._replicas is UNSET else self._replicas
        more = self._crash_release or settings.local_batch or replicas
        terms = Terms(
            settings,
            weakref.ref(backend),
            not more,
            settings.lease_ms if self._lease_ms is UNSET else self._lease_ms,
            settings.renew if self._renew is UNSET else self._renew,
            replicas,
        )
        self._terms[:] = [terms]
        return terms

    def _plan_for(self, backend: Backend, group: Group, *others: Group) -> Plan:
        """Return how to ask for the locks of `group`."""
        terms = self._terms_for(backend)
        names, keys = group
        packed = kept(keys)
        if packed is not None:
            keys = packed.keys  # the same tuple, as who uses it looks for
        return Plan(terms, terms.in_short and not others, names, keys, packed)

    async def _acquire(self, side: Side, wait: float | None) -> Hold | Refused:
        renew = self._renews
        groups = side.backend.groups(self._names)
        if len(groups) == 1:
            return await self._acquire_group(side, groups[0], wait, renew=renew)
        if self._reads:
            msg = (
                f"the locks {self._name} are in several partitions and read= reaches only one: "
                "read when they are held"
            )
            raise ValueError(msg)

        async def take(group: Group, left: float | None) -> Hold | Refused:
            return await self._acquire_group(side, group, left, renew=True)

        return await spread.acquire(side.driver, take, groups, wait, renew=renew)

    async def _acquire_group(
        self, side: Side, group: Group, wait: float | None, *, renew: bool
    ) -> Hold | Refused:
        if self._reads and side.backend.in_cluster:
            require_slot(self._reads, group[1])
        if side.session.held:
            taken = Taken(side.backend, frozenset(group[0]), self._mode)
            nested = await reenter(
                taken, side.session, side.driver, wait, self._reads, reentrant=self._reentrant
            )
            if isinstance(nested, Hold):
                await self._require_replicas(side, nested)
            if nested is not None:
                return nested
        if not self._crash_release:
            return await self._acquire_new(side, group, wait, renew=renew)
        replicas = side.backend.replicas(self._replicas)
        renewer = side.backend.patient(side.driver) if replicas else side.renewer
        with renewer.listening():
            return await self._acquire_new(side, group, wait, renew=renew)

    async def _require_replicas(self, side: Side, nested: Hold) -> None:
        """Release a nested hold and raise LockError if it asks for more replicas than the outer one has."""
        try:
            replication.require(nested._lease, side.backend.replicas(self._replicas))  # noqa: SLF001 - one package
        except LockError:
            await nested._release_surely(side.driver)  # noqa: SLF001
            raise

    async def _acquire_new(
        self, side: Side, group: Group, wait: float | None, *, renew: bool
    ) -> Hold | Refused:
        plan = self._plan_for(side.backend, group)
        return await self._acquire_planned(side, plan, wait, renew=renew)

    async def _acquire_planned(
        self, side: Side, plan: Plan, wait: float | None, *, renew: bool
    ) -> Hold | Refused:
        request = self._request(side, plan)
        settings = plan.terms.settings
        patience, most = settings.deadlock_timeout, settings.local_batch
        line = before = None
        won: Won | Refused
        if most and wait != 0 and not request.replicas and self._may_pass:
            won, line, before = await lines.acquire(
                side.driver, request, wait, patience, renew, most
            )
        else:
            asked = request
            if request.replicas:
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

    def _request(self, side: Side, plan: Plan) -> Request:
        terms, session, label = plan.terms, side.session, self._label
        thread = session.thread.name
        asker = terms.asker
        if (
            asker is not None
            and asker[0] is session.name
            and asker[1] is thread
            and asker[2] is label
            and not side.task
        ):
            who = asker[3]
        else:
            ear = side.backend.own_channel if self._crash_release else None
            unit = task_unit() if side.task else f"thread {thread}"
            who = identity.written(identity.process.pid, unit, label, ear)
            if not side.task:
                terms.asker = session.name, thread, label, who
        # Chosen before the first byte is sent, so that it can be taken back; as `new_token`.
        token = f"{session.name}.{next(session.counter)}"
        # As its constructor makes it; see `_unbegun`.
        request: Request = object.__new__(Request)
        request.keys = plan.keys
        request.token = token
        request.lease_ms = terms.lease_ms
        request.mode = self._mode
        request.who = who
        request.reads = self._reads
        request.names = plan.names
        request.template = self._template
        request.replicas = terms.replicas
        request.packed = plan.packed
        return request
