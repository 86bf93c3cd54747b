from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from redis_locks import Hold, Lock, LockLost, inspection
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.management import tables
from redis_locks.management.commands import locks as command

TOKEN = 1_763_736_845_123_456


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def own_prefix(name: str) -> Iterator[None]:
    """No lock of another test is listed."""
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        yield


@pytest.fixture
def hold(name: str) -> Iterator[Hold]:
    found = Lock(name, lease=60, renew=False, label="nightly report").acquire(wait=0)
    assert found
    yield found
    with suppress(LockLost):
        found.release()


def run(*args: str, out: io.StringIO | None = None) -> tuple[str, str]:
    out, err = out or io.StringIO(), io.StringIO()
    call_command("locks", "--no-color", *args, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def fails(*args: str, code: int = 1) -> str:
    with pytest.raises(CommandError) as caught:
        run(*args)
    assert code == caught.value.returncode
    return str(caught.value)


def answers(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], str]) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", answer)


def info(name: str = "account:1", *, waiters: int = 0, **changes: Any) -> LockInfo:
    who = {"host": "web-1", "pid": 4711, "unit": "thread MainThread", "label": "manage.py x"}
    times = {"fencing_token": TOKEN, "held_for": 3.25, "lease_left": 6.75}
    holder = HolderInfo(**{"token": "t", "mode": "exclusive"} | times | who | changes)
    waiter = WaiterInfo("w", waited=1.5, mode="exclusive", **who)
    return LockInfo(name, "exclusive", (holder,), (waiter,) * min(waiters, 2), waiters)


def test_an_empty_list_says_so_on_stderr() -> None:
    assert ("", "No lock is held or waited for.\n") == run("list")


def test_an_empty_list_in_json_is_an_empty_list() -> None:
    assert ("[]\n", "") == run("list", "--json")


def test_the_list_is_tab_separated_when_stdout_is_not_a_terminal(name: str, hold: Hold) -> None:
    out, err = run("list")
    header, line = out.splitlines()
    assert "" == err
    assert "name\tmode\tholder\theld for\tlease left\twaiters\tfencing token" == header
    found, mode, holder, held_for, lease_left, waiters, fence = line.split("\t")
    assert (name, "exclusive", "0", str(hold.fencing_token)) == (found, mode, waiters, fence)
    assert holder.endswith(f"pid {os.getpid()} thread MainThread (nightly report)")
    assert 0 <= float(held_for) < 30 < float(lease_left) <= 60


def test_the_list_fits_a_terminal(name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("list", out=Terminal())[0].splitlines()
    assert "NAME MODE HOLDER HELD LEFT WAITERS FENCING TOKEN" == " ".join(lines[0].split())
    assert name[:6] in lines[1]
    assert str(hold.fencing_token) in lines[1]
    assert all(len(line) <= 80 for line in lines)


def test_the_list_in_json_has_full_values_and_seconds(name: str, hold: Hold) -> None:
    (lock,) = json.loads(run("list", "--json")[0])
    assert [name, "exclusive", 0, []] == [
        lock[key] for key in ("name", "mode", "waiting", "waiters")
    ]
    (holder,) = lock["holders"]
    assert (hold.token, hold.fencing_token) == (holder["token"], holder["fencing_token"])
    assert 30 < holder["lease_left"] <= 60


def test_show_tells_all_about_the_holder(name: str, hold: Hold) -> None:
    out, err = run("show", name)
    assert "" == err
    assert f"Lock {name} (exclusive)" in out
    assert "(nightly report)" in out
    assert f"fencing token  {hold.fencing_token}" in out
    assert hold.token in out
    assert "Nobody waits for it." in out


def test_show_in_json_is_one_object(name: str, hold: Hold) -> None:
    assert name == json.loads(run("show", name, "--json")[0])["name"]


def test_show_of_a_free_lock_is_not_found(name: str) -> None:
    assert f"Nobody holds lock '{name}' or waits for it." == fails("show", name)


def test_release_ends_the_hold_and_says_what_that_means(name: str, hold: Hold) -> None:
    out, err = run("release", name, "--yes")
    assert out.startswith(f"Released lock '{name}', which was held by ")
    assert "learns of it at its next renewal" in err
    assert inspection.lock(name) is None


def test_release_in_json_says_how_many_holds_ended(name: str, hold: Hold) -> None:
    out = run("release", name, "--yes", "--json")[0]
    assert {"name": name, "released": 1} == json.loads(out)


def test_release_asks_first(name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda: "y")
    out, err = run("release", name)
    assert err.startswith(f"Release lock '{name}' held by ")
    assert "[y/N] " in err
    assert out.startswith("Released")


def _end_of_file() -> str:
    raise EOFError


@pytest.mark.parametrize("answer", [lambda: "", lambda: "n", lambda: "what?", _end_of_file])
def test_release_without_consent_releases_nothing(
    name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], str]
) -> None:
    answers(monkeypatch, answer)
    assert "Aborted; nothing was released." == fails("release", name)
    assert inspection.lock(name)


