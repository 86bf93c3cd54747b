"""`unique_task`: a task that is not queued again while it is queued already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

from redis_locks.decorators.calls import check_name
from redis_locks.decorators.queued_messages import Rule, Until
from redis_locks.decorators.task_queues import DjangoTaskT, is_django_task
from redis_locks.locks.scope import Scope
from redis_locks.values.arguments import one_of, optional_text
from redis_locks.values.durations import lease_ms

OnDuplicate = Literal["skip", "first"]


class unique_task:  # noqa: N801 - used as a decorator, so it reads like a function
    """A task that is queued once.

    While one message is queued, `enqueue` and `delay` add no second one.

    For ``django.tasks``, or its backport, it stands above ``@task``. For Celery it is an option of
    a task whose base is `redis_locks.integrations.celery.UniqueTask`. Immutable; safe at import
    time.

    It drops messages, and does not keep two tasks from running at once: a message may be delivered
    twice. Where that matters, put `redis_lock` below the task decorator, too.

    Args:
        name: As for `redis_lock`: a template over the task's parameters, such as
            ``"invoice:{invoice_id}"``; a callable that gets the call's arguments; or None for the
            function's own name, whatever the arguments.
        until: "start": the next message may be queued as soon as the task begins, and so sees what
            changes while it runs. "end": not before the task has ended, its retries included. If
            the message is delivered twice, not before the last of its runs has ended.
        lease: Seconds after which a message counts as lost. They count from when the task is due,
            and anew from when it begins. While it runs they are renewed.
        cooldown: Seconds for which no message is queued after the task has begun, or with
            until="end" has ended. 0: none.
        on_duplicate: What `enqueue` and `delay` return instead of a second message. "skip": None.
            "first": the result of the first message; for Celery only.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path.
        database: For ``django.tasks``: the alias of the database that the queue is in. If a
            transaction there is rolled back, the message is gone, and the task may be queued again
            at once. None: the queue is in no database, or a rolled-back message may keep the next
            one out until its lease ends.

    Raises:
        TypeError: An argument, or what is decorated, has the wrong type.
        ValueError: An argument is out of range, or the template is wrong.
    """

    def __init__(
        self,
        name: str | Callable[..., str] | None = None,
        *,
        until: Until = "start",
        lease: float = 3600.0,
        cooldown: float = 0.0,
        on_duplicate: OnDuplicate = "skip",
        using: str | None = None,
        database: str | None = None,
    ) -> None:
        check_name(name, "unique_task")
        one_of("start", "end")(until, "until")
        one_of("skip", "first")(on_duplicate, "on_duplicate")
        optional_text(using, "using")
        scope = None if database is None else Scope("auto", database, commit_guard=False)
        cooldown_ms = lease_ms(cooldown, argument="cooldown") if cooldown != 0 else 0
        self.rule = Rule(name, until, lease_ms(lease), using, scope, cooldown_ms)
        self.on_duplicate = on_duplicate

    def __set_name__(self, owner: type, name: str) -> None:
        """Raise TypeError in a Celery task whose base is not `UniqueTask`.

        It would queue each message.
        """
        known = any(name in vars(base) for base in owner.__mro__[1:])
        if name == "unique" and hasattr(owner, "apply_async") and not known:
            msg = (
                f"the task {owner.__name__} has unique={self!r}, which its base does not know: add "
                "base=UniqueTask, from redis_locks.integrations.celery"
            )
            raise TypeError(msg)

    def __call__(self, task: DjangoTaskT) -> DjangoTaskT:
        """The same task of ``django.tasks``, queued once.

        Raises:
            TypeError: It is no such task, or `on_duplicate` is "first".
        """
        if not is_django_task(task):
            msg = (
                f"unique_task cannot decorate {task!r}: it stands above @task of django.tasks. For "
                "Celery, write @shared_task(base=UniqueTask, unique=unique_task(...)), with "
                "UniqueTask from redis_locks.integrations.celery"
            )
            raise TypeError(msg)
        if self.on_duplicate == "first":
            msg = (
                "on_duplicate must be 'skip' for django.tasks, which names a result once it is "
                "queued"
            )
            raise TypeError(msg)
        # Not above: Django 5.2 has no tasks.
        from redis_locks.decorators.django_tasks import queued_once

        return cast("DjangoTaskT", queued_once(task, self.rule))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule.name!r})"
