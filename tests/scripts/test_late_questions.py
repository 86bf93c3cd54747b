"""A question reaches the server late: its token has asked again on another connection.

The token has ended, or still waits.

The arguments that end with a number are those of a question, or an end, after so many questions
were broken off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks import scripts
from redis_locks.run_once import scripts as run_once
from tests.scripts.bench import FOR_EVER, WHO, Bench

MINUTES = 60_000
SET = ("a", "b")
ROWS = ("M", "M:a", "M:b")


Question = Callable[..., list[str]]


def asking(
    mode: str = "exclusive", names: tuple[str, ...] = (), wait: int = FOR_EVER, first: int = 1
) -> Question:
    """A question of `acquire`; `number` questions of its token were broken off before."""

    def ask(bench: Bench, token: str, number: int = 0) -> list[str]:
        how = (0, number) if number else (first,)
        argv = (MINUTES, mode, WHO, token, wait, *how)
        return bench.words(scripts.ACQUIRE, token, *argv, names=names)

    return ask


def taking(bench: Bench, token: str, number: int = 0) -> list[str]:
    how = (0, 0, number) if number else (1, 0)
    argv = (MINUTES, "intent:1:exclusive", WHO, token, 1, "1,2,3", *how)
    return bench.words(scripts.TAKE, token, *argv, names=ROWS)


def beginning(bench: Bench, token: str, number: int = 0) -> list[str]:
    argv = (MINUTES, WHO, token, 3, MINUTES, *([number] if number else []))
    return bench.words(run_once.BEGIN, token, *argv)


QUESTIONS: dict[str, tuple[Question, tuple[str, ...]]] = {
    "exclusive": (asking(), ()),
    "exclusive, without waiting": (asking(wait=0), ()),
    "exclusive, without a reply": (asking(first=2), ()),
    "shared": (asking("shared"), ()),
    "a permit": (asking("permit:1"), ()),
    "a set": (asking(names=SET), SET),
    "rows": (asking("intent:1:exclusive", names=ROWS), ROWS),
    "take": (taking, ROWS),
    "run_once": (beginning, ()),
}
"""Everything that grants to a new token, and the locks that it is for."""


def release(bench: Bench, token: str, names: tuple[str, ...]) -> None:
    bench.release(token, names=names)


def give_up(bench: Bench, token: str, names: tuple[str, ...]) -> None:
    bench.give_up(token, names=names)


def commit(bench: Bench, token: str, names: tuple[str, ...]) -> None:
    bench.words(scripts.COMMIT, token, 3, "INCR", "{x}" + bench.name, names=names)
    bench.client.delete("{x}" + bench.name)


def force_release(bench: Bench, token: str, names: tuple[str, ...]) -> None:
    for each in names or ("",):
        bench.words(scripts.FORCE_RELEASE, "operator" + each, token, names=(each,) if each else ())


def adopt(bench: Bench, token: str, names: tuple[str, ...]) -> None:
    bench.words(scripts.ADOPT, token, "heir", MINUTES, WHO, 0, names=names)
    bench.release("heir", names=names)


ENDS = [release, give_up, commit, force_release, adopt]


def holders(bench: Bench, names: tuple[str, ...]) -> list[str]:
    return [token for name in names or ("",) for token in bench.holders(name)]


def in_line(bench: Bench, names: tuple[str, ...]) -> list[str]:
    return [token for name in names or ("",) for token in bench.queued(name)]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("ask", "names"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_token_that_has_ended_is_never_granted_again(
    bench: Bench, ask: Question, names: tuple[str, ...], end: Any
) -> None:
    ask(bench, "t", 1)
    assert {"t"} == set(holders(bench, names))
    end(bench, "t", names)
    assert [] == holders(bench, names)
    ask(bench, "t")
    assert ([], []) == (holders(bench, names), in_line(bench, names))


@pytest.mark.parametrize(("ask", "names"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_token_that_was_given_up_before_its_question_came_is_never_granted(
    bench: Bench, ask: Question, names: tuple[str, ...]
) -> None:
    bench.words(scripts.GIVE_UP, "t", "exclusive", 1, names=names)
    ask(bench, "t")
    assert ([], []) == (holders(bench, names), in_line(bench, names))


@pytest.mark.parametrize(("ask", "names"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_that_was_repeated_is_late_itself_when_its_token_asked_once_more(
    bench: Bench, ask: Question, names: tuple[str, ...]
) -> None:
    ask(bench, "t", 2)
    bench.release("t", names=names)
    ask(bench, "t", 1)
    assert ([], []) == (holders(bench, names), in_line(bench, names))


@pytest.mark.parametrize(("ask", "names"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_token_that_was_refused_neither_stands_in_line_nor_holds_late(
    bench: Bench, ask: Question, names: tuple[str, ...]
) -> None:
    bench.acquire("holder", names=names)
    asking(wait=0, names=names)(bench, "t", 1)
    ask(bench, "t")
    assert [] == in_line(bench, names)
    bench.release("holder", names=names)
    ask(bench, "t")
    assert [] == holders(bench, names)


def test_a_late_move_does_not_take_the_hold_that_was_moved_back(bench: Bench) -> None:
    bench.acquire("t")
    bench.words(scripts.ADOPT, "t", "way", MINUTES, WHO, 0)
    bench.words(scripts.ADOPT, "way", "t", MINUTES, WHO, 0)
    bench.words(scripts.GIVE_UP, "way", "exclusive", 1)
    assert ["0"] == bench.words(scripts.ADOPT, "t", "way", MINUTES, WHO, 0)
    assert ["t"] == bench.holders()


def test_a_hold_moves_back_to_a_token_that_asked_more_than_once(bench: Bench) -> None:
    asking()(bench, "t", 1)
    bench.words(scripts.ADOPT, "t", "way", MINUTES, WHO, 0)
    assert "1" == bench.words(scripts.ADOPT, "way", "t", MINUTES, WHO, 0, 1)[0]
    assert ["t"] == bench.holders()


def test_others_take_and_hold_the_lock_as_ever(bench: Bench) -> None:
    asking()(bench, "t", 1)
    bench.release("t")
    assert "1" == bench.acquire("other")[0]
    bench.queue_up("next")
    asking()(bench, "t")
    assert ("other", ["next"]) == (bench.holder(), bench.queued())


def test_a_late_question_is_told_the_number_with_which_its_token_may_ask_on(bench: Bench) -> None:
    """The message of a task queue has one token, wherever it is delivered, and however often."""
    ask = asking()
    ask(bench, "t", 3)
    bench.release("t")
    refused, number = ask(bench, "t")
    assert "4" == refused
    assert "1" == ask(bench, "t", int(number))[0]


def test_a_token_whose_connection_does_not_break_leaves_no_mark(bench: Bench) -> None:
    for ask, names in QUESTIONS.values():
        ask(bench, "t")
        bench.release("t", names=names)
        bench.give_up("t", names=names)
    assert not [key for key in bench.all_keys() if b":late:" in key]
    assert not [key for key in bench.all_keys() if b":lock:" in key and _is_hinted(bench, key)]


def test_marks_outlive_what_the_network_may_still_deliver_and_then_go(bench: Bench) -> None:
    """TCP gives up after 924 s."""
    for number in range(1000):
        asking()(bench, f"t{number}", 1)
        bench.release(f"t{number}")
    marks = [key for key in bench.all_keys() if b":late:" in key]
    assert 1000 == len(marks)
    assert all(924_000 < bench.client.pttl(mark) <= 1_200_000 for mark in marks)
    assert {b"state", b"late"} == set(bench.client.hkeys(bench.keys.lock))


def test_the_lock_forgets_that_it_has_marks_when_they_are_gone(bench: Bench) -> None:
    asking()(bench, "t", 1)
    bench.release("t")
    assert _is_hinted(bench, bench.keys.lock)
    bench.client.hset(bench.keys.lock, "late", 1)
    bench.acquire("other")
    assert "other" == bench.holder()
    assert not _is_hinted(bench, bench.keys.lock)


def _is_hinted(bench: Bench, lock: bytes) -> bool:
    return bool(bench.client.hexists(lock, "late"))
