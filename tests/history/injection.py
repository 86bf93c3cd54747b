"""What goes wrong in a run: faults of processes, network and server, and operators."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import redis

from redis_locks import LockError, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.faults.succession import Succession
from tests.history import workload
from tests.history.cluster import Cluster
from tests.history.plan import CLUSTER_FAULTS, FAIL_OVER, NAMES, PERMITS, Fault, Plan
from tests.support.children import processes

LOCKS: Final = (*NAMES, *PERMITS)
"""The locks that operators end holds of."""


PROCESSES: Final = 0.7
"""In which part of the freezes a process stands still, and not a node."""

Server = EmbeddedServer | Succession | Cluster


class Stage:
    """One run's processes, the proxy between them and the server, and what happens to them."""

    def __init__(self, plan: Plan, server: Server, proxy: Proxy, folder: Path) -> None:
        self.plan = plan
        self.server = server
        self.proxy = proxy
        self.folder = folder
        self.note = workload.Log(folder / "faults.jsonl")
        self._incarnations = [0] * len(plan.workers)
        self._processes: list[Any] = [None] * len(plan.workers)

    def start(self) -> None:
        first = processes.Process(
            target=workload.prepare, args=(self.server.url, str(self.folder), self.plan)
        )
        first.start()
        first.join()
        for number in range(len(self.plan.workers)):
            self._hire(number)

    def _hire(self, number: int) -> None:
        worker = self.plan.workers[number]
        url = self.proxy.url if worker.proxied else self.server.url
        log = self.folder / f"{number}-{self._incarnations[number]}.jsonl"
        done = [self._begun(f"{number}.{place}.") for place in range(len(worker.units))]
        self._incarnations[number] += 1
        self._processes[number] = processes.Process(
            target=workload.work,
            args=(number, url, self.server.url, str(self.folder), self.plan, done, str(log)),
            daemon=True,
        )
        self._processes[number].start()

    def _begun(self, prefix: str) -> int:
        """Return how many sections of a unit were begun, by all of its processes so far."""
        holds = set[str]()
        for path in self.folder.glob(f"{prefix.partition('.')[0]}-*.jsonl"):
            for line in path.read_bytes().split(b"\n"):
                if b'"ask"' in line:
                    found = line.partition(b'"hold": "')[2].partition(b'"')[0].decode()
                    if found.startswith(prefix):
                        holds.add(found.rstrip("+"))
        return max((int(hold.removeprefix(prefix)) + 1 for hold in holds), default=0)

    def until_over(self, within: float) -> None:
        """Wait until all processes have ended; write down which did not."""
        deadline = time.monotonic() + within
        for number, process in enumerate(self._processes):
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                self.note("broken", text=f"process {number} did not end within {within:.0f} s")
                process.kill()
                process.join()
            elif process.exitcode:
                self.note("broken", text=f"process {number} ended with {process.exitcode}")

    def close(self) -> None:
        for process in self._processes:
            if process is not None and process.is_alive():
                process.kill()
                process.join()

    # Faults

    def inject(self, fault: Fault) -> None:
        """Let it happen, and write down until when it may keep anybody from going on."""
        at, pid = time.monotonic(), 0
        known: dict[str, Any] = {}
        freezes_process = fault.kind == "freeze" and fault.pick * 10 % 1 < PROCESSES
        if fault.kind in {"kill", "stop"} or freezes_process:
            number, pid = self._living(fault.pick)
            if not pid:
                return
            (self._kill if fault.kind == "kill" else self._stop)(number, pid, fault.pick)
        elif fault.kind == FAIL_OVER:
            known = self._fail_over(fault.pick)
        else:
            FAULTS[fault.kind](self, fault.pick)
        until = time.monotonic() if fault.kind in LASTING else at
        self.note("fault", at=at, kind=fault.kind, until=until, pid=pid, **known)

    def _living(self, pick: float) -> tuple[int, int]:
        living = [number for number, each in enumerate(self._processes) if each.is_alive()]
        if not living:
            return 0, 0
        number = living[int(pick * len(living))]
        return number, self._processes[number].pid

    def _kill(self, number: int, pid: int, _pick: float) -> None:
        self._processes[number].kill()
        self._processes[number].join()
        self._hire(number)

    def _stop(self, _number: int, pid: int, pick: float) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.2 + 3 * pick)
            os.kill(pid, signal.SIGCONT)

    def _fail_over(self, pick: float) -> dict[str, Any]:
        """Promote the replica, and return what is known of that."""
        assert isinstance(self.server, Succession)
        self.server.cut_off()
        time.sleep(pick / 2)
        promoted, clock = self.server.fail_over()
        forgets = not self.plan.replicas
        return {"promoted": promoted, "clock": clock, "forgets": forgets}

    def change_places(self, pick: float) -> None:
        assert isinstance(self.server, Cluster)
        self.server.fail_over(pick)

    def move(self, pick: float) -> None:
        assert isinstance(self.server, Cluster)
        self.server.move(pick, self.plan.partitions)

    def freeze(self, pick: float) -> None:
        assert isinstance(self.server, Cluster)
        self.server.freeze(pick)

    def keep_losing(self, _pick: float) -> None:
        self.proxy.lose(1, every=5)
        time.sleep(1)
        self.proxy.lose(0)

    def late(self, pick: float) -> None:
        self.proxy.delay = 0.1 * pick
        time.sleep(0.5)
        self.proxy.delay = 0.0

    def hold_back(self, pick: float) -> None:
        self.proxy.hold_back()
        time.sleep(pick)
        self.proxy.let_go()

    def part(self, pick: float) -> None:
        self.proxy.part()
        time.sleep(0.2 + 2 * pick)
        self.proxy.heal()

    def pause(self, pick: float) -> None:
        with self.server.client() as client:
            client.client_pause(round(500 * pick))
            time.sleep(0.5 * pick)

    def flush_scripts(self, _pick: float) -> None:
        with self.server.client() as client:
            client.script_flush()

    def disconnect(self, _pick: float) -> None:
        with self.server.client() as client:
            client.client_kill_filter(_type="pubsub")
            client.client_kill_filter(_type="normal", skipme=True)

    def restart(self, _pick: float) -> None:
        self.server.kill()
        self.server.restart()

    def force(self, pick: float) -> None:
        lock, at = LOCKS[int(pick * len(LOCKS))], time.monotonic()
        with contextlib.suppress(LockError):
            inspection.force_release(lock)
        self.note("force", at=at, lock=lock, until=time.monotonic())

    def cancel(self, pick: float) -> None:
        with contextlib.suppress(LockError):
            waiting = inspection.parties().waiters
            if waiting:
                inspection.cancel(waiting[int(pick * len(waiting))])

    def lose_all(self, _pick: float) -> None:
        """Break the promise: the server forgets what it granted. For tests of the checker."""
        with self.server.client() as client, contextlib.suppress(redis.RedisError):
            client.flushall()


FAULTS: Final[dict[str, Callable[[Stage, float], None]]] = {
    "lose": lambda stage, pick: stage.proxy.lose(1, losses=1 + int(3 * pick)),
    "keep losing": Stage.keep_losing,
    "cut": lambda stage, _: stage.proxy.cut(),
    "late": Stage.late,
    "hold back": Stage.hold_back,
    "part": Stage.part,
    "pause": Stage.pause,
    "flush scripts": Stage.flush_scripts,
    "disconnect": Stage.disconnect,
    "restart": Stage.restart,
    "force": Stage.force,
    "cancel": Stage.cancel,
    "lose all": Stage.lose_all,
    "failover": Stage.change_places,
    "move": Stage.move,
    "freeze": Stage.freeze,
}

LASTING: Final = {
    *("stop", "keep losing", "late", "hold back", "part", "pause", "restart", FAIL_OVER),
    *CLUSTER_FAULTS,
}
"""The faults that keep somebody from going on while they last."""
