"""Locked tasks in real Celery worker processes: retried, killed and delivered again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from redis_locks import Lock, inspection
from redis_locks.inspection import HolderInfo
from redis_locks.testing import assert_locked
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import until
from tests.tasks import celery_app

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 40

pytestmark = [pytest.mark.slow, pytest.mark.ci]

Start = Callable[..., "subprocess.Popen[bytes]"]


class Talk:
    """What the tasks of one test say, and what they are told."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client = client
        self._name = name

    def hear(self) -> dict[str, Any]:
        """The next thing that a task says."""
        answer: Any = self.client.blpop([celery_app.said(self._name)], PATIENCE)
        assert answer, "no task said anything in time"
        heard: dict[str, Any] = json.loads(answer[1])
        return heard

    def go_on(self) -> None:
        """Let the task that waits for it end."""
        self.client.rpush(celery_app.told(self._name), "go on")

    def is_waiting(self, task_id: str) -> bool:
        """Whether a worker has taken a task's message and not acknowledged it."""
        return task_id.encode() in b"".join(self.client.hvals("unacked"))


@pytest.fixture
def talk(redis_server: EmbeddedServer, name: str) -> Iterator[Talk]:
    with redis_server.client(socket_timeout=None) as client:
        yield Talk(client, name)


@pytest.fixture
def start_worker(redis_server: EmbeddedServer, name: str) -> Iterator[Start]:
    """Starts workers, each the leader of a process group of its own, on this test's queue."""
    celery_app.configure(redis_server.url)
    workers: list[subprocess.Popen[bytes]] = []

    def start(*options: str, visibility_timeout: float = 3600) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "-A", "tests.tasks.celery_app", "worker"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "error"]
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "REDIS_LOCKS_TEST_URL": redis_server.url,
            "VISIBILITY_TIMEOUT": str(visibility_timeout),
        }
        workers.append(
            subprocess.Popen(
                [*command, *quiet, "-Q", name, *options],
                cwd=ROOT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        )
        return workers[-1]

    yield start
    for worker in workers:
        kill(worker)


def kill(worker: subprocess.Popen[bytes]) -> None:
    """As ``kill -9`` does, the worker's own children too."""
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def the_holder(name: str) -> HolderInfo:
    info = inspection.lock(name)
    (holder,) = info.holders
    return holder


@pytest.mark.ci
def test_a_task_killed_while_it_holds_runs_again_once_the_lock_is_free(
    name: str, talk: Talk, start_worker: Start
) -> None:
    worker = start_worker("--pool=prefork", "--concurrency=1")
    celery_app.hold_until_told.apply_async((name,), queue=name)
    first = talk.hear()
    held = the_holder(name)
    assert held.pid == first["pid"] != worker.pid

    os.kill(first["pid"], signal.SIGKILL)

    # reject_on_worker_lost: the worker survives its child and has the task delivered again.
    again = talk.hear()
    assert again["started"] == first["started"]
    assert again["pid"] not in {first["pid"], worker.pid}
    holds = the_holder(name)
    assert holds.pid == again["pid"]
    assert holds.fencing_token > held.fencing_token
    talk.go_on()
    assert talk.hear()["ended"] == first["started"]
    until(lambda: inspection.lock(name) is None)


def test_a_task_that_meets_a_held_lock_is_queued_again_and_runs_when_it_is_free(
    name: str, talk: Talk, start_worker: Start
) -> None:
    with Lock(name):
        start_worker("--pool=solo")
        sent = celery_app.retry_until_free.apply_async((name,), queue=name)
        # Between its tries the worker is free: another task runs although the first is not done.
        other = f"{name}:other"
        celery_app.retry_until_free.apply_async((other,), queue=name)
        assert Talk(talk.client, other).hear()["retries"] == 0
        assert_locked(name)
        until(lambda: talk.is_waiting(sent.id))
    assert talk.hear()["retries"] >= 1
    until(lambda: inspection.lock(name) is None)


def test_calls_of_a_job_that_is_under_way_come_back_for_its_result(
    name: str, talk: Talk, start_worker: Start
) -> None:
    start_worker("--pool=threads", "--concurrency=3")
    then = celery_app.say_result.s(name).set(queue=name)
    for _ in range(3):
        # Were one of them to fail, it would say nothing.
        celery_app.report_once.apply_async((name,), queue=name, link=then)
    assert {"started"} == talk.hear().keys() - {"pid"}
    until(lambda: all_requeued(talk, name))
    talk.go_on()
    assert ["the report"] * 3 == [talk.hear()["result"] for _ in range(3)]


def all_requeued(talk: Talk, name: str) -> bool:
    """Whether the two that do not do the job wait for their countdown."""
    waiting = [json.loads(each)[0] for each in talk.client.hvals("unacked")]
    ours = [each["headers"] for each in waiting if name in each["headers"]["argsrepr"]]
    return 2 == sum(each["eta"] is not None and each["retries"] == 0 for each in ours)


def test_a_unique_task_may_be_queued_again_as_soon_as_it_starts(
    name: str, talk: Talk, start_worker: Start
) -> None:
    send = celery_app.once_until_start
    assert send.apply_async((name,), queue=name)
    assert send.apply_async((name,), queue=name) is None
    start_worker("--pool=solo")
    assert talk.hear()["started"]
    assert send.apply_async((name,), queue=name)
    assert send.apply_async((name,), queue=name) is None
    talk.go_on()
    talk.go_on()
    assert [{"ended"}, {"started"}, {"ended"}] == [talk.hear().keys() - {"pid"} for _ in range(3)]


def test_a_unique_task_that_expired_in_the_queue_makes_room(
    name: str, talk: Talk, start_worker: Start
) -> None:
    send = celery_app.once_until_start
    assert send.apply_async((name,), queue=name, expires=0.01)
    start_worker("--pool=solo")
    until(lambda: inspection.lock(f"queued:{name}") is None)
    assert send.apply_async((name,), queue=name)
    assert talk.hear()["started"]
    talk.go_on()


@pytest.mark.ci
def test_a_unique_task_of_a_killed_worker_is_unique_until_it_has_run(
    name: str, talk: Talk, start_worker: Start
) -> None:
    send = celery_app.once_until_end
    worker = start_worker("--pool=solo", visibility_timeout=1)
    assert send.apply_async((name,), queue=name)
    talk.hear()
    kill(worker)
    start_worker("--pool=solo", visibility_timeout=1)
    assert 0 == talk.hear()["started"]
    assert send.apply_async((name,), queue=name) is None
    talk.go_on()
    assert 1 == talk.hear()["started"]
    talk.go_on()
    assert talk.hear()["ended"]
    until(lambda: inspection.lock(f"queued:{name}") is None)
