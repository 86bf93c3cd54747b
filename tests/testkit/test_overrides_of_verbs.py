"""Under `override_locks` every public verb works, or says which server it wants.

A new verb that is forgotten fails here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from redis_locks import Attempt, Hold, Lock, LockError, Semaphore, inspection, run_once, statistics
from redis_locks.testing import override_locks
from tests.architecture import surface

WAITER = inspection.WaiterInfo("a.1", 0.0, "exclusive", "host", 1, "thread", "label", "x")
GIVEN = {"name": "x", "host": "x", "session": "x", "waiter": WAITER}

HOLD: dict[str, tuple[Any, ...]] = {
    "check": (),
    "commit": ([("SET", "a", "1")],),
    "detach": (),
    "downgrade": (),
    "extend": (5,),
    "release": (),
    "upgrade": (),
}
"""The verbs of a hold, with arguments; each has an async twin, unless it asks nobody."""

ATTEMPT: dict[str, tuple[Any, ...]] = {"done": (), "fail": ("no paper",), "extend": (5,)}
MADE = {"adopt", "aadopt", "current"}
"""What is called without a hold."""

WANT_A_SERVER = {"commit"}
"""The verbs that work on data in Redis."""


@pytest.fixture(autouse=True)
def no_server() -> Iterator[None]:
    with override_settings(REDIS_LOCKS={"CONNECTION": "unix:///nonexistent/nobody-listens.sock"}):
        yield


def verbs_of(cls: type) -> set[str]:
    return {name for name in surface.members(cls) if inspect.isroutine(getattr(cls, name, None))}


def call(verb: str, target: Any, arguments: tuple[Any, ...]) -> None:
    try:
        result = getattr(target, verb)(*arguments)
        if inspect.isawaitable(result):
            asyncio.run(_result_of(result))
    except RuntimeError as error:
        if verb.removeprefix("a") not in WANT_A_SERVER:
            raise
        assert "redis_locks or by override_locks('server')" in str(error)  # noqa: PT017


async def _result_of(result: Any) -> Any:
    return await result


def twins(verbs: dict[str, tuple[Any, ...]], cls: type) -> dict[str, tuple[Any, ...]]:
    both = {name: arguments for verb, arguments in verbs.items() for name in (verb, f"a{verb}")}
    return {verb: arguments for verb, arguments in both.items() if hasattr(cls, verb)}


@pytest.mark.parametrize("kind", [Lock, Semaphore])
@pytest.mark.parametrize(("verb", "arguments"), twins(HOLD, Hold).items())
def test_a_verb_of_a_hold(verb: str, arguments: tuple[Any, ...], kind: type) -> None:
    if kind is Semaphore and verb.removeprefix("a") in {"upgrade", "downgrade"}:
        pytest.skip("a permit has no mode")
    with override_locks("granted"):
        hold = kind("x").acquire() if kind is Lock else kind("x", 2).acquire()
        call(verb, hold, arguments)
        if verb not in {"detach", "adetach"}:
            hold.release()
            assert not inspection.names()


def test_a_hold_that_is_given_away() -> None:
    with override_locks("granted"):
        first = Lock("x").acquire()
        second = Hold.adopt(first.detach())
        assert second.fencing_token == first.fencing_token
        third = asyncio.run(Hold.aadopt(second.detach()))
        third.release()
        assert not inspection.names()


@pytest.mark.parametrize(("verb", "arguments"), twins(ATTEMPT, Attempt).items())
def test_a_verb_of_an_attempt(verb: str, arguments: tuple[Any, ...]) -> None:
    with override_locks("granted"):
        attempt = run_once("x").acquire()
        call(verb, attempt, arguments)
        attempt.release()


@pytest.mark.parametrize("outcome", ["granted", "busy", "lost"])
@pytest.mark.parametrize("module", [inspection, statistics], ids=lambda each: each.__name__)
def test_a_function_that_looks(module: Any, outcome: Any) -> None:
    with override_locks(outcome):
        with suppress(LockError):
            Lock("y", wait=0).__enter__().release()
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                wanted = inspect.signature(function).parameters
                given = {word: value for word, value in GIVEN.items() if word in wanted}
                result = function(**given)
                if inspect.isawaitable(result):
                    asyncio.run(_result_of(result))


def test_no_verb_is_forgotten() -> None:
    assert verbs_of(Hold) - MADE == twins(HOLD, Hold).keys()
    assert verbs_of(Attempt) - verbs_of(Hold) - MADE <= twins(ATTEMPT, Attempt).keys()


@pytest.fixture
def browser(db: None) -> Client:
    found = Client()
    found.force_login(User.objects.create_superuser("admin"))
    return found


@pytest.mark.parametrize("outcome", ["granted", "busy", "lost", "unavailable"])
def test_the_admin_renders(browser: Client, outcome: Any) -> None:
    pages = [
        *(reverse(f"admin:redis_locks_lock_{page}") for page in ("changelist", "data", "stats")),
        *(reverse(f"admin:redis_locks_lock_{page}") for page in ("badge", "waits")),
        *(
            reverse(f"admin:redis_locks_lock_{page}", args=["x"])
            for page in ("change", "live", "release", "history", "cancel")
        ),
    ]
    with override_locks(outcome):
        hold = None
        with suppress(LockError):
            hold = Lock("x").acquire(wait=0)
        try:
            answers = {page: browser.get(page, follow=True) for page in pages}
        finally:
            with suppress(LockError):
                if hold is not None:
                    hold.release()
    statuses = {page: answer.status_code for page, answer in answers.items()}
    if outcome == "unavailable":  # what a page asks for while it is open says so
        assert {200, 204, 503} == set(statuses.values())
        assert 200 == statuses[pages[0]]
    else:
        assert dict.fromkeys(pages, 200) == statuses
        lists_it = f'href="{pages[5]}'.encode() in answers[pages[0]].content
        assert lists_it is (outcome == "granted")
