"""What one process does: its sections, in threads or tasks, each written down as it happens.

The same functions run in both, as in the product; see `ThreadOrTask`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.history.plan import PERMITS, ROWS, Plan, Section
from tests.support.thread_or_task import ThreadOrTask

CLUSTER = "redis+cluster://"

STEP = 0.005
"""Seconds between two looks of a holder at its hold."""

STAYS = {"stay": 4, "linger": 50}
"""How often a holder looks at its hold."""

RETURNS = 20.0
"""Seconds within which a server that a fault stopped is back."""


class Log:
    """Where a process writes what happens, at once, so that a killed one has said it all."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, what: str, *, at: float | None = None, **details: Any) -> None:
        event = {"what": what, "at": time.monotonic() if at is None else at, **details}
        os.write(self._file, json.dumps(event).encode() + b"\n")


def configure(url: str, server: str, folder: Path, plan: Plan) -> None:
    """Set up Django, a database with rows to lock, and locks at `url`, a way to `server`."""
    import django
    from django.conf import settings

    logging.disable()
    warnings.simplefilter("ignore", ResourceWarning)
    settings.configure(
        SECRET_KEY="only for tests",  # noqa: S106
        INSTALLED_APPS=["redis_locks", "tests.ledger"],
        REDIS_LOCKS=settings_of(url, plan),
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": str(folder / "rows.sqlite3"),
                "OPTIONS": {"timeout": 20},
            }
        },
        DATA_URL=server,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()


def settings_of(url: str, plan: Plan) -> dict[str, Any]:
    """Return REDIS_LOCKS for a plan."""
    return {
        "CONNECTION": url,
        "PARTITIONS": plan.partitions,
        "REPLICAS": plan.replicas,
        "STATISTICS": False,
    }


def client_of(url: str) -> Any:
    """Return redis-py's own client of a server or a cluster."""
    from redis import Redis
    from redis.cluster import ClusterNode, RedisCluster

    if not url.startswith(CLUSTER):
        return Redis.from_url(url)
    addresses = [address.split(":") for address in url.removeprefix(CLUSTER).split(",")]
    nodes = [ClusterNode(host, int(port)) for host, port in addresses]
    return RedisCluster(startup_nodes=nodes)


def data_key(lock: str) -> str:
    """Return the key of the number that commits count up under a lock."""
    from redis_locks import key_beside

    return key_beside(lock, f"data:{lock}")


def prepare(server: str, folder: str, plan: Plan) -> None:
    """Make the rows that workers lock; the main function of a process."""
    configure(server, server, Path(folder), plan)
    from django.db import connection

    from tests.ledger.models import Counter

    with connection.schema_editor() as editor:
        editor.create_model(Counter)
    Counter.objects.bulk_create(Counter(name=str(number)) for number in range(1, ROWS + 1))


def work(
    number: int, url: str, server: str, folder: str, plan: Plan, done: list[int], log: str
) -> None:
    """Run a worker's sections, but for those `done` in each unit; a process's main function."""
    configure(url, server, Path(folder), plan)
    note, worker = Log(Path(log)), plan.workers[number]
    units = [
        Unit(f"{number}.{place}", sections, begun, worker.tasks, Path(folder), note)
        for place, (sections, begun) in enumerate(zip(worker.units, done, strict=True))
    ]
    if worker.tasks:
        asyncio.run(_all(units))
    else:
        threads = [threading.Thread(target=unit.run_here) for unit in units]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    note("end")


async def _all(units: list[Unit]) -> None:
    await asyncio.gather(*(unit.run() for unit in units))


