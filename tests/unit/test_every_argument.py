"""Every argument of every public callable refuses what it cannot be, naming itself and the value.

A new argument fails here until it is in the table, with what it must refuse. Twins for async code
share their checks; `compat` does as redis-py does, which its own tests compare.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from math import inf, nan
from typing import Any

import pytest

import redis_locks
from redis_locks import Hold, Lock, inspection, optimistic, run_once, statistics
from redis_locks.rows import RedisLockQuerySet, lock_model, lock_rows
from tests.architecture.surface import keywords
from tests.ledger.models import Counter

HUGE = 10**400
"""No float is as large."""
TEXT, FLAG, SECONDS = (
    [5, b"x", ["x"], object()],
    ["yes", 1, None],
    ["5", -1, True, nan, inf, -inf, HUGE],
)
COUNT = ["5", 1.5, True, 0]
CLASS = [5, str, object()]
FUNCTION_OR_TEXT = [5, b"x", object()]

REFUSED: dict[str, list[Any]] = {
    "above": ["5", -1, True, nan, inf, HUGE],
    "at_least": SECONDS,
    "attempts": COUNT,
    "capacity": [*COUNT, -1, 10_000_000],
    "commit_guard": FLAG,
    "conflict_status": ["409", 99],
    "cooldown": SECONDS,
    "crash_release": FLAG,
    "database": [5, ""],
    "decoder": CLASS,
    "done_ttl": [*SECONDS, 0, None],
    "dry_run": FLAG,
    "encoder": CLASS,
    "escalate_after": COUNT,
    "escalate_to": FUNCTION_OR_TEXT,
    "function": [None, "f", int],
    "host": [*TEXT, ""],
    "keys": [5, b"x", ""],
    "label": TEXT,
    "locks": TEXT,
    "lease": [*SECONDS, 0, None],
    "key": TEXT,
    "limit": ["5", 1.5, True, -1],
    "max_attempts": COUNT,
    "max_waiting": [*COUNT, -1],
    "max_hold": [*SECONDS, 0, None],
    "mode": ["update", "write", "", None, 5],
    "model": [None, "ledger.Counter", object, type, Counter.objects],
    "more": [5, b"x", ""],
    "name": [*FUNCTION_OR_TEXT, ""],
    "names": ["x", 5, [5]],
    "nowait": FLAG,
    "of": ["owner", 5, [5]],
    "on_conflict": ["never", 5],
    "on_duplicate": ["raise", None],
    "others": [5],
    "on_unavailable": ["never", 5, None],
    "operation_id": FUNCTION_OR_TEXT,
    "pattern": TEXT,
    "period": ["week", None],
    "pipe": [None, "GET", object()],
    "read": [
        *(5, ["GET"], [()], [5], [b"GET"], [("GET", None)], [("GET", True)]),
        *([("SET", "a", 1)], [("incr", "x")], [("EVAL", "", 0)]),
    ],
    "reentrant": FLAG,
    "record": [5, "x", Counter],
    "remember": SECONDS,
    "renew": FLAG,
    "replies": FLAG,
    "replicas": ["1", 1.5, True, -1],
    "rows": [None, "Counter", [1], Counter],
    "rule": ["wait", None],
    "scope": ["request", None],
    "seconds": SECONDS,
    "severity": ["bad", None],
    "session": [*TEXT, ""],
    "skip_locked": FLAG,
    "store_result": FLAG,
    "text": [5, b"x", None, "not signed"],
    "tokens": ["x", 5, [5]],
    "until": ["begin", None],
    "using": TEXT,
    "wait": SECONDS,
    "waiter": [None, "x", object()],
    "waiters": [*COUNT, nan, inf, HUGE],
    "watch": [5, b"x", [], [5], ""],
    "within": SECONDS,
}
"""By argument, what none of those that have one so named may take."""


SPELLED = {"more": "name", "keys": "key"}
"""Arguments without a name that a caller sees."""

SECRET = {"text", "others"}
"""What shows no value: a hold's text, and an argument that there is not."""

NO_CALLS = {
    "Attempt",
    "Hold",
    "LockEvent",
    "RedisLockMixin",
    "RunEvent",
    "RunOnceRecord",
    "RunStatus",
}
"""What users are given; and a mixin, whose attributes are checked as those of `redis_lock`."""


def a_function(pipe: Any) -> None: ...


class Call:
    """How to call something public, and what its arguments are."""

    def __init__(self, function: Any, call: Any = None, /, **others: Any) -> None:
        self.call = call or function
        self.others = others
        plain = [each for each in inspect.signature(function).parameters if each != "options"]
        self.arguments = [*plain, *keywords(function)]


def held(verb: str) -> Call:
    """A method of a hold."""

    def call(**options: Any) -> Any:
        hold = Lock("every argument", mode="shared").acquire(wait=0)
        assert hold is not None
        with hold:
            return getattr(hold, verb)(**options)

    return Call(partial(getattr(Hold, verb), None), call)


def run(function: Any = a_function, keys: Any = "key", **options: Any) -> Any:
    given = () if "watch" in options else (keys,)
    return optimistic.run(function, *given, **options)


