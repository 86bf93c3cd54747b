"""One run of one plan: processes, faults and a witness; then the checker reads the books."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import redis
from django.test import override_settings

from redis_locks import Lock, LockError, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.faults.succession import Succession
from tests.history import checker
from tests.history.cluster import Cluster
from tests.history.injection import LOCKS, Server, Stage
from tests.history.plan import Fault, Plan
from tests.history.witness import Witness
from tests.history.workload import Log, data_key, settings_of
from tests.support import stored

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""So that a server that is killed and restarted has kept its promises."""

PATIENCE = 90.0
"""Seconds until all processes must have ended."""

LEASE = 6.0
"""Seconds after which nothing is held that nobody releases; above all leases."""

NEVER = -1
"""What the server says of a key that does not expire."""


@dataclass
class Result:
    """What came of a run."""

    violations: list[str]
    holds: int = 0
    granted: int = 0
    told: Counter[str] = field(default_factory=Counter)
    """The errors that callers were told, by kind."""
    idle: float = 0.0
    """The longest time from free to the next entry, in seconds."""
    events: list[checker.Event] = field(default_factory=list, repr=False)
    """All that was written down."""


def run(plan: Plan, keep: Path | None = None) -> Result:
    """Run a plan and check its history.

    Args:
        plan: What to do.
        keep: A folder for the history if it breaks a rule.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="rl-history-", dir="/tmp"))
        )
        server = stack.enter_context(_server_for(plan))
        proxy = stack.enter_context(Proxy(server.url.partition(",")[0]))
        stack.enter_context(override_settings(REDIS_LOCKS=settings_of(server.url, plan)))
        stage = Stage(plan, server, proxy, folder)
        stack.callback(stage.close)
        with Witness(server, Log(folder / "server.jsonl")):
            stage.start()
            started = time.monotonic()
            freezes = [fault for fault in plan.faults if fault.kind == "freeze"]
            others = [fault for fault in plan.faults if fault.kind != "freeze"]
            with ThreadPoolExecutor(1) as beside:
                # Also while a slot moves.
                freezing = beside.submit(_inject, stage, freezes, started)
                _inject(stage, others, started)
                freezing.result()
            stage.until_over(PATIENCE)
        _close(stage)
        events = checker.read(folder)
        found = checker.violations(events)
        if found and keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for path in folder.glob("*.jsonl"):
                (keep / path.name).write_bytes(path.read_bytes())
            (keep / "plan.json").write_text(plan.to_json())
            (keep / "violations.txt").write_text("\n".join(found) + "\n")
    spans = [end - start for _, start, end, _ in checker.idle_spans(events)]
    return Result(
        found,
        holds=sum(event["what"] == "in" for event in events),
        granted=sum(event["what"] == "grant" for event in events),
        told=Counter(checker.errors(events)),
        idle=max(spans, default=0.0),
        events=events,
    )


def _server_for(plan: Plan) -> Server:
    if plan.cluster:
        return Cluster()
    return (
        Succession(DURABLE) if plan.fails_over else EmbeddedServer(DURABLE, use_environment=False)
    )


def _inject(stage: Stage, faults: list[Fault], started: float) -> None:
    """Let faults happen one after the other, each not before its time."""
    for fault in faults:
        time.sleep(max(0.0, started + fault.at - time.monotonic()))
        stage.inject(fault)


def _close(stage: Stage) -> None:
    """Write down what is left when everybody is gone, and what the commits counted."""
    for info in inspection.locks():
        holders = [each.pid for each in info.holders]
        waiters = [each.pid for each in info.waiters]
        stage.note("remains", lock=info.name, holders=holders, waiters=waiters)
    with stage.server.client() as client:
        for lock in LOCKS:
            stage.note("data", lock=lock, value=int(client.get(data_key(lock)) or 0))
        keys = [key.decode() for key in client.scan_iter("redis_locks{*}:lock:*", count=1000)]
        for lock in sorted({key.partition("}:lock:")[2] for key in keys}):
            if not _is_had(lock):
                stage.note("left", text=f"{lock} cannot be acquired at the end")
        for key in client.scan_iter("redis_locks{*", count=1000):
            if _is_left(client, key):
                stage.note("left", text=f"the key {key.decode()}")


def _is_had(lock: str) -> bool:
    """Whether the lock can be had once all leases have ended; the dead leave its line then."""
    try:
        hold = Lock(lock).acquire(wait=LEASE)
    except LockError:
        return False
    if hold is not None:
        hold.release()
    return hold is not None


def _is_left(client: redis.Redis, key: bytes) -> bool:
    """Whether a key says that somebody holds or waits, or never expires."""
    kind = key.partition(b"}:")[2].partition(b":")[0]
    in_use = kind in {b"sharers", b"set"} or (kind == b"lock" and not stored.is_idle(client, key))
    return in_use or client.ttl(key) == NEVER
