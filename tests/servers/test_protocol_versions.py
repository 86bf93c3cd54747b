"""Two versions of the package with different protocols meet on a lock: there are never two holders.

The other version is the last one of the history that has another number: its files or, where
`REDIS_LOCKS_WHEEL` names one, a built wheel of it (`nox -s wheel`). Where there is no history, it
is a copy of this one with another number.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

import redis_locks
from redis_locks import Lock, LockError, ProtocolMismatch, Semaphore, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.servers import previous_protocol
from tests.servers.previous_protocol import OURS
from tests.support import stored
from tests.support.children import Child, interpreter, run_python
from tests.support.world import PATIENCE, World, held, keys_of, until

pytestmark = pytest.mark.ci

PACKAGE = Path(redis_locks.__file__).parent
PROCESS = Path(__file__).with_name("other_version.py")


@pytest.fixture(scope="module")
def other_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as it was with an earlier protocol."""
    folder = tmp_path_factory.mktemp("other_version")
    if wheel := os.environ.get("REDIS_LOCKS_WHEEL"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    elif earlier := previous_protocol.commit():
        previous_protocol.extract(earlier, folder)
    else:
        shutil.copytree(PACKAGE, folder / PACKAGE.name)
        prelude = folder / previous_protocol.PRELUDE
        text, number = prelude.read_text(encoding="utf-8"), f'local PROTOCOL = "{OURS}"'
        prelude.write_text(text.replace(number, 'local PROTOCOL = "0"'), encoding="utf-8")
    assert OURS != previous_protocol.number_in(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(other_version: Path) -> str:
    """The number of the other version's protocol."""
    return previous_protocol.number_in(other_version)


class Other(Child):
    """A process of the other version, while it holds a lock."""

    def __init__(self, version: Path, url: str, name: str, mode: str) -> None:
        super().__init__(interpreter(str(PROCESS), url, "hold", name, mode, **at(version)))
        self.said, *self.words = self.line().split(maxsplit=1)

    def ends(self) -> str:
        self.say("end\n")
        return self.line()


def at(version: Path) -> dict[str, Any]:
    """Where a Python finds that version."""
    return {"cwd": version, "env": {**os.environ, "PYTHONPATH": str(version)}}


@pytest.fixture
def other(other_version: Path, redis_server: EmbeddedServer) -> Any:
    @contextmanager
    def start(name: str, mode: str = "exclusive") -> Iterator[Other]:
        with Other(other_version, redis_server.url, name, mode) as made:
            try:
                yield made
            finally:
                made.kill()
                if made.said == "held":
                    # Else other tests meet it in their listings until its lease ends.
                    with redis_server.client() as client:
                        client.delete(keys_of(name).lock, keys_of(name).sharers)

    return start


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_a_lock_that_the_other_version_holds_is_refused_with_what_to_do(
    world: World, name: str, other: Any, theirs: str, mode: str
) -> None:
    said = rf"protocol {theirs}.*protocol {OURS}.*PREFIX"
    with other(name, mode) as holder:
        assert "held" == holder.said
        for wait in (0, PATIENCE):
            with pytest.raises(ProtocolMismatch, match=said) as caught:
                world.acquire(Lock(name, mode=mode), wait=wait)
            assert (theirs, OURS) == (caught.value.theirs, caught.value.ours)
            assert 0 < caught.value.retry_after <= 30
        with pytest.raises(ProtocolMismatch):
            inspection.lock(name)
        assert "released" == holder.ends()
    hold = held(world, Lock(name, mode=mode))
    assert hold.fencing_token > int(holder.words[0])
    world.release(hold)


def test_the_other_version_is_refused_while_we_hold(
    world: World, name: str, other: Any, theirs: str
) -> None:
    for lock in (Lock(name), Lock(name, mode="shared"), Semaphore(name, 2)):
        hold = held(world, lock)
        with other(name) as refused:
            assert "ProtocolMismatch" == refused.said
            assert re.search(rf"protocol {OURS}.*protocol {theirs}.*PREFIX", refused.words[0])
        hold.check()
        world.release(hold)
    with other(name) as holder:
        assert "held" == holder.said
        assert int(holder.words[0]) > hold.fencing_token
        assert "released" == holder.ends()


def test_a_lock_that_the_other_version_left_when_it_died_is_free_with_the_end_of_its_lease(
    world: World, name: str, other: Any, client: redis.Redis
) -> None:
    with other(name) as holder:
        holder.kill()
        with pytest.raises(ProtocolMismatch):
            world.acquire(Lock(name), wait=0)
        with Lock(f"{name}:ours"):
            shown = [info.name for info in inspection.locks() if info.name.startswith(name)]
            assert [name, f"{name}:ours"] == shown
        assert name in inspection.names()
        stored.end_lease(client, keys_of(name).lock)
        hold = held(world, Lock(name))
        assert hold.fencing_token > int(holder.words[0])
        world.release(hold)


def test_a_set_that_has_one_such_lock_is_refused_and_leaves_nothing(
    world: World, name: str, other: Any, client: redis.Redis
) -> None:
    others = [f"{name}:{letter}" for letter in "ab"]
    with other(others[1]):
        with pytest.raises(ProtocolMismatch):
            world.acquire(Lock(*others), wait=PATIENCE)
        assert not client.exists(keys_of(others[0]).lock)


def test_a_waiter_whose_lock_the_other_version_takes_is_told(
    world: World, name: str, other: Any, client: redis.Redis
) -> None:
    kept = held(world, Lock(name, renew=False))
    waiting = world.start(world.acquire, Lock(name), wait=PATIENCE)
    until(lambda: stored.line(client, keys_of(name).lock))
    stored.end_lease(client, keys_of(name).lock)
    with other(name) as holder:
        assert "held" == holder.said
        assert int(holder.words[0]) > kept.fencing_token
        with pytest.raises(ProtocolMismatch):
            waiting.result(PATIENCE)
        assert "released" == holder.ends()
    with suppress(LockError):  # it is lost
        world.release(kept)


@pytest.fixture
def command(other_version: Path, redis_server: EmbeddedServer) -> Any:
    """`manage.py locks` of the other version: return what it prints."""

    def call(*words: str) -> str:
        arguments = (str(PROCESS), redis_server.url, "locks", *words)
        return run_python(*arguments, check=True, **at(other_version)).stdout

    return call


def test_only_the_other_version_names_and_ends_what_its_dead_hosts_hold(
    world: World, name: str, other: Any, command: Any, theirs: str
) -> None:
    with other(name) as holder:
        holder.kill()
        assert name in command("list", "--format", "csv")
        (info,) = inspection.locks(names=[name])
        assert [f"django-redis-locks with protocol {theirs}"] == [
            each.label for each in info.holders
        ]
        with pytest.raises(ProtocolMismatch):
            world.acquire(Lock(name), wait=0)
        assert name in command("drain", "--host", socket.gethostname(), "-y")
        world.release(held(world, Lock(name), wait=0))


def test_the_other_version_does_not_list_what_we_hold(
    world: World, name: str, command: Any
) -> None:
    hold = held(world, Lock(name))
    assert name not in command("list", "--format", "csv")
    world.release(hold)