WAITER = inspection.WaiterInfo("a.1", 0.0, "exclusive", "host", 1, "thread", "label", "x")

CALLS = {
    "redis_lock": Call(
        redis_locks.redis_lock,
        lambda name="x", more="y", **options: redis_locks.redis_lock(name, more, **options),
    ),
    "Lock": Call(Lock, lambda name="x", more="y", **options: Lock(name, more, **options)),
    "Semaphore": Call(redis_locks.Semaphore, name="x", capacity=2),
    "Lock.acquire": Call(Lock("x").acquire),
    "Lock.hold": Call(Lock("x").hold),
    "run_once": Call(run_once, name="x"),
    "unique_task": Call(redis_locks.unique_task, name="x"),
    "run_once.acquire": Call(run_once("x").acquire),
    # What names something is looked at when it meets its function.
    "optimistic": Call(
        optimistic, lambda **options: optimistic(**{"watch": "key", **options})(a_function)
    ),
    "optimistic.run": Call(optimistic.run, run),
    "optimistic.conflicts": Call(optimistic.conflicts),
    "key_beside": Call(redis_locks.key_beside, name="x", key="y"),
    "LockAlert": Call(redis_locks.LockAlert, rule="lost"),
    "lock_timeout": Call(redis_locks.lock_timeout),
    "lock_deadline": Call(redis_locks.lock_deadline),
    "Hold.adopt": Call(Hold.adopt, text="x"),
    **{f"Hold.{verb}": held(verb) for verb in ("extend", "detach", "upgrade", "commit")},
    "lock_rows": Call(lock_rows, rows=Counter.objects.all()),
    "lock_rows.acquire": Call(lock_rows(Counter.objects.none()).acquire),
    "lock_model": Call(lock_model, model=Counter),
    "select_for_lock": Call(RedisLockQuerySet(Counter).select_for_lock),
    "statistics.read": Call(statistics.read),
    "statistics.events": Call(statistics.events, name="x"),
}
for each in inspection.__all__:
    asks = getattr(inspection, each)
    if inspect.isfunction(asks) and not inspect.iscoroutinefunction(asks):
        wanted = {"name": "x", "host": "x", "session": "x", "waiter": WAITER}
        known = inspect.signature(asks).parameters
        others = {word: value for word, value in wanted.items() if word in known}
        CALLS[f"inspection.{each}"] = Call(asks, **others)


def parts(value: object) -> Iterator[object]:
    """A value, and what it is made of."""
    yield value
    if isinstance(value, list | tuple):
        for each in value:
            yield from parts(each)


def is_shown(value: object, text: str) -> bool:
    """Whether an error says which value it is about."""
    shown = any(repr(each) in text for each in parts(value))
    return shown or (not value and ("empty" in text or "at least one" in text))


def accepted(call: Call, argument: str, value: object) -> str | None:
    """What is wrong with how it refuses a value; None if nothing."""
    try:
        call.call(**{**call.others, argument: value})
    except (TypeError, ValueError) as error:
        named = SPELLED.get(argument, argument) in str(error)
        if named and (argument in SECRET or is_shown(value, str(error))):
            return None
        return f"{argument}={value!r}: {error}"
    return f"{argument}={value!r} is accepted"


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_is_refused_by_name(redis_server: object, name: str) -> None:
    call = CALLS[name]
    unknown = [argument for argument in call.arguments if argument not in REFUSED]
    assert [] == unknown
    found = [
        accepted(call, argument, value)
        for argument in call.arguments
        for value in REFUSED[argument]
    ]
    assert [] == [wrong for wrong in found if wrong]


@pytest.mark.parametrize("name", ["redis_lock", "Lock", "Semaphore", "run_once", "lock_rows"])
def test_an_argument_that_there_is_not_is_answered_with_those_that_there_are(name: str) -> None:
    call = CALLS[name]
    with pytest.raises(TypeError, match=r"has no argument 'wiat'; its options are .*\blease\b"):
        call.call(**{**call.others, "wiat": 3})


def test_every_public_callable_is_in_the_table() -> None:
    public = {name: getattr(redis_locks, name) for name in redis_locks.__all__}
    errors = {
        name
        for name, each in public.items()
        if inspect.isclass(each) and issubclass(each, Exception)
    }
    assert set(public) - errors - NO_CALLS <= set(CALLS)


@pytest.mark.parametrize(
    "make",
    [
        partial(Lock, "a"),
        partial(redis_locks.redis_lock, "a"),
        partial(redis_locks.Semaphore, "a", 2),
        partial(run_once, "a"),
        partial(lock_rows, Counter.objects.all()),
        partial(lock_model, Counter),
    ],
)
def test_an_unknown_argument_is_refused_with_those_that_there_are(make: Any) -> None:
    with pytest.raises(TypeError, match=r"has no argument 'timeout'; .*\blabel, lease\b"):
        make(timeout=5)


def test_an_unknown_argument_of_a_transaction_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(TypeError, match=r"has no argument 'timeout'; .*\bwait, watch\b"):
        optimistic.run(lambda pipe: None, "key", timeout=5)  # type: ignore[call-arg]
