"""Who asks so that only the grant wakes it up comes to the same end as others, whatever happens meanwhile."""

from __future__ import annotations

from threading import current_thread, main_thread
from typing import Any
from unittest.mock import patch

import pytest

from redis_locks import scripts
from redis_locks.drivers.blocking import BlockingLink
from redis_locks.protocol import acquire, silent_questions
from redis_locks.protocol.silent_questions import SKIP_REPLY
from tests.internals.acquire.interrupted_cases import (
    before_it_asks,
    before_it_listens,
    when_granted,
    when_handed_on,
    when_it_gives_its_connection_back,
    when_it_stands_in_line,
)
from tests.internals.acquire.stage import Stage, lose, without_messages
from tests.internals.acquire.waiting_cases import (
    broken_in_line,
    cancelled,
    handed_on,
    long,
    one_of_many,
    out_of_time,
    stopped_past_the_grant,
    told_to_look,
)
from tests.internals.acquire.ways import Case, OneWay, Seen
from tests.support import stored
from tests.support.world import PATIENCE, keys_of


class AnyKeys(frozenset[bytes]):
    """All locks were waited for briefly."""

    def issuperset(self, _: object) -> bool:
        return True


def free(stage: Stage) -> None:
    """It is granted at once, and nobody was in the way."""
    with stage.lock as hold:
        stage.checked(hold)


def forgotten(stage: Stage) -> None:
    """The server does not know the script any more, and cannot say so."""
    stage.client.script_flush()
    with stage.lock as hold:
        stage.checked(hold)


def granted_but_not_told(stage: Stage) -> None:
    with without_messages(), stage.lock as hold:
        stage.checked(hold)


def lost_on_the_way(stage: Stage) -> None:
    """It was granted, and its connection is gone before it heard."""
    with stage.asking(scripts.ACQUIRE, after=lose), stage.lock as hold:
        stage.checked(hold)


def beside_sharers(stage: Stage) -> None:
    """Not by the short way of the script."""
    with stage.again(mode="shared"):
        waiting = stage.in_line()
    stage.end(waiting)


def behind_the_dead(stage: Stage) -> None:
    """Who stands first does not live any more."""
    lock = keys_of(stage.lock.name).lock
    claim = "0 1 exclusive 60000 nobody 0 1 dead"
    stored.set_line(stage.client, lock, {"dead": claim})
    with stage.lock as hold:
        stage.checked(hold)


ALONE: list[Case] = [
    free,
    forgotten,
    granted_but_not_told,
    lost_on_the_way,
    behind_the_dead,
    before_it_asks,
    when_granted,
    when_it_gives_its_connection_back,
]

WAITING: list[Case] = [
    beside_sharers,
    out_of_time,
    handed_on,
    cancelled,
    broken_in_line,
    long,
    told_to_look,
    stopped_past_the_grant,
    one_of_many,
    when_it_stands_in_line,
    before_it_listens,
    when_handed_on,
]


INTERRUPTED = {long, before_it_listens, when_handed_on}
"""Cases in which the wait ended, or went on for long, before anybody said what was in the way."""


def told(seen: Seen, case: Case) -> list[str]:
    """What was told, but for who was in the way: of that, a silent question learns nothing."""
    unknown = ("contended", "waiting") if case in INTERRUPTED else ()
    events = [event for event in seen.events if not event.startswith(unknown)]
    return ["contended:" if event.startswith("contended:") else event for event in events]


@pytest.mark.parametrize("case", [*ALONE, *WAITING], ids=lambda case: case.__name__)
def test_asked_silently_it_comes_to_the_same_end(
    case: Case, one_way: OneWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    plain = BlockingLink.message_after

    def message_after(link: BlockingLink, commands: bytes, *args: Any) -> bytes | None:
        asked.append(commands)
        return plain(link, commands, *args)

    def is_so(_: object) -> bool:
        return case in ALONE or current_thread() is not main_thread()

    aloud = one_way(case)
    monkeypatch.setattr(BlockingLink, "message_after", message_after)
    monkeypatch.setattr(silent_questions, "LEAST_LEASE_MS", 0)
    # Long enough that a busy machine answers within it: else it asks once more, aloud.
    monkeypatch.setattr(silent_questions, "SILENCE", 0.5 if case in ALONE else 2.0)
    if case in ALONE:
        # However late a busy machine tells of a broken connection: nobody has waited.
        monkeypatch.setattr(acquire, "_DEAD", PATIENCE)
    always = property(lambda link: AnyKeys() if is_so(link) else None, lambda *_: None)
    with patch.object(BlockingLink, "quick_keys", always):
        silently = one_way(case)
    assert bool(asked) == (case not in (out_of_time, before_it_asks, before_it_listens))
    assert all(commands.startswith(SKIP_REPLY) for commands in asked)
    assert (aloud.outcome, aloud.notes, aloud.left) == (
        silently.outcome,
        silently.notes,
        silently.left,
    )
    assert told(aloud, case) == told(silently, case)