def test_release_refuses_when_it_cannot_ask(
    name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert "--yes" in fails("release", name)
    assert inspection.lock(name)


def test_release_ends_only_the_hold_it_asked_about(
    name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    successors: list[Hold | None] = []

    def answer() -> str:
        hold.release()
        successors.append(Lock(name, lease=60, renew=False).acquire(wait=0))
        return "y"

    answers(monkeypatch, answer)
    assert "nothing was released" in fails("release", name)
    (successor,) = successors
    assert successor
    successor.release()


def test_release_of_a_free_lock_is_not_found(name: str) -> None:
    assert "Nobody holds" in fails("release", name, "--yes")


def test_release_of_a_lock_that_is_only_waited_for_is_not_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_for = LockInfo(name, "exclusive", (), info(waiters=1).waiters, 1)
    monkeypatch.setattr(command.inspection, "lock", lambda *_, **__: waited_for)
    assert f"Nobody holds lock '{name}'; 1 waiting for it." == fails("release", name, "--yes")


@pytest.mark.parametrize("verb", [["list"], ["show", "x"], ["release", "x", "--yes"]])
def test_a_server_that_is_down_gives_69(verb: list[str]) -> None:
    message = fails(*verb, "--using", "unix:///nonexistent/server.sock", code=69)
    assert "nonexistent" in message


@pytest.mark.parametrize(
    "args", [["show", ""], ["release", "", "--yes"], ["list", "--using", "no such alias"]]
)
def test_a_wrong_argument_is_explained_without_a_traceback(args: list[str]) -> None:
    assert fails(*args)


def test_control_characters_do_not_break_lines() -> None:
    name = "a\nb\tc\x1b[31m\u202e"
    shown = r"a\nb\tc\x1b[31m\u202e"
    locks = [info(name, host="h\nx")]
    assert 2 == len(tables.tab_separated(locks))
    assert tables.tab_separated(locks)[1].startswith(f"{shown}\texclusive\th\\nx pid")
    assert 2 == len("\n".join(tables.columns(locks, 120)).splitlines())
    assert f"Lock {shown} (exclusive)" == next(tables.details(locks[0], None))


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("host", ["h", "a-very-long-host-name.of.a.data-centre.example"])
@pytest.mark.parametrize("name", ["n", "account:" + "1234567890" * 5 + ":end"])
def test_columns_fit_the_terminal(width: int, host: str, name: str) -> None:
    locks = [info(name, waiters=12_345, host=host, held_for=3e6), info("other")]
    lines = tables.columns(locks, width)
    assert all(len(line) <= width for line in lines)
    assert 1 == len({len(line) for line in lines})
    assert str(TOKEN) in lines[1]


def test_a_short_neighbour_leaves_its_room_to_a_long_name() -> None:
    name = "account:1234567890"
    assert tables.columns([info(name, host="h", pid=1)], 80)[1].startswith(name)


def test_a_lock_that_nobody_holds_is_listed_with_its_waiters() -> None:
    waited_for = LockInfo("x", "exclusive", (), info(waiters=1).waiters, 1)
    assert "x\texclusive\t-\t-\t-\t1\t-" == tables.tab_separated([waited_for])[1]
    assert "Nobody holds it." in list(tables.details(waited_for, None))


def test_details_show_the_queue_in_order_and_how_many_more_wait() -> None:
    lines = list(tables.details(info(waiters=5), None))
    assert "Queue (5 waiting)" in lines
    assert "    1    1.5s  exclusive  web-1 pid 4711 thread MainThread (manage.py x)" in lines
    assert "and 3 more" in lines[-1]
    assert all(len(line) <= 40 for line in list(tables.details(info(waiters=1), 40))[-1:])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (9.84, "9.8s"),
        (59.94, "59.9s"),
        (59.96, "1m00s"),
        (725, "12m05s"),
        (3599.9, "1h00m"),
        (12_000, "3h20m"),
        (187_200, "2d04h"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert text == tables.duration(seconds)


def test_an_ellipsis_replaces_the_middle() -> None:
    assert "acc…:99" == tables.shorten("account:4711:99", 7)
    assert "account" == tables.shorten("account", 7)
