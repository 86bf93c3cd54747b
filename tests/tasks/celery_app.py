"""The tests' Celery app; ``celery -A tests.tasks.celery_app worker`` runs it in its own process."""

from __future__ import annotations

import json
import os

import redis
from celery import Celery, Task, shared_task
from django.conf import settings

from redis_locks import Hold, LockLost, redis_lock, run_once, unique_task
from redis_locks.integrations.celery import UniqueTask

app = Celery("tests")


def _queue_of(name: str, *_: object, **__: object) -> dict[str, str] | None:
    """Send a task that a test made to the queue of that test."""
    return {"queue": name.removeprefix("tests.")} if name.startswith("tests.test:") else None


app.conf.task_routes = (_queue_of,)


def configure(url: str) -> None:
    """Make the server at ``url`` the broker."""
    app.conf.update(
        broker_url=url.replace("unix://", "redis+socket://"),
        # A worker whose test has died must not look for its broker for ever.
        broker_connection_retry=False,
        broker_connection_retry_on_startup=False,
        broker_transport_options={
            "visibility_timeout": float(os.environ.get("VISIBILITY_TIMEOUT", "3600")),
            "unacked_restore_interval": 0.2,
            "unacked_restore_throttle": 1,
            # A worker that a test kills while it looks for messages to restore keeps the others
            # from it for 5 minutes.
            "unacked_mutex_expire": 1,
        },
        worker_prefetch_multiplier=1,
    )


configure(settings.REDIS_URL)


def said(name: str) -> str:
    """The Redis list in which the tasks of one test say what happens."""
    return f"{name}:said"


def told(name: str) -> str:
    """The Redis list in which the tasks of one test are told to go on."""
    return f"{name}:told"


def _say(name: str, **words: object) -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.rpush(said(name), json.dumps({"pid": os.getpid(), **words}))


def _until_told(name: str) -> None:
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=None) as client:
        client.blpop([told(name)], 40)


@shared_task(bind=True, acks_late=True, reject_on_worker_lost=True)
@redis_lock("{name}", wait=20, lease=2)
def hold_until_told(self: Task, name: str) -> None:
    """Hold the lock until told to go on."""
    _say(name, started=self.request.id)
    _until_told(name)
    _say(name, ended=self.request.id)


@shared_task
def adopt(name: str, text: str) -> None:
    """Go on with a hold that was given away, until told to end."""
    try:
        with Hold.adopt(text, label="the task") as hold:
            _say(name, adopted=hold.fencing_token)
            _until_told(name)
    except LockLost as error:
        _say(name, lost=str(error))
    else:
        _say(name, released=hold.fencing_token)


@shared_task(bind=True, max_retries=None)
@redis_lock("{name}", wait=0, on_conflict="retry")
def retry_until_free(self: Task, name: str) -> None:
    """Come back until the lock is free."""
    _say(name, retries=self.request.retries)


@shared_task(max_retries=0)
@run_once("{name}", store_result=True, lease=2)
def report_once(name: str) -> str:
    """Do the job once told to."""
    _say(name, started=True)
    _until_told(name)
    return "the report"


@shared_task
def say_result(result: object, name: str) -> None:
    """Say what a task returned."""
    _say(name, result=result)


@shared_task(base=UniqueTask, unique=unique_task("{name}"))
def once_until_start(name: str) -> None:
    """Run until told to end; the next message may be queued meanwhile."""
    _say(name, started=True)
    _until_told(name)
    _say(name, ended=True)


@shared_task(
    base=UniqueTask,
    unique=unique_task("{name}", until="end", lease=60),
    bind=True,
    acks_late=True,
    max_retries=1,
)
def once_until_end(self: Task, name: str) -> None:
    """Run until told to end, fail, and run once more."""
    _say(name, started=self.request.retries)
    _until_told(name)
    if not self.request.retries:
        raise self.retry(countdown=0.2)
    _say(name, ended=True)