class Unit(ThreadOrTask):
    """One thread or task: what waits and holds as one."""

    def __init__(
        self,
        name: str,
        sections: tuple[Section, ...],
        begun: int,
        tasks: bool,
        folder: Path,
        note: Log,
    ) -> None:
        super().__init__(tasks=tasks)
        self._name = name
        self._sections = sections
        self._begun = begun
        self._folder = folder
        self._note = note

    def run_here(self) -> None:
        """Run without a loop, where nothing suspends."""
        from django.db import connections

        from redis_locks.drivers.base import run_blocking

        run_blocking(self.run())
        connections.close_all()

    async def run(self) -> None:
        for place in range(self._begun, len(self._sections)):
            try:
                await self._run(f"{self._name}.{place}", self._sections[place])
            except Exception as error:  # noqa: BLE001 - written down
                self._note("broken", text=f"{self._name}.{place}: {type(error).__name__}: {error}")
                await self._sleep(0.05)

    async def _run(self, hold: str, section: Section) -> None:
        from redis_locks import LockError

        if section.kind == "adopt":
            await self._adopt(hold, section)
            return
        self._note("ask", hold=hold, lease=section.lease)
        try:
            found = await self._acquire(section)
        except LockError as error:
            self._tell(hold, error)
            return
        except TimeoutError:
            found = None
        if not found:
            self._note("no", hold=hold)
            return
        locks = dict.fromkeys(section.names, section.mode)
        if section.kind == "model":
            locks = {"rows": section.mode}
        elif section.kind in {"rows", "skip"}:
            locks = {f"row {row.pk}": section.mode for row in found}
            locks["rows"] = f"intent:{section.mode}"
        await self._inside(hold, section, found, locks)

    async def _acquire(self, section: Section) -> Any:
        from redis_locks import Lock, Semaphore
        from redis_locks.rows import lock_model, lock_rows
        from tests.ledger.models import Counter

        options: dict[str, Any] = {"lease": section.lease, "renew": section.renew}
        rows = Counter.objects.filter(pk__in=section.names) if section.names[:1] < ("a",) else None
        lock: Any
        if section.kind == "permit":
            lock = Semaphore(*section.names, PERMITS[section.names[0]], **options)
        elif section.kind == "model":
            lock = lock_model(Counter, section.mode, **options)
        elif section.kind == "rows":
            lock = lock_rows(rows, section.mode, **options)
        elif section.kind == "skip":
            lock = lock_rows(rows, section.mode, skip_locked=True, **options)
            return await self._call(lock, "acquire")
        else:
            # So that `_nest` finds it: the hold is acquired by hand, and has no block.
            lock = Lock(*section.names, mode=section.mode, reentrant="thread", **options)
        if section.wait < 0 and self._tasks:
            async with asyncio.timeout(-section.wait):
                return await lock.aacquire()
        return await self._call(lock, "acquire", wait=abs(section.wait))

    async def _adopt(self, hold: str, section: Section) -> None:
        from redis_locks import Hold, LockError

        for path in sorted(self._folder.glob("*.detached")):
            mine = path.with_suffix(".adopted")
            try:
                path.rename(mine)
            except FileNotFoundError:
                continue
            given = json.loads(mine.read_text())
            self._note("ask", hold=hold, lease=section.lease)
            try:
                found = await self._call(Hold, "adopt", given["text"])
            except LockError as error:
                self._tell(hold, error)
                return
            if found.fencing_token != given["fence"]:
                self._broken(
                    hold, f"adopted with token {found.fencing_token}, not {given['fence']}"
                )
            await self._inside(hold, section, found, given["locks"], adopted=True)
            return

    async def _inside(
        self,
        hold: str,
        section: Section,
        found: Any,
        locks: dict[str, str],
        *,
        adopted: bool = False,
    ) -> None:
        """Do what a holder does, and end the hold. `found` may be rows."""
        from redis_locks import LockBackendError, LockError, LockLost

        its = found.hold if section.kind in {"rows", "skip"} else found
        self._note("in", hold=hold, fence=its.fencing_token, locks=locks, adopted=adopted)
        how = "unknown"
        try:
            for verb in section.verbs:
                locks = await self._do(verb, hold, section, its, locks)
            self._still(hold, its)
            how = await self._end(hold, section, found, its, locks)
        except LockError as error:
            self._tell(hold, error)
            how = "lost" if isinstance(error, LockLost) else "unknown"
            with suppress(LockError):
                await self._call(found, "release")
                if not isinstance(error, LockLost | LockBackendError):
                    how = "released"
        finally:
            self._note("out", hold=hold, how=how)

    async def _do(
        self, verb: str, hold: str, section: Section, its: Any, locks: dict[str, str]
    ) -> dict[str, str]:
        """Do one thing; return the locks as they are held then."""
        if verb in STAYS:
            for _ in range(STAYS[verb]):
                self._still(hold, its)
                await self._sleep(STEP)
        elif verb == "extend":
            await self._call(its, "extend", section.lease + 1)
        elif verb == "nest":
            await self._nest(hold, its, locks)
        elif verb == "also":
            other = next(name for name in ("z", "y", "x") if name not in locks)
            inner = Section("lock", (other,), lease=section.lease, verbs=("stay",))
            await self._run(f"{hold}+", inner)
        else:
            locks = await self._convert(verb, hold, its, locks)
        self._still(hold, its)
        return locks

    async def _nest(self, hold: str, its: Any, locks: dict[str, str]) -> None:
        """Take the same locks again, which must be the same hold."""
        from redis_locks import Lock

        again = Lock(*locks, mode=its.mode, reentrant="thread")
        nested = await self._call(again, "acquire", wait=0)
        same = nested is not None and nested.fencing_token == its.fencing_token
        self._still(hold, its)
        if nested is not None:
            await self._call(nested, "release")
        its.check()  # a hold that was lost meanwhile is none to be nested in
        if not same:
            self._broken(hold, f"nested, {nested!r} is not {its!r}")

    async def _convert(
        self, verb: str, hold: str, its: Any, locks: dict[str, str]
    ) -> dict[str, str]:
        """Upgrade or downgrade; an upgrade that fails leaves the hold as it is."""
        from redis_locks import DeadlockDetected, LockNotAvailable

        self._still(hold, its)
        try:
            if verb == "upgrade":
                await self._call(its, "upgrade", wait=2.0)
            else:
                await self._call(its, "downgrade")
        except (DeadlockDetected, LockNotAvailable) as error:
            self._tell(hold, error)
            return locks
        locks = dict.fromkeys(locks, its.mode)
        self._note("mode", hold=hold, fence=its.fencing_token, locks=locks)
        return locks

    async def _end(
        self, hold: str, section: Section, found: Any, its: Any, locks: dict[str, str]
    ) -> str:
        if section.end == "commit" and its.mode == "exclusive":
            await self._commit(hold, its)
            return "committed"
        if section.end == "detach":
            text = await self._call(its, "detach")
            given = {"text": text, "locks": locks, "fence": its.fencing_token}
            written = self._folder / f"{hold}.writing"
            written.write_text(json.dumps(given))
            written.rename(self._folder / f"{hold}.detached")
            return "detached"
        await self._call(found, "release")
        if section.end == "twice":
            await self._call(found, "release")
        return "released"

    async def _commit(self, hold: str, its: Any) -> None:
        """Count a number up, from what is read under the lock."""
        from django.conf import settings

        key = data_key(its.name)
        value = await self._number(settings.DATA_URL, key)
        self._still(hold, its)
        self._note("commit", hold=hold, lock=its.name)
        await self._call(its, "commit", [("SET", key, str(value + 1))])

    async def _number(self, url: str, key: str) -> int:
        """Return the number at `key`, once the server is there: this client is none of ours."""
        from redis.exceptions import ConnectionError as Unreachable
        from redis.exceptions import RedisClusterException

        deadline = time.monotonic() + RETURNS
        while True:
            try:
                with client_of(url) as client:
                    return int(client.get(key) or 0)
            except (Unreachable, RedisClusterException):
                if time.monotonic() > deadline:
                    raise
            await self._sleep(STEP)

    def _still(self, hold: str, its: Any) -> None:
        at = time.monotonic()
        if not its.is_lost:
            self._note("still", at=at, hold=hold)

    def _tell(self, hold: str, error: Exception) -> None:
        self._note("error", hold=hold, kind=type(error).__name__, text=str(error)[:200])

    def _broken(self, hold: str, text: str) -> None:
        self._note("broken", text=f"{hold}: {text}")
