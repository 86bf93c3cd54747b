from __future__ import annotations

from demo_project.benchmark.figures import BOOK, Figures, WorkerReport, compare, summarise
from demo_project.benchmark.measurement import sent
from demo_project.benchmark.subjects import OURS
from redis_locks.testing.server import EmbeddedServer

BOOKS = {turn: Figures(tries, acquires, 1.0, 0.0, None) for turn, (tries, acquires) in BOOK.items()}


def test_percentages_against_the_original_lock_are_those_that_the_book_states() -> None:
    rows = [row for row in compare(BOOKS, 10) if row.lock == "lua"]
    percents = [row.percent for row in rows if row.percent is not None]
    # "more than 40%", "87%", and "over 100%" for five and ten.
    assert [41, 87, 107, 136] == [int(percent) for percent in percents]
    assert percents == [row.book_percent for row in rows]


def test_what_is_not_in_the_book_has_no_figures_of_it() -> None:
    (row,) = compare({("redis_locks", 3): Figures(5, 5, 1.0, 0.1, 2.0)}, 1)
    assert (None, None, None, None) == (
        row.percent,
        row.book_tries,
        row.book_acquires,
        row.book_percent,
    )


def test_fairness_is_that_of_the_clients_and_waits_are_those_of_all() -> None:
    slices = [
        [WorkerReport(4, [10, 10, 10]), WorkerReport(9, [500])],
        [WorkerReport(1, [10]), WorkerReport(6, [20, 20, 20])],
    ]
    assert Figures(20, 8, 1.0, 500 / 1e6, 3.0, [4, 4]) == summarise(slices, commands=24)


def test_commands_in_the_packets_of_others_are_counted_for_our_lock(
    private_server: EmbeddedServer,
) -> None:
    with private_server.client() as client:
        before = sent(client, OURS)
        client.execute_command("CLIENT", "REPLY", "ON")
        assert 1 == sent(client, OURS) - before


def test_without_an_acquire_there_are_no_commands_per_acquire() -> None:
    assert Figures(7, 0, 0.0, 0.0, None, [0]) == summarise([[WorkerReport(7, [])]], commands=7)
