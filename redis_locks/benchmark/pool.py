"""Worker processes that measure, started once and used for every measurement; see `serving`."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from django.core.exceptions import ImproperlyConfigured

_SETTINGS = "DJANGO_SETTINGS_MODULE"

_CHECK_SECONDS = 0.25
"""Between two looks, during a wait for a worker, at whether the run is still wanted."""

_NOTICE_SECONDS = 0.05
"""From the word to begin until the beginning, for all to hear it."""


class WorkerError(RuntimeError):
    """A worker process failed or did not answer."""


class WorkerPool:
    """Worker processes that end with the block, or with this process, however that ends.

    Args:
        module: What each runs as ``python -m``; it calls `serving.serve`.
        size: How many processes to start.
        grace: Seconds that a worker may take to get ready, and to report after the end of its job.
        check: Called several times a second while workers work; what it raises ends the wait and the workers.

    Raises:
        ImproperlyConfigured: The processes could not find Django's settings.
    """

    def __init__(
        self,
        module: str,
        size: int,
        *,
        grace: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        if not os.environ.get(_SETTINGS):
            msg = (
                f"The workers are processes of their own and need {_SETTINGS}, which is not set: "
                "set it in the environment, or give --settings."
            )
            raise ImproperlyConfigured(msg)
        self._module = module
        self._size = size
        self._grace = grace
        self._check = check
        self._processes: list[subprocess.Popen[str]] = []
        self._chosen: list[subprocess.Popen[str]] = []
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - until __exit__

    def __enter__(self) -> Self:
        path = os.pathsep.join(part or str(Path.cwd()) for part in sys.path)
        try:
            for _ in range(self._size):
                process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    [sys.executable, "-m", self._module],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    env={**os.environ, "PYTHONPATH": path},
                    text=True,
                    # Ctrl-C is for the parent, which ends us.
                    start_new_session=True,
                )
                self._processes.append(process)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
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

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [process.pid for process in self._processes]

    def prepare(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Give one job to each of as many workers; block until all are ready to begin.

        If this raises, no worker is at work any more.

        Raises:
            WorkerError: A worker failed or did not answer in time.
        """
        self._chosen = self._processes[: len(jobs)]
        with self._all_or_none():
            for process, job in zip(self._chosen, jobs, strict=True):
                self._tell(process, json.dumps(job))
            for process in self._chosen:
                self._hear(process, self._grace)

    def run(self, seconds: float) -> list[dict[str, Any]]:
        """Let them do their jobs, all at once; block until all have reported.

        No worker is at work any more when this returns or raises.

        Args:
            seconds: How long the jobs take.

        Raises:
            WorkerError: A worker failed or did not answer in time.
        """
        # The monotonic clock is the same for all processes of a machine.
        begin = monotonic() + _NOTICE_SECONDS
        with self._all_or_none():
            for process in self._chosen:
                self._tell(process, repr(begin))
            return [self._hear(process, seconds + self._grace) for process in self._chosen]

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Whoever clears up after us must be the last to touch what they worked on.
            self._kill()
            raise

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
        deadline = monotonic() + seconds
        readable: list[Any] = []
        while not readable and monotonic() < deadline:
            self._check()
            readable, _, _ = select.select([process.stdout], [], [], _CHECK_SECONDS)
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
