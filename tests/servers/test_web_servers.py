"""Real web servers with two worker processes: prefork, threads, asyncio and greenlets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from redis_locks import Lock, inspection
from tests.servers.serving import GUNICORN, PATIENCE, UVICORN, Serving
from tests.support import stored
from tests.support.world import Observer, keys_of, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

THREADS = ("--worker-class", "gthread", "--threads", "3")
GEVENT = ("--worker-class", "gevent")

long = pytest.mark.long

# The command, the path of the view, and how many requests are worked on at once.
KINDS = [
    pytest.param((*GUNICORN, *THREADS, "--preload"), "/add", 3, id="gthread, preloaded"),
    pytest.param(UVICORN, "/async", 8, id="uvicorn", marks=long),
    pytest.param(GUNICORN, "/add", 2, id="sync", marks=long),
    pytest.param((*GUNICORN, "--preload"), "/add", 2, id="sync, preloaded", marks=long),
    pytest.param((*GUNICORN, *THREADS), "/add", 3, id="gthread", marks=long),
    pytest.param((*GUNICORN, *GEVENT), "/add", 8, id="gevent", marks=long),
    pytest.param(UVICORN, "/add", 2, id="uvicorn, sync view", marks=long),
]


def serving(command: Any, folder: Path, name: str, **environment: str) -> Serving:
    return Serving(command, folder, SITE_LOCK=name, **environment)


@pytest.mark.parametrize(("command", "path", "at_once"), KINDS)
def test_no_update_is_lost_and_a_graceful_stop_leaves_nothing_held(
    client: redis.Redis,
    name: str,
    tmp_path: Path,
    command: tuple[str, ...],
    path: str,
    at_once: int,
) -> None:
    server_side, lock = Observer(client), Lock(name, renew=True)
    with serving(command, tmp_path, name) as site:
        # All at once, as they would not be if one worker were ready before the other.
        with lock:
            answers = site.send(path, 24)
            until(lambda: server_side.waiters(name) >= at_once)
            waiting = inspection.lock(name)
        for answer in answers:
            answer.result(PATIENCE)
        assert 24 == site.total()
        assert site.process.pid not in {waiter.pid for waiter in waiting.waiters}
        with lock:
            answers = site.send(path, 2)
            until(lambda: server_side.waiters(name) == 2)
            site.ask_to_stop()
            assert 24 == site.total()
        # Those that had begun to wait get the lock, write, and answer, before their process ends.
        for answer in answers:
            answer.result(PATIENCE)
        assert 0 == site.ended(), site.log()
        assert 26 == site.total()
        assert set() == server_side.left_of(name)


@long
@pytest.mark.parametrize("worker", ["sync", "gthread"])
def test_a_hold_of_the_process_that_forks_stays_its_own(
    client: redis.Redis, name: str, tmp_path: Path, worker: str
) -> None:
    command = (*GUNICORN, "--worker-class", worker, "--preload")
    keys = keys_of(f"{name}:kept")
    with serving(command, tmp_path, name, SITE_KEEPS="1") as site:
        assert {"True"} == {answer.result(PATIENCE) for answer in site.send("/lost", 8)}
        # It is renewed still, by the process that has it.
        for _ in range(3):
            ends = stored.lease_ends_ms(client, keys.lock)
            until(lambda ends=ends: stored.lease_ends_ms(client, keys.lock) > ends)
        info = inspection.lock(f"{name}:kept")
        assert site.process.pid == info.holders[0].pid


@long
@pytest.mark.parametrize(
    ("command", "path", "at_once"),
    [
        pytest.param((*GUNICORN, "--graceful-timeout", "1"), "/add", 2, id="sync"),
        pytest.param((*UVICORN, "--timeout-graceful-shutdown", "1"), "/async", 4, id="uvicorn"),
    ],
)
def test_waits_cut_off_by_the_end_of_the_time_to_stop_block_nobody(
    client: redis.Redis,
    name: str,
    tmp_path: Path,
    command: tuple[str, ...],
    path: str,
    at_once: int,
) -> None:
    server_side = Observer(client)
    with serving(command, tmp_path, name) as site:
        with Lock(name):
            answers = site.send(path, at_once)
            server_side.until_waiters(name, at_once)
            site.ask_to_stop()
            site.ended()
            assert all(answer.exception(PATIENCE) for answer in answers)
        with Lock(name, wait=0):
            assert 0 == server_side.waiters(name)
        assert 0 == site.total()
        assert set() == server_side.left_of(name)


@long
def test_a_client_that_goes_away_takes_its_async_view_out_of_the_queue(
    client: redis.Redis, name: str, tmp_path: Path
) -> None:
    server_side = Observer(client)
    with serving(UVICORN, tmp_path, name) as site, Lock(name):
        with site.begin("/async"):
            server_side.until_waiters(name, 1)
        server_side.until_waiters(name, 0)
        assert 0 == site.total()
