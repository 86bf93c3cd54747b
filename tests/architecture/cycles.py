"""Count what one warm cycle passes through: `python -m tests.architecture.cycles VERB URL`.

`test_budgets` and `tests.benchmarks.instructions` run it.

A process of its own, with the settings a new project has, because fixtures, patched settings and
a test's database would be counted as well. It prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import django
import redis
from django.conf import settings

from tests.support.children import Child, interpreter

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "redis_locks"
WARMING: Final = 20
CYCLES: Final = 100
CONTENDERS: Final = 4
WITH_ADMIN: Final = (
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.admin",
)
"""What `startproject` installs beside: the admin looks for an `admin` in each app."""
KINDS: Final = {"exclusive": 1, "shared": 1, "set of 2": 2, "set of 4": 4, "permit": 1}
"""What the commands are counted of, by the number of locks. There is one permit: with more of them,
it is chance how many wait.
"""
_INLINED: Final = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}
"""Parts of a function that some versions of Python call like functions."""


def set_up(url: str, *apps: str) -> None:
    """Set up Django with this app, a database in memory, and nothing else that projects can omit.

    `apps` are added to that.
    """
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", *apps, "redis_locks"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        REDIS_LOCKS={"CONNECTION": url},
        LOGGING_CONFIG=None,
    )
    django.setup()


class Passed:
    """The functions of the package that one cycle called."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take what `sys.setprofile` tells."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{PACKAGE}{os.sep}"):
            self.codes.add(code)

    @contextmanager
    def counting(self) -> Any:
        """Count in this thread for as long as the block lasts."""
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)

    def functions(self) -> dict[str, list[str]]:
        """Return the names of the functions, by file."""
        found: dict[str, list[str]] = {}
        for code in self.codes:
            if code.co_name not in _INLINED:
                file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
                found.setdefault(file, []).append(code.co_qualname)
        return {file: sorted(found[file]) for file in sorted(found)}


def fewest(counted: list[Passed]) -> dict[str, list[str]]:
    """Return the calls of the shortest of some cycles.

    The others collect garbage, or send statistics.
    """
    return min(counted, key=lambda passed: len(passed.codes)).functions()


def stay_young() -> None:
    """Let no cycle, however slow the machine, have the process listen.

    Later cycles would ask about that.
    """
    from redis_locks.protocol import renewal

    renewal.YOUNG = 60.0  # type: ignore[misc]


def blocking() -> dict[str, list[str]]:
    """Count a blocking `with Lock(...)`."""
    from redis_locks import Lock

    lock = Lock("blocking")

    def cycle() -> None:
        with lock:
            pass

    return _counted(cycle)


def asynchronous() -> dict[str, list[str]]:
    """Count an `async with Lock(...)`, with what the event loop calls for it."""
    from redis_locks import Lock

    stay_young()
    lock = Lock("asynchronous")

    async def main() -> dict[str, list[str]]:
        counted = []
        for _ in range(WARMING):
            passed = Passed()
            with passed.counting():
                async with lock:
                    pass
            counted.append(passed)
        return fewest(counted)

    return asyncio.run(main())


def atomic() -> dict[str, list[str]]:
    """Count a blocking lock inside `atomic()`, until after COMMIT."""
    from django.db import transaction

    from redis_locks import Lock

    lock = Lock("atomic")

    def cycle() -> None:
        with transaction.atomic(), lock:
            pass

    return _counted(cycle)


def force_release() -> dict[str, list[str]]:
    """Count the end of a hold by an operator, in the operator's thread."""
    from redis_locks import Lock, LockError, inspection

    counted = []
    for _ in range(WARMING):
        hold = Lock("forced").acquire()
        passed = Passed()
        with passed.counting():
            inspection.force_release("forced")
        counted.append(passed)
        with suppress(LockError):  # it was ended
            hold.release()
    return fewest(counted)


def _counted(cycle: Callable[[], None]) -> dict[str, list[str]]:
    stay_young()
    counted = []
    for _ in range(WARMING):
        passed = Passed()
        with passed.counting():
            cycle()
        counted.append(passed)
    return fewest(counted)


def _lock(kind: str, wait: float) -> Any:
    """Make a lock of one of `KINDS`."""
    from redis_locks import Lock, Semaphore, redis_lock

    if kind == "permit":
        return Semaphore("permits", 1, wait=wait)
    if kind == "shared":
        return Lock("read", mode="shared", wait=wait)
    names = [f"{kind} {place}" for place in range(KINDS[kind])]
    return redis_lock(*names, wait=wait) if len(names) > 1 else Lock(names[0], wait=wait)


def commands(url: str, kind: str) -> dict[str, float]:
    """Count the server's commands for a free and a contended cycle, those of scripts included."""
    return {"free": _commands_free(url, kind), "contended": _commands_contended(url, kind)}


def _commands_free(url: str, kind: str) -> float:
    lock = _lock(kind, wait=0)
    with redis.Redis.from_url(url) as client:
        figures = []
        for _ in range(3):  # the least: now and then statistics are sent
            before = _calls(client)
            for _ in range(CYCLES):
                with lock:
                    pass
            figures.append((_calls(client) - before) / CYCLES)
    return min(figures)


def _commands_contended(url: str, kind: str) -> float:
    start = interpreter("-m", "tests.architecture.cycles", "contend", url, kind)
    with redis.Redis.from_url(url) as client, ExitStack() as stack:
        contenders = [stack.enter_context(Child(start)) for _ in range(CONTENDERS)]
        _hear(contenders)
        figures = []
        for _ in range(4):  # the least: on a busy machine a waiter asks now and then once more
            before = _calls(client)
            for contender in contenders:
                contender.say("go\n")
            _hear(contenders)
            figures.append((_calls(client) - before) / (CONTENDERS * CYCLES))
        return min(figures)


def _hear(contenders: list[Child]) -> None:
    for contender in contenders:
        assert contender.line()


def contend(kind: str) -> None:
    """Take one lock again and again beside other processes, when told to."""
    lock = _lock(kind, wait=30)
    for _ in range(WARMING):
        with lock:
            pass
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    # What a process does at its end is no part of a cycle: it waits for a next line until it is
    # killed.
    for _ in sys.stdin:
        for _ in range(CYCLES):
            with lock:
                pass
        sys.stdout.write("done\n")
        sys.stdout.flush()


def _calls(client: redis.Redis) -> int:
    """The calls so far, except those of this question."""
    stats: Any = client.info("commandstats")
    return sum(stats[name]["calls"] for name in stats if name != "cmdstat_info")


def modules() -> list[str]:
    """Return the modules of the package that `django.setup()` has imported."""
    return sorted(name for name in sys.modules if name.partition(".")[0] == "redis_locks")


def main(verb: str, url: str, kind: str = "exclusive") -> None:
    """Count one thing and print it."""
    set_up(url, *(WITH_ADMIN if verb == "modules-with-admin" else ()))
    if verb == "contend":
        contend(kind)
        return
    counts: dict[str, Callable[[], Any]] = {
        "modules": modules,
        "modules-with-admin": modules,
        "blocking": blocking,
        "async": asynchronous,
        "atomic": atomic,
        "force-release": force_release,
        "commands": lambda: commands(url, kind),
    }
    sys.stdout.write(json.dumps(counts[verb]()))


if __name__ == "__main__":
    main(*sys.argv[1:])
