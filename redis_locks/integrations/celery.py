"""Celery tasks that are queued once; needs Celery.

@shared_task(base=UniqueTask, unique=unique_task("invoice:{invoice_id}"))
def send_invoice(invoice_id): ...
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from celery import signals
from celery.contrib.django.task import DjangoTask
from celery.utils import uuid
from celery.utils.time import maybe_make_aware

from redis_locks.decorators.queued_messages import AlreadyQueued, Message, QueuedRun, token_of
from redis_locks.decorators.unique_tasks import unique_task
from redis_locks.drivers.base import run_blocking
from redis_locks.exceptions import LockBackendError
from redis_locks.locks.lock import Side

logger = logging.getLogger("redis_locks")

HEADER = "redis_locks_queued"
"""The header of a message with the name of its lock: the worker's arguments may read differently.
"""

_CONTINUED = ("chain", "chord", "group_id", "link", "reply_to", "parent_id")
"""Options of a message for whose end somebody waits: were it dropped, they would wait for ever.

Celery gives `reply_to` to each part of a canvas, and `parent_id` to a callback. A plain `delay`
gives neither.
"""

_RUN = "redis_locks_run"
"""The attribute of a request that has begun: its `QueuedRun`.

A task that calls itself directly does so under its message's request.
"""


class UniqueTask(DjangoTask):  # type: ignore[misc]  # Celery has no types
    """The base of a Celery task that is queued once, as its option `unique` says.

    While a message is queued, `delay` and `apply_async` add no second one; so do beat and
    signatures. They return None, or the first one's result. Messages that others wait for are
    always queued: a `retry`, a part of a canvas, a callback, a task's replacement, a message with a
    `link`. A message that is revoked or expires makes room for the next.
    """

    abstract = True
    unique: ClassVar[unique_task | None] = None
    """How the messages are told apart; None: as an ordinary task's."""
    _name_of: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Find out how the messages are named. Raises if that does not fit the task's function."""
        super().__init_subclass__(**kwargs)
        if cls.unique is not None:
            if not isinstance(cls.unique, unique_task):
                raise TypeError(
                    f"unique must be a rule such as unique_task('invoice:{{invoice_id}}'), or "
                    f"None, not {cls.unique!r}"
                )
            if cls.unique.rule.queue_scope is not None:
                raise TypeError(
                    "unique_task(database=...) is for django.tasks: Celery's queue is in no "
                    "database. Queue the task with delay_on_commit()"
                )
            bound = not isinstance(inspect.getattr_static(cls, "run"), staticmethod)
            run = functools.partial(cls.run, None) if bound else cls.run
            cls._name_of = staticmethod(cls.unique.rule.naming(run))

    def apply_async(
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, **options: Any
    ) -> Any:
        """Queue the task, unless it is queued already; see `UniqueTask`.

        Raises:
            LockBackendError: Redis could not be asked; nothing was queued. A `retry` is queued all
                the same.
        """
        unique = self.unique
        if unique is None:
            return super().apply_async(args, kwargs, task_id=task_id, **options)
        name = self._name_of(tuple(args or ()), kwargs or {})
        task_id = task_id or uuid()
        message = self._message(unique, name, task_id)
        side = Side(unique.rule.using)
        again = self._runs(task_id)
        delay = self._delay(options)
        taken = self._taken(message, side, again=again)
        if taken is not None and not (again or any(options.get(each) for each in _CONTINUED)):
            return self._first(unique, taken)
        options["headers"] = {**(options.get("headers") or {}), HEADER: name}
        try:
            result = super().apply_async(args, kwargs, task_id=task_id, **options)
        except BaseException:
            run_blocking(message.withdraw(side))
            raise
        run = self.request.get(_RUN)
        if run is not None and run.message == message:
            run.leave()
        run_blocking(message.sent(side, delay))
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task; from a message, release its lock as it begins or ends."""
        unique, request = self.unique, self.request
        name = _name_in(request)
        direct = request.called_directly or hasattr(request, _RUN)
        if unique is None or name is None or direct:
            return super().__call__(*args, **kwargs)
        side = Side(unique.rule.using)
        run = QueuedRun(self._message(unique, name, request.id))
        setattr(request, _RUN, run)
        try:
            run_blocking(run.begin(side))
            return self.run(*args, **kwargs)
        finally:
            run_blocking(run.end(side))

    def _taken(self, message: Message, side: Side, *, again: bool) -> AlreadyQueued | None:
        """Take the lock for a message.

        `again`: for one that runs, which is queued again whatever Redis says.
        """
        try:
            return run_blocking(message.send(side, again=again))
        except LockBackendError as error:
            if not again:
                raise
            logger.warning("The unique task %r may be queued twice: %s", message.name, error)
            return None

    def _message(self, unique: unique_task, name: str, task_id: str) -> Message:
        label = f"task {self.name}, queued as {task_id}"
        return Message(unique.rule, name, token_of(task_id), label)

    def _runs(self, task_id: str) -> bool:
        """Whether this is the message that runs here, which is to be queued again."""
        request = self.request
        return bool(request.id == task_id and not request.called_directly)

    def _delay(self, options: Mapping[str, Any]) -> float:
        """Return the seconds until the message is due."""
        eta = options.get("eta")
        if isinstance(eta, datetime):
            eta = maybe_make_aware(eta, self.app.timezone)
            return float((eta - datetime.now(eta.tzinfo)).total_seconds())
        return float(options.get("countdown") or 0.0)

    def _first(self, unique: unique_task, taken: AlreadyQueued) -> Any:
        first = taken.label.rpartition(" queued as ")[2] if " queued as " in taken.label else ""
        return self.AsyncResult(first) if first and unique.on_duplicate == "first" else None


def _name_in(request: Any) -> str | None:
    """Return the name of the lock of the message that a task or a worker's request is of."""
    # An eager task has its headers in one piece.
    name = request.get(HEADER) or (request.get("headers") or {}).get(HEADER)
    return str(name) if name else None


def _make_room(*, sender: Any, request: Any, **_: object) -> None:
    """Release the lock of a message that was revoked or has expired."""
    if not isinstance(sender, UniqueTask) or sender.unique is None:
        return
    name = _name_in(request)
    if name is not None:
        message = Message(sender.unique.rule, name, token_of(request.id))
        run_blocking(message.withdraw(Side(sender.unique.rule.using)))


signals.task_revoked.connect(_make_room, dispatch_uid="redis_locks.integrations.celery")
