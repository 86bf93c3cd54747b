"""The worker processes of one comparison, started once and used for every measurement."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .statistics import WorkerReport
from .worker import Job

PROJECT = Path(__file__).resolve().parents[3]
# A worker may start one last transfer at the end of its time, and that may wait for two locks.
GRACE_SECONDS = 45.0
# How often a wait for a worker looks whether the run is still wanted.
CHECK_SECONDS = 0.25


class WorkerError(RuntimeError):
    """A worker process failed or did not answer."""


class WorkerPool:
    """Worker processes that end with the block, or with this process, however that ends.

    Args:
        size: How many processes to start.
        check: Called several times a second while workers work; what it raises ends the wait and the workers.
    """

    def __init__(self, size: int, check: Callable[[], None]) -> None:
        self._size = size
        self._check = check
        self._processes: list[subprocess.Popen[str]] = []
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), *sys.path[1:]])}
        for _ in range(self._size):
            process = subprocess.Popen(
                [sys.executable, "-m", "demo_project.bank.compare.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                text=True,
                # Ctrl-C is for the parent, which closes our input.
                start_new_session=True,
            )
            self._processes.append(process)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._kill()
        for process in self._processes:
            process.communicate()
        self._processes.clear()
        self._errors.close()

    def run(self, jobs: list[Job], on_ready: Callable[[], None]) -> list[WorkerReport]:
        """Give one job to each of as many workers, start them together, and block until all have reported.

        No worker is at work any more when this returns or raises.

        Args:
            jobs: What each is to do.
            on_ready: Called when all have warmed up, just before they start.

        Raises:
            WorkerError: A worker failed or did not answer in time.
        """
        try:
            return self._run(jobs, on_ready)
        except BaseException:
            # Whoever clears up after us must be the last to touch the accounts.
            self._kill()
            raise

    def _run(self, jobs: list[Job], on_ready: Callable[[], None]) -> list[WorkerReport]:
        chosen = self._processes[: len(jobs)]
        for process, job in zip(chosen, jobs, strict=True):
            self._tell(process, json.dumps(asdict(job)))
        for process in chosen:
            self._hear(process, GRACE_SECONDS)
        on_ready()
        for process in chosen:
            self._tell(process, "go")
        return [
            WorkerReport(**self._hear(process, job.seconds + GRACE_SECONDS))
            for process, job in zip(chosen, jobs, strict=True)
        ]

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _tell(self, process: subprocess.Popen[str], line: str) -> None:
        if process.stdin is None:
            raise WorkerError("The worker has no input.")
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure(process) from error

    def _hear(self, process: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
        if process.stdout is None:
            raise WorkerError("The worker has no output.")
        deadline = time.monotonic() + seconds
        readable: list[Any] = []
        while not readable and time.monotonic() < deadline:
            self._check()
            readable, _, _ = select.select([process.stdout], [], [], CHECK_SECONDS)
        line = process.stdout.readline() if readable else ""
        if not line:
            raise self._failure(process)
        message: dict[str, Any] = json.loads(line)
        return message

    def _failure(self, process: subprocess.Popen[str]) -> WorkerError:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        reason = lines[-1] if lines else "it did not answer in time"
        return WorkerError(f"Worker process {process.pid} failed: {reason}")
