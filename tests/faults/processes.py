"""Start, command, stop and kill worker processes."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import signal
import sys
from pathlib import Path
from typing import Any

import redis

from tests.forked import Forked
from tests.support.world import Observer

PATIENCE = 30.0


def _run() -> None:
    """Run the script that the first argument names."""
    runpy.run_path(sys.argv[0], run_name="__main__")


class Worker:
    """A process that runs worker.py, or another script of this directory or elsewhere."""

    def __init__(self, url: str, script: str = "worker.py", *arguments: str) -> None:
        path = str(Path(__file__).parent / script)
        stdin, ours = os.pipe()
        theirs, stdout = os.pipe()
        self._process = Forked(_run, [path, url, *arguments], dict(os.environ), (stdin, stdout, 2))
        os.close(stdin)
        os.close(stdout)
        self._stdin, self._stdout = os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")

    def ready(self) -> Worker:
        self.answer()
        return self

    def tell(self, do: str, **options: Any) -> None:
        self._stdin.write(json.dumps([do, options]).encode() + b"\n")
        self._stdin.flush()

    def answer(self, within: float = PATIENCE) -> dict[str, Any]:
        readable, _, _ = select.select([self._stdout], [], [], within)
        line = self._stdout.readline() if readable else b""
        assert line, "the worker did not answer in time"
        return json.loads(line)

    def ask(self, do: str, **options: Any) -> dict[str, Any]:
        self.tell(do, **options)
        return self.answer()

    def send(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """As `kill -9` does; returns once the process is gone."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Crew:
    """The workers of one test and a view of their server."""

    def __init__(self, url: str, client: redis.Redis) -> None:
        self.url = url
        self.server_side = Observer(client)
        self._workers: list[Worker] = []

    def hire(self, count: int, *script: str) -> list[Worker]:
        """Start `count` workers at once and wait until all are ready."""
        started = [Worker(self.url, *script) for _ in range(count)]
        self._workers += started
        return [worker.ready() for worker in started]

    def line_up(self, name: str, *workers: Worker, **options: Any) -> None:
        """Have these wait for a lock, one after the other."""
        for place, worker in enumerate(workers, start=1):
            worker.tell("acquire", name=name, **options)
            self.server_side.until_waiters(name, place)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
