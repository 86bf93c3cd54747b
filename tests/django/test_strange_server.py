"""What a strange server replies, or strange data in ours, ends as one error, whatever is asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from redis_locks import LockBackendError, inspection, statistics
from tests.support.strange import REPLIES, strange_server

pytestmark = pytest.mark.usefixtures("redis_server")

QUESTIONS: dict[str, Callable[[], Any]] = {
    "names": inspection.names,
    "locks": inspection.locks,
    "some locks": lambda: inspection.locks(names=["a", "b"]),
    "lock": lambda: inspection.lock("a"),
    "parties": inspection.parties,
    "blocking": lambda: inspection.blocking("abcdefghijklmnop.1"),
    "contended": inspection.contended,
    "force_release": lambda: inspection.force_release("a"),
    "force_release tokens": lambda: inspection.force_release("a", tokens=["t"]),
    "drain": lambda: inspection.drain("host", dry_run=True),
    "statistics": lambda: statistics.read("hour"),
    "events": lambda: statistics.events("a"),
    "holds": lambda: statistics.holds("a"),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_that_cannot_be_read_is_an_error_of_the_backend(question: str, reply: str) -> None:
    with strange_server(REPLIES[reply]):
        refused(QUESTIONS[question])


def refused(call: Callable[[], Any]) -> None:
    """Have it answer, as some of the replies are like ours, or raise the one error."""
    with suppress(LockBackendError):
        call()


def test_most_replies_are_found_out() -> None:
    found = []
    for reply in ("nothing", "a number", "texts", "nested", "a line without end"):
        with (
            strange_server(REPLIES[reply]),
            pytest.raises(LockBackendError, match="sent a reply that cannot be read") as raised,
        ):
            inspection.lock("a")
        found.append(type(raised.value.__cause__))
    assert {*found} <= {TypeError, ValueError}
