"""`manage.py benchmark`, with clients that are processes, but for moments only."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict

import psutil
import pytest
import redis
from django.core.management import CommandError, call_command

from redis_locks import inspection
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_line import Process, Terminal, is_alive, locks
from tests.support.benchmark import (
    NAME,
    OURS,
    SUBJECTS,
    TWO_COMMANDS,
    USUAL,
    Job,
    WorkerError,
    WorkerPool,
    our_keys,
)
from tests.support.world import until

pytestmark = pytest.mark.ci


def fails(*arguments: str) -> str:
    """What the command says when it fails."""
    with pytest.raises(CommandError) as caught:
        call_command("benchmark", "--no-color", *arguments)
    return str(caught.value)


@pytest.fixture(autouse=True)
def on_our_server(redis_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user says which server is to be measured."""
    monkeypatch.setenv("REDIS_URL", redis_server.url)


@pytest.fixture
def left(client: redis.Redis) -> Iterator[Callable[[], list[bytes]]]:
    """Lists the keys of the benchmark's names; they are gone before and after."""

    def keys() -> list[bytes]:
        return sorted(set(client.keys(f"*{NAME}*")) - {our_keys(NAME).lock})  # its fencing token

    assert [] == keys()
    yield keys
    if found := keys():
        client.delete(*found)


def test_every_lock_is_measured_with_each_number_of_clients(
    client: redis.Redis, left: Callable[[], list[bytes]]
) -> None:
    status, out, err = locks(
        "--seconds", "0.05", "--clients", "1", "2", "--json", command="benchmark"
    )
    assert 0 == status
    assert "This loads unix:" in err
    rows = json.loads(out)
    # Those that are installed, and that this server has the commands for.
    usual = [SUBJECTS[key] for key in USUAL]
    here = [lock.key for lock in usual if lock.is_installed and not lock.missing(client)]
    assert [(key, clients) for clients in (1, 2) for key in here] == [
        (row["lock"], row["clients"]) for row in rows
    ]
    for row in rows:
        assert 0 < row["acquires"] <= row["tries"]
        assert [row["acquires"]] == row["rounds"]
        assert 0 < row["p99_wait"]
        assert 1 / row["clients"] <= row["fairness"] <= 1
    alone = {row["lock"]: row for row in rows if row["clients"] == 1}
    original, ours = alone["original"], alone[OURS]
    assert (0.0, 31_359) == (original["percent"], original["book_acquires"])
    assert pytest.approx(100 * (ours["acquires"] / original["acquires"] - 1)) == ours["percent"]
    # What began in the last moment counts as commands, and perhaps not as an acquire.
    assert 7.0 <= original["commands_per_acquire"] < 8.0
    for key in {OURS, TWO_COMMANDS} & alone.keys():
        assert 2.0 <= alone[key]["commands_per_acquire"] < 2.2
    assert [] == left()


def test_a_terminal_of_80_columns_shows_a_bar_and_then_the_table() -> None:
    arguments = ("--seconds", "0.05", "--clients", "1", "--only", "lua", "redis-py-1ms")
    with Terminal(*arguments, command="benchmark") as terminal:
        status, shown = terminal.end()
    assert 0 == status, shown
    bar, _, table = shown.rpartition("\x1b[K")
    assert "1 client: Lua, of the book" in bar
    header, *rows = table.partition("\r\n\r\n")[0].splitlines()
    assert "TRIES ACQUIRES +/- FAIRNESS P99 MS COMMANDS" in " ".join(header.split())
    assert ["44,494", "44,494", "+42%"] == rows[1].split()[-3:]
    assert all(len(row) < 80 for row in rows)


def test_whoever_ends_it_finds_no_client_and_no_key_left(left: Callable[[], list[bytes]]) -> None:
    arguments = ("--seconds", "60", "--clients", "1", "--only", OURS)
    with Process(*arguments, command="benchmark") as process:
        until(lambda: inspection.lock(SUBJECTS[OURS].name))
        process.send(signal.SIGTERM)
        found, out, err = process.end()
    assert (143, "") == (found, out)
    assert "Traceback" not in err
    assert [] == left()
    assert [] == [name for name in inspection.names() if name.startswith(NAME)]


def test_keys_in_the_way_are_refused_and_left_alone(
    client: redis.Redis, left: Callable[[], list[bytes]]
) -> None:
    key = SUBJECTS["lua"].keys[0]
    client.set(key, "somebody's")
    assert key.decode() in fails("--only", "lua")
    assert b"somebody's" == client.get(key)


@pytest.mark.parametrize(
    ("option", "value"), [("--seconds", "nan"), ("--clients", "101"), ("--only", "original-lock")]
)
def test_what_cannot_be_measured_is_refused_with_the_value(option: str, value: str) -> None:
    message = fails(option, value)
    assert option in message
    assert value in message


def test_a_server_that_is_not_there_is_named() -> None:
    assert "cannot be reached" in fails("--using", "unix:///nonexistent/s.sock")


@pytest.mark.parametrize(("apart", "parents"), [(False, 1), (True, 3)])
def test_a_client_that_dies_is_reported_and_the_others_end(*, apart: bool, parents: int) -> None:
    """Whether the clients have one parent, or each is started by itself."""
    jobs = [asdict(Job("lua", None, 60.0))] * 3
    with WorkerPool("demo_project.benchmark.worker", 3, grace=75.0, apart=apart) as pool:
        pids = pool.prepare(jobs)
        assert parents == len({psutil.Process(pid).ppid() for pid in pids})
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(WorkerError, match="it was killed"):
            pool.run(60.0)
        until(lambda: not any(map(is_alive, pids)))
