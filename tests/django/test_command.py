from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from redis_locks import Hold, Lock, LockError, LockLost, inspection, text
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.management.locks import show
from redis_locks.management.locks.report import Report
from redis_locks.management.locks.selection import Selection
from redis_locks.management.locks.table import table
from tests.contract.world import until
from tests.django.command_line import LOCKS as COMMAND
from tests.django.command_line import Terminal as RealTerminal
from tests.django.command_line import environment
from tests.django.parties import held

pytestmark = pytest.mark.usefixtures("own_prefix")

TOKEN = 1_763_736_845_123_456


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
    out, err = run("list")
    assert "No lock is held or waited for.\n" == err
    assert 1 == len(out.splitlines())  # the names of the columns
    assert "" == run("list", "--format", "table")[0]


def test_an_empty_list_in_json_is_an_empty_list() -> None:
    assert ("[]\n", "") == run("list", "--json")


def test_the_list_is_tab_separated_when_stdout_is_not_a_terminal(name: str, hold: Hold) -> None:
    out, err = run("list")
    assert "" == err
    header, line = (row.split("\t") for row in out.splitlines())
    found = dict(zip(header, line, strict=True))
    assert (name, "exclusive", "0") == (found["name"], found["mode"], found["waiting"])
    assert (str(os.getpid()), str(hold.fencing_token)) == (found["pid"], found["fencing_token"])
    assert ("thread MainThread", "nightly report") == (found["unit"], found["label"])
    assert 0 <= float(found["held_for"]) < 30 < float(found["lease_left"]) <= 60


def test_the_list_fits_a_terminal(name: str, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("list", out=Terminal())[0].splitlines()
    assert "NAME HOLDER RUNS HELD LEFT WAITERS" == " ".join(lines[0].split())
    assert name[:6] in lines[1]
    assert f"pid {os.getpid()}" in lines[1]
    assert "nightly report" in lines[1]
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
    assert "learns of it at once" in err
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
    monkeypatch.setattr(show.inspection, "lock", lambda *_, **__: waited_for)
    assert f"Nobody holds lock '{name}'; 1 waiting for it." == fails("release", name, "--yes")


@pytest.mark.parametrize("verb", [["list"], ["show", "x"], ["release", "x", "-y"], ["blocking"]])
def test_a_server_that_is_down_gives_69(verb: list[str]) -> None:
    message = fails(*verb, "--using", "unix:///nonexistent/server.sock", code=69)
    assert "nonexistent" in message


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show", ""], "must not be empty"),
        (["release", "", "--yes"], "must not be empty"),
        (["list", "--using", "no such alias"], "there is no cache"),
        (["list", "--limit", "0"], "'0' is not a whole number above 0"),
        (["list", "--older", "nan"], "'nan' is not a number of seconds"),
        (["list", "--sort", "age"], "invalid choice: 'age'"),
        (["list", "--format", "xml"], "invalid choice: 'xml'"),
        (["show"], "required: name"),
    ],
)
def test_a_wrong_argument_is_explained_without_a_traceback(args: list[str], said: str) -> None:
    assert said in fails(*args, code=64)


def test_every_format_tells_the_same(name: str, hold: Hold) -> None:
    (lock,) = json.loads(run("list", "--format", "json")[0])
    (line,) = run("list", "--format", "jsonl")[0].splitlines()
    assert lock["holders"][0]["token"] == json.loads(line)["holders"][0]["token"] == hold.token
    (row,) = csv.DictReader(run("list", "--format", "csv")[0].splitlines())
    assert (name, str(hold.fencing_token)) == (row["name"], row["fencing_token"])
    assert run("list", "--format", "plain")[0].splitlines()[0] == "\t".join(row)
    assert "NAME" in run("list", "--format", "table")[0]


def test_show_in_columns_has_a_line_for_the_holder(name: str, hold: Hold) -> None:
    (row,) = csv.DictReader(run("show", name, "--format", "csv")[0].splitlines())
    assert ("holder", hold.token) == (row["role"], row["token"])


