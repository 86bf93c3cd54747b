"""The table of locks on a terminal: what fits its width, and how that is made to fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redis_locks.inspection import LockInfo
from redis_locks.inspection.cases import Case
from redis_locks.inspection.filters import LockState
from redis_locks.inspection.story import tell
from redis_locks.management.locks import show
from redis_locks.management.locks.table import table
from redis_locks.statistics.usual import Recent
from redis_locks.values import text
from redis_locks.values.histogram import bucket_of
from tests.django.lock_infos import info


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("host", ["h", "a-very-long-host-name.of.a.data-centre.example"])
@pytest.mark.parametrize("name", ["n", "account:" + "1234567890" * 5 + ":end", "口座" * 30])
def test_the_table_fits_the_terminal(width: int, host: str, name: str) -> None:
    locks = [info(name, waiters=12_345, host=host, held_for=3e6), info("other")]
    lines = table(locks, width)
    assert all(text.width(line) <= width for line in lines)
    assert 1 == len({text.width(line) for line in lines})
    assert "12345" in lines[1]
    assert "MODE" not in lines[0]


def test_at_80_columns_times_stay_and_what_the_holder_runs_shrinks_first() -> None:
    name = "account:123456789"
    lock = info(name, waiters=12, host="web-1.eu-west.example", label="bank.views.transfer_money")
    states = {name: LockState(Case.GONE, None, 0)}
    header, line = table([lock], 80, known(name), states)
    assert ["NAME", "STATE", "RUNS", "HOLDER", "HELD", "USUAL", "WAITERS", "OLDEST", "LEFT"] == (
        header.split()
    )
    assert line.split()[:2] == [name, "gone"]
    assert ["1.5s", "6.8s"] == line.split()[-2:]
    assert "bank" in line
    assert "…" in line


def known(name: str) -> Recent:
    """Figures of a lock that was held ten times, for about a second."""
    return Recent({name: {f"h{bucket_of(1.0)}": 10}})


def test_the_mode_is_shown_unless_all_are_exclusive() -> None:
    shared = LockInfo("x", "shared", info(mode="shared").holders, (), 0)
    assert "MODE" in table([info(), shared], 80)[0]
    assert "shared" in table([info(), shared], 80)[2]


def test_holders_that_were_not_read_are_counted() -> None:
    holds, others = table([replace(info("exports"), holding=15)], 80)[1:]
    assert "(and" not in holds
    assert others.startswith("exports  (and 14 more)")


def test_a_lock_that_nobody_holds_is_listed_with_its_waiters() -> None:
    waited_for = LockInfo("x", "exclusive", (), info(waiters=1).waiters, 1)
    (line,) = table([waited_for], None)[1:]
    assert ["x", "(hand-off)", "-", "-", "1", "1.5s", "-"] == line.split()
    told = "\n".join(show.lines(waited_for, None, tell(waited_for)))
    assert "Free, and being handed to the first waiter. 1 waiter, for 1.5s." in told


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
