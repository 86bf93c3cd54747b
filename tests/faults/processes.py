"""Start, command, stop and kill worker processes."""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any, Self

import redis

from tests.support.children import PATIENCE, Child, Forked
from tests.support.world import Observer


def _run() -> None:
    """Run the script that the first argument names."""
    runpy.run_path(sys.argv[0], run_name="__main__")


class Worker(Child):
    """A process that runs worker.py, or another script of this directory or elsewhere."""

    def __init__(self, url: str, script: str = "worker.py", *arguments: str) -> None:
        argv = [str(Path(__file__).parent / script), url, *arguments]
        super().__init__(
            lambda stdin, stdout: Forked(_run, argv, dict(os.environ), (stdin, stdout, 2))
        )

    def ready(self) -> Self:
        self.answer()
        return self

    def tell(self, do: str, **options: Any) -> None:
        self.say(json.dumps([do, options]) + "\n")

    def answer(self, within: float = PATIENCE) -> dict[str, Any]:
        line = self.line(within)
        assert line, "the worker has ended"
        return json.loads(line)

    def ask(self, do: str, **options: Any) -> dict[str, Any]:
        self.tell(do, **options)
        return self.answer()


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
