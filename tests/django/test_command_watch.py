"""`manage.py locks watch`: a screen of 80 columns, its keys, and the terminal given back."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys

import pytest

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.django.command_line import Terminal, locks
from tests.support.breakers import stopped
from tests.support.parties import waited_for
from tests.support.world import granted, until

LEFT = "\x1b[?25h\x1b[?1049l"
DOWN, UP = "\x1b[B", "\x1bOA"


def test_the_screen_follows_the_locks_until_q(name: str) -> None:
    with Terminal("watch", f"{name}*", "--interval", "0.1") as terminal:
        terminal.until_line("  0 locks")
        with Lock(f"{name}:1", label="nightly"):
            terminal.until_line("nightly")
        terminal.until_line("  0 locks")
        shown = terminal.quit()
    assert shown.endswith(LEFT)
    assert "\x1b[?1049h" in shown


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(signal.SIGINT, 0), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)],
)
def test_a_signal_gives_the_terminal_back_too(number: signal.Signals, wanted: int) -> None:
    with Terminal("watch") as terminal:
        terminal.until("q quit")
        assert terminal.modes_before != terminal.modes
        terminal.send(number)
        status, shown = terminal.end()
        assert terminal.modes_before == terminal.modes
    assert wanted == status
    assert shown.endswith(LEFT)
    assert "Traceback" not in shown


def test_a_second_ctrl_c_does_not_leave_the_terminal_half_given_back() -> None:
    with Terminal("watch", "--interval", "3600", rows=200) as terminal:
        terminal.until("q quit")
        # Nobody reads what it draws for so many keys, so that it cannot draw on.
        terminal.type("j" * 2000)
        until(terminal.is_idle)
        for _ in range(3):
            terminal.send(signal.SIGINT)
            until(terminal.is_idle)
        status, shown = terminal.end()
        assert terminal.modes_before == terminal.modes
    assert (0, True) == (status, shown.endswith(LEFT))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash has the jobs")
def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again() -> None:
    command = f"{sys.executable} -m django locks watch"
    with Terminal(main=_shell, PS1="ready> ") as terminal:
        terminal.until("ready> ")
        terminal.type(f"{command}\n")
        terminal.reply("q quit", "\x1a")
        terminal.until("Stopped")
        assert terminal.shown.rpartition("Stopped")[0].count(LEFT) == 1
        terminal.type("fg\n")
        terminal.until("\x1b[?1049h", times=2)
        terminal.until_line("q quit")
        terminal.type("q")
        terminal.until(LEFT, times=2)
        terminal.type("exit $?\n")
        assert 0 == terminal.end()[0]


def _shell() -> None:
    os.execlp("bash", "bash", "--norc", "--noprofile", "-i")  # noqa: S606, S607 - the user's own


def test_keys_choose_a_lock_open_it_and_go_back(name: str) -> None:
    with (
        Lock(f"{name}:a", label="first"),
        Lock(f"{name}:b", label="second"),
        Lock(f"{name}:c", label="third"),
        Terminal("watch", f"{name}*", "--sort", "name") as terminal,
    ):
        terminal.until_line("third")
        for key, chosen in (
            ("j", "second"),
            (DOWN, "third"),
            ("j", "third"),
            ("k", "second"),
            (UP, "first"),
            ("G", "third"),
        ):
            terminal.type(key)
            terminal.until_marked(chosen)
        terminal.type("\r")
        page = terminal.until_line("Held for")
        assert f"Lock {name}:c (exclusive)" in page
        terminal.type("\x1b")
        terminal.until_line("first")
        assert "third" in terminal.marked


def test_a_force_release_asks_for_a_reason_names_whom_it_ends_and_asks_for_consent(
    name: str,
) -> None:
    hold = granted(Lock(name, label="stuck").acquire())
    with (
        waited_for(name, "next one"),
        Terminal("watch", f"{name}*", "--interval", "0.1") as terminal,
    ):
        terminal.until_line("stuck")
        terminal.type("f")
        terminal.until(f"Why is lock '{name}' to be released? ")
        assert terminal.modes_before == terminal.modes
        terminal.type("\n")
        terminal.until("A force-release needs a reason; nothing was released.")
        terminal.reply("Press Enter to go back. ", "\n")
        terminal.reply("\x1b[?1049h", "f", times=2)
        # Pasted: the end of a reason is no consent.
        terminal.reply("to be released? ", "x" * 1023 + "\ny\n", times=2)
        asked = terminal.reply("[y/N] ", "\n")
        assert "1 waiter; next: next one on" in asked
        terminal.until("Aborted; nothing was released.")
        assert not hold.is_lost
        terminal.reply("to go back. ", "\n", times=2)
        terminal.reply("\x1b[?1049h", "f", times=3)
        terminal.reply("to be released? ", "paged\n", times=3)
        terminal.reply("[y/N] ", "y\n", times=2)
        terminal.until("Fencing tokens below")
        until(lambda: hold.is_lost)
        terminal.reply("to go back. ", "\n", times=3)
        terminal.until("\x1b[?1049h", times=4)
        assert terminal.quit().endswith(LEFT)


def test_ctrl_c_at_the_question_of_a_force_release_goes_back_to_the_screen(name: str) -> None:
    with Lock(name, label="stuck") as hold, Terminal("watch", f"{name}*") as terminal:
        terminal.until_line("stuck")
        terminal.type("f")
        terminal.until("to be released? ")
        terminal.interrupt()
        terminal.until("to go back. ")
        terminal.interrupt()
        terminal.until("\x1b[?1049h", times=2)
        assert not hold.is_lost
        terminal.quit()


def test_a_force_release_says_so_while_the_server_does_not_answer(
    private_server: EmbeddedServer, name: str
) -> None:
    with (
        Lock(name, using=private_server.url, lease=60, label="stuck"),
        Terminal("watch", "--interval", "3600", "--using", private_server.url) as terminal,
    ):
        terminal.until_line("stuck")
        with stopped(private_server):
            terminal.type("f")
            terminal.reply("to be released? ", "paged\n")
            shown = terminal.until("to go back. ")
        assert re.search(r"(has not answered for|tried for) 2", shown)
        terminal.type("\n")
        terminal.reply("\x1b[?1049h", "q", times=2)
        assert 0 == terminal.end()[0]


def test_a_slash_filters_while_one_types(name: str) -> None:
    with (
        Lock(f"{name}:a", label="POST /pay"),
        Lock(f"{name}:b", label="nightly"),
        Terminal("watch", f"{name}*") as terminal,
    ):
        terminal.until_line("2 locks")
        terminal.type("/NIGHTx\x7f")
        terminal.until_line("  1 lock  ")
        assert any("nightly" in line for line in terminal.frame)
        terminal.type("z")
        terminal.until_line("None of ")
        terminal.type("\x1b")
        terminal.until_line("2 locks")


def test_lines_fit_whatever_the_size_and_figures_stay_whole(name: str) -> None:
    held = [Lock(f"{name}:{'x' * 60}{i}", lease=600, renew=False).acquire() for i in range(30)]
    with Terminal("watch", f"{name}*", "--sort", "name") as terminal:
        terminal.until_line("30 locks")
        for rows, columns in ((24, 80), (8, 50), (40, 132), (3, 20), (24, 80)):
            terminal.resize(rows, columns)
            frame = terminal.until_frame(lambda frame, rows=rows: len(frame) == rows)
            assert max(map(len, frame)) <= columns
        assert "30 locks" in frame[0]
        assert held[0]
        terminal.type("\r")
        page = terminal.until_line("fencing token")
        assert any(line.endswith(str(held[0].fencing_token)) for line in page)
    for hold in held:
        assert hold
        hold.release()


def test_a_server_that_goes_and_comes_back_is_watched_on(private_server: EmbeddedServer) -> None:
    with Terminal("watch", "--interval", "0.1", "--using", private_server.url) as terminal:
        terminal.until_line("  0 locks")
        private_server.kill()
        terminal.until_line("cannot be reached")
        terminal.until_line("This is from ")
        private_server.restart()
        terminal.until_frame(lambda frame: not any("reached" in line for line in frame))
        private_server.kill()
        terminal.until_line("cannot be reached")
        terminal.quit()  # is heard although the server is not


@pytest.mark.parametrize("arguments", [[], ["--sort", "held"]])
def test_without_a_terminal_the_list_is_printed_once(name: str, arguments: list[str]) -> None:
    with Lock(name):
        status, out, err = locks("watch", name, *arguments)
    assert (0, "") == (status, err)
    assert [name] == [line.split("\t")[0] for line in out.splitlines()[1:]]
