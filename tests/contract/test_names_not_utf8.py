"""Names of files and threads that are not UTF-8 keep nobody from waiting, nor from being shown."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from redis_locks import Lock, inspection
from tests.support.world import PATIENCE, Observer, Threads, existing, held, until

ODD = b"latin\xe9".decode(errors="surrogateescape")
"""As Python has the name of a file that was written in Latin-1."""

SOURCE = """
def take(outer, inner):
    with outer, inner:
        pass
"""


@pytest.mark.usefixtures("redis_server")
def test_a_holder_may_wait_in_code_of_such_a_file_and_in_such_a_thread(
    name: str, settings: Any, server_side: Observer
) -> None:
    settings.REDIS_LOCKS = {"DEADLOCK_TIMEOUT": 0.05}
    code: dict[str, Any] = {"__name__": "odd"}
    exec(compile(SOURCE, f"/{ODD}.py", "exec"), code)  # noqa: S102 - there is no such file
    hot, own = Lock(name, wait=PATIENCE), Lock(f"{name}:own")
    first = held(Threads(), hot)
    waiter = threading.Thread(target=code["take"], args=(own, hot), name=ODD)
    waiter.start()
    server_side.until_waiters(name, 1)
    until_noted(server_side, name)
    shown = existing(f"{name}:own")
    assert ODD in shown.holders[0].unit
    first.release()
    waiter.join(PATIENCE)
    assert inspection.lock(f"{name}:own") is None


def until_noted(server_side: Observer, name: str) -> None:
    """Return once the server knows where the waiter waits."""
    until(lambda: any(b"latin" in wait for wait in server_side.noted(name)))
