"""Of a lock that is handed on, the next holder hears before the one that has released it."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from redis_locks import Hold, Lock, scripts
from redis_locks.drivers.blocking_link import BlockingLink
from redis_locks.drivers.wire import pack_command
from redis_locks.express import HEIR_FIRST
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, Observer, Threads

PING = pack_command("PING", "")


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs to be told who was ready first")
def test_a_server_sends_first_to_whom_it_had_something_for_last(
    redis_server: EmbeddedServer,
) -> None:
    publish = pack_command("EVAL", "return redis.call('PUBLISH', 'heir', '')", "0")
    with redis_server.client() as client:
        heir, releaser = (client.connection_pool.get_connection() for _ in range(2))
        heir.send_command("SUBSCRIBE", "heir")
        heir.read_response(push_request=True)
        for _ in range(20):
            with select.epoll() as ready:  # a new one: it keeps who was ready before in its line
                for connection in (releaser, heir):
                    ready.register(connection._sock, select.EPOLLIN)
                releaser._sock.sendall(HEIR_FIRST + publish)
                assert [(heir._sock.fileno(), select.EPOLLIN)] == ready.poll(PATIENCE, maxevents=1)
            assert [b"message", b"heir", b""] == heir.read_response(push_request=True)
            assert [b"", 1] == [releaser.read_response() for _ in range(2)]
        for connection in (releaser, heir):
            connection.disconnect()


def release(hold: Hold, _: Any) -> None:
    hold.release()


def commit(hold: Hold, client: Any) -> None:
    hold.commit(client.pipeline())


@pytest.mark.parametrize(
    ("end", "script"), [(release, scripts.RELEASE), (commit, scripts.COMMIT)], ids=lambda it: None
)
def test_one_that_was_waited_for_is_released_so_and_one_that_was_free_by_one_command(
    name: str,
    server_side: Observer,
    end: Callable[[Hold, Any], None],
    script: scripts.Script,
) -> None:
    server_side.client.script_load(script.text)
    sent: list[bytes] = []
    plain = BlockingLink.exchange

    def exchange(link: BlockingLink, commands: bytes, *args: Any) -> list[Any]:
        if script.sha in commands:
            sent.append(commands)
        return plain(link, commands, *args)

    def wait() -> None:
        with Lock(name).hold(wait=PATIENCE) as hold:
            end(hold, server_side.client)

    with Lock(name) as free:
        heirs = [Threads().start(wait) for _ in range(2)]
        server_side.until_waiters(name, 2)
        with patch.object(BlockingLink, "exchange", exchange):
            end(free, server_side.client)
            for heir in heirs:
                heir.result(PATIENCE)
    assert [False, True, True] == [commands.startswith(PING) for commands in sent]
    assert [0, 1, 1] == [commands.count(b"PING") for commands in sent]