def test_a_filter_that_matches_nothing_says_of_how_many(name: str, hold: Hold) -> None:
    assert ("", "None of the 1 locks matches.\n") == run("list", "other:*", "--format", "table")


def test_a_limit_says_what_it_leaves_out(name: str, hold: Hold) -> None:
    with Lock(f"{name}:2"):
        out, err = run("list", "--limit", "1")
    assert [name] == [row["name"] for row in csv.DictReader(out.splitlines(), delimiter="\t")]
    assert "1 of 2 locks.\n" == err


LOCKS = {
    lock.name: lock
    for lock in (
        info("account:1", held_for=5, lease_left=3, host="web-2"),
        info("report", held_for=60, lease_left=2),
        info("account:2", waiters=3, held_for=9, lease_left=1),
        LockInfo("waited for", "exclusive", (), info(waiters=1).waiters, 1),
    )
}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (Selection(), ["account:1", "account:2", "report", "waited for"]),
        (Selection(pattern="account:*"), ["account:1", "account:2"]),
        (Selection(pattern="Account:*"), []),
        (Selection(host="web-2"), ["account:1"]),
        (Selection(older=9), ["report"]),
        (Selection(contended=True), ["account:2", "waited for"]),
        (Selection(contended=True, older=1), ["account:2"]),
        (Selection(sort="held"), ["report", "account:2", "account:1", "waited for"]),
        (Selection(sort="lease"), ["waited for", "account:2", "report", "account:1"]),
        (Selection(sort="queue"), ["account:2", "waited for", "account:1", "report"]),
    ],
)
def test_locks_are_filtered_and_sorted(
    chosen: Selection, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "names", lambda **_: sorted(LOCKS))
    monkeypatch.setattr(inspection, "locks", lambda *, names, **_: [LOCKS[name] for name in names])
    queues = {name: LOCKS[name].waiting for name in sorted(LOCKS)}
    monkeypatch.setattr(inspection, "queues", lambda **_: queues)
    found = chosen.search(None)
    assert names == [lock.name for lock in found.part(0, None)]
    assert names[:1] == [lock.name for lock in found.part(0, 1)]
    assert (len(names), 4) == (len(found), found.there)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (["--limit", "1"], ["a"]),
        (["b*"], ["b"]),
        (["b*", "--sort", "held"], ["b"]),
        (["--sort", "held", "--limit", "1"], ["a", "b", "c"]),
    ],
)
def test_only_locks_that_may_be_shown_are_read(
    arguments: list[str], read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    really = inspection.locks

    def locks(*, names: list[str], using: str | None) -> list[LockInfo]:
        asked.extend(names)
        return really(names=names, using=using)

    monkeypatch.setattr(inspection, "locks", locks)
    with held("a"), held("b"), held("c"):
        run("list", *arguments)
    assert read == asked


@pytest.mark.parametrize("wanted", ["table", "plain", "csv", "json", "jsonl"])
def test_control_characters_and_bidirectional_marks_never_reach_the_terminal(
    name: str, wanted: str
) -> None:
    nasty = "a\nb\tc\x1b[31m\u202e\u200f"
    with Lock(f"{name}{nasty}", label=nasty):
        out = (
            run("list", "--format", wanted)[0]
            + run("show", f"{name}{nasty}", "--format", wanted)[0]
        )
    assert r"\x1b[31m\u202e\u200f" in out or r"\u001b[31m\u202e\u200f" in out
    assert not set(out) & set("\x1b\u202e\u200f")
    if wanted in {"table", "plain", "csv"}:
        assert r"a\nb\tc" in out


def test_a_reader_that_has_seen_enough_ends_the_command_in_silence() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    listing = subprocess.run(
        [*COMMAND, "list"], stdout=writing, stderr=subprocess.PIPE, env=environment(), check=False
    )
    os.close(writing)
    assert (128 + signal.SIGPIPE, b"") == (listing.returncode, listing.stderr)


def test_errors_escape_the_name_too() -> None:
    assert r"'a\x1b[31m'" in fails("show", "a\x1b[31m")


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("host", ["h", "a-very-long-host-name.of.a.data-centre.example"])
@pytest.mark.parametrize("name", ["n", "account:" + "1234567890" * 5 + ":end", "口座" * 30])
def test_the_table_fits_the_terminal(width: int, host: str, name: str) -> None:
    locks = [info(name, waiters=12_345, host=host, held_for=3e6), info("other", mode="shared")]
    lines = table(locks, width)
    assert all(text.width(line) <= width for line in lines)
    assert 1 == len({text.width(line) for line in lines})
    assert "12345" in lines[1]
    assert "MODE" not in lines[0]


def test_the_mode_is_shown_unless_all_are_exclusive() -> None:
    shared = LockInfo("x", "shared", info(mode="shared").holders, (), 0)
    assert "MODE" in table([info(), shared], 80)[0]
    assert "shared" in table([info(), shared], 80)[2]


def test_a_short_neighbour_leaves_its_room_to_a_long_name() -> None:
    name = "account:1234567890:of:a:long:name"
    assert table([info(name, host="h", pid=1, label="x")], 80)[1].startswith(name)


def test_a_lock_that_nobody_holds_is_listed_with_its_waiters() -> None:
    waited_for = LockInfo("x", "exclusive", (), info(waiters=1).waiters, 1)
    assert ["x", "-", "-", "-", "-", "1"] == table([waited_for], None)[1].split()
    assert "Nobody holds it." in list(show.lines(waited_for, None))


def test_details_show_the_queue_in_order_and_how_many_more_wait() -> None:
    lines = list(show.lines(info(waiters=5), None))
    assert "Queue (5 waiting)" in lines
    assert "    1    1.5s  exclusive  web-1 pid 4711 thread MainThread (manage.py x)" in lines
    assert "and 3 more" in lines[-1]
    assert all(len(line) <= 40 for line in list(show.lines(info(waiters=1), 40))[-1:])


def test_missing_values_are_empty_cells() -> None:
    report = Report([], ("a", "b"), [{"a": None, "b": 1.5}], lambda _: [])
    assert ["a\tb", "\t1.500"] == report.lines("plain", None)


def test_a_terminal_without_unicode_gets_escapes(name: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    with Lock(f"{name}:口座"):
        call_command("locks", "list", stdout=out)
    assert rb":\u53e3\u5ea7" in out.buffer.getvalue()


@pytest.mark.parametrize(
    ("variables", "arguments", "coloured"),
    [
        ({}, [], True),
        ({"NO_COLOR": "1"}, [], False),
        ({}, ["--no-color"], False),
        ({"NO_COLOR": "1"}, ["--force-color"], True),
    ],
)
def test_colours_are_for_terminals_and_can_be_refused(
    variables: dict[str, str], arguments: list[str], coloured: bool
) -> None:
    with RealTerminal("show", "no such lock", *arguments, **variables) as terminal:
        status, shown = terminal.end()
    assert 1 == status
    assert coloured == ("\x1b[" in shown)


@pytest.mark.parametrize(
    ("seconds", "short"),
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
def test_durations_are_short(seconds: float, short: str) -> None:
    assert short == text.duration(seconds)


def test_an_ellipsis_replaces_the_middle() -> None:
    assert "acc…:99" == text.shorten("account:4711:99", 7)
    assert "account" == text.shorten("account", 7)
    assert "口…替" == text.shorten("口座の振替", 6)


def test_cancel_ends_the_waits_and_says_how_many(name: str, hold: Hold) -> None:
    told: list[LockError] = []

    def wait() -> None:
        try:
            Lock(name, wait=None).acquire()
        except LockError as error:
            told.append(error)

    waiters = [threading.Thread(target=wait) for _ in range(2)]
    for waiter in waiters:
        waiter.start()
    until(lambda: (info := inspection.lock(name)) and info.waiting == 2)
    out, _ = run("cancel", name, "--yes")
    assert f"Cancelled 2 waits for lock '{name}'." == out.strip()
    for waiter in waiters:
        waiter.join(20)
    assert ["cancelled" in str(error) for error in told] == [True, True]
    assert "Nobody waits" in fails("cancel", name, "--yes")
    assert "with this token" in fails("cancel", name, "nobody", "--yes")
