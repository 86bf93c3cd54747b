"""`manage.py locks watch` on a terminal of 80 columns."""

from __future__ import annotations

import signal

import pytest

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_line import Terminal, locks

LEFT = "\x1b[?25h\x1b[?1049l"


def test_the_screen_follows_the_locks_until_ctrl_c(name: str) -> None:
    with Terminal("watch", f"{name}*", "--interval", "0.1") as terminal:
        terminal.until("WAITERS")
        with Lock(f"{name}:1") as hold:
            assert "\x1b[?1049h" in terminal.until(str(hold.fencing_token))
        drawn = terminal.shown.count("\x1b[J")
        terminal.until("\x1b[J", times=drawn + 3)
        assert str(hold.fencing_token) not in terminal.shown.rpartition("\x1b[H")[2]
        terminal.type("\x03")
        status, shown = terminal.end()
    assert 0 == status
    assert shown.rpartition("^C")[2].endswith(LEFT)
    assert "Traceback" not in shown


def test_sigterm_gives_the_terminal_back_too() -> None:
    with Terminal("watch") as terminal:
        terminal.until("WAITERS")
        terminal.send(signal.SIGTERM)
        status, shown = terminal.end()
    assert 128 + signal.SIGTERM == status
    assert shown.endswith(LEFT)


def test_a_full_screen_says_how_many_locks_there_are(name: str) -> None:
    held = [Lock(f"{name}:{i}", lease=60, renew=False).acquire() for i in range(10)]
    with Terminal("watch", f"{name}*", "--sort", "name", rows=8) as terminal:
        shown = terminal.until("and more")
        terminal.type("\x03")
        terminal.end()
    for hold in held:
        assert hold
        hold.release()
    frame = shown.partition("\x1b[H")[2].partition("\x1b[J")[0]
    assert 8 == len(frame.split("\n"))
    assert "and more, of 10 locks" in frame
    # Who waits for those that don't fit was not looked at.
    assert "10 locks  " in frame


def test_a_server_that_goes_and_comes_back_is_watched_on(private_server: EmbeddedServer) -> None:
    with Terminal("watch", "--interval", "0.1", "--using", private_server.url) as terminal:
        terminal.until("0 locks, 0 waiting")
        private_server.kill()
        terminal.until("cannot be reached")
        private_server.restart()
        drawn = terminal.shown.count("0 locks, 0 waiting")
        terminal.until("0 locks, 0 waiting", times=drawn + 1)
        terminal.type("\x03")
        assert 0 == terminal.end()[0]


@pytest.mark.parametrize("arguments", [[], ["--sort", "held"]])
def test_without_a_terminal_the_list_is_printed_once(name: str, arguments: list[str]) -> None:
    with Lock(name):
        status, out, err = locks("watch", name, *arguments)
    assert (0, "") == (status, err)
    assert [name] == [line.split("\t")[0] for line in out.splitlines()[1:]]


def test_an_interval_that_would_load_the_server_is_refused() -> None:
    status, _, err = locks("watch", "--interval", "0")
    assert 64 == status
    assert "'0' is not a number of seconds from 0.1 to 3600" in err
