"""Worker processes that measure, started once and used for every measurement; see `worker_loop`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from django.core.exceptions import ImproperlyConfigured

_SETTINGS = "DJANGO_SETTINGS_MODULE"

_PARENT = "demo_project.benchmark.fork_server"

_CHECK_SECONDS = 0.25
"""Between two looks, during a wait for a worker, at whether the run is still wanted."""

_NOTICE_SECONDS = 0.05
"""From the word to begin until the beginning, for all to hear it."""


class WorkerError(RuntimeError):
    """A worker process failed or did not answer."""


class _Worker(NamedTuple):
    """Our ends of a worker's input and output."""

    requests: IO[str]
    replies: IO[str]


class WorkerPool:
    """Worker processes that end with the block, or with this process, however that ends.

    They are forked from one process that has loaded Django and `module`; see `fork_server`. With
    `apart`, each has such a process for itself, and shares no memory with the others.

    Args:
        module: Its ``main()`` is what each of them runs, and calls `worker_loop.serve`.
        size: How many processes to start.
        grace: Seconds that a worker may take to get ready, and to report after the end of its job.
        check: Called several times a second while workers work; what it raises ends the wait and
            the workers.
        apart: Start each by itself. This takes longer.

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
        apart: bool = False,
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
        self._apart = apart
        self._workers: list[_Worker] = []
        self._chosen: list[_Worker] = []
        self._parents: list[subprocess.Popen[bytes]] = []
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - until __exit__

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._close()
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
        self._close()

    def prepare(self, jobs: Sequence[Mapping[str, Any]]) -> list[int]:
        """Give one job to each of as many workers; block until all are ready to begin.

        If this raises, no worker is at work any more.

        Returns:
            The workers' process ids, in the order of the jobs.

        Raises:
            WorkerError: A worker failed or did not answer in time.
        """
        self._chosen = self._workers[: len(jobs)]
        with self._all_or_none():
            for worker, job in zip(self._chosen, jobs, strict=True):
                self._tell(worker, json.dumps(job))
            return [answer["ready"] for answer in self._hear(self._grace)]

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
            for worker in self._chosen:
                self._tell(worker, repr(begin))
            return self._hear(seconds + self._grace)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Whoever clears up after us must be the last to touch what they worked on.
            self._kill()
            raise

    def _start(self) -> None:
        theirs: list[int] = []
        try:
            for _ in range(self._size):
                self._connect(theirs)
            of_a_parent = 2 if self._apart else len(theirs)
            for first in range(0, len(theirs), of_a_parent):
                self._parents.append(self._parent_of(theirs[first : first + of_a_parent]))
        finally:
            for end in theirs:
                os.close(end)  # from here on, only a worker holds it open

    def _parent_of(self, theirs: Sequence[int]) -> subprocess.Popen[bytes]:
        """Start what forks the workers that have these ends of pipes."""
        path = os.pathsep.join(part or str(Path.cwd()) for part in sys.path)
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", _PARENT, self._module, *map(str, theirs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=theirs,
            # Ctrl-C is for us, who end them.
            start_new_session=True,
        )

    def _connect(self, theirs: list[int]) -> None:
        """Open two pipes for a worker, keep our ends, and add its own to `theirs`."""
        requests, asking = os.pipe()
        theirs.append(requests)
        replies, answering = os.pipe()
        theirs.append(answering)  # before we wait for what only they hold open
        self._workers.append(_Worker(os.fdopen(asking, "w"), os.fdopen(replies)))

    def _kill(self) -> None:
        for parent in self._parents:
            with suppress(ProcessLookupError, PermissionError):  # all of them have ended
                os.killpg(parent.pid, signal.SIGKILL)
        self._wait()

    def _close(self) -> None:
        for worker in self._workers:
            with suppress(BrokenPipeError):  # of what was not sent to one that failed
                worker.requests.close()
        self._wait()
        for worker in self._workers:
            worker.replies.close()
        self._workers.clear()
        self._errors.close()

    def _wait(self) -> None:
        """Block until all have ended."""
        for parent in self._parents:
            parent.wait()
        self._parents.clear()
        for worker in self._workers:
            worker.replies.read()  # until the last that could write there has gone

    def _tell(self, worker: _Worker, line: str) -> None:
        try:
            worker.requests.write(line + "\n")
            worker.requests.flush()
        except BrokenPipeError as error:
            raise self._failure() from error

    def _hear(self, seconds: float) -> list[dict[str, Any]]:
        """Return what each says, as soon as all have; one that failed ends the wait."""
        deadline = monotonic() + seconds
        silent = {worker.replies: number for number, worker in enumerate(self._chosen)}
        heard: dict[int, dict[str, Any]] = {}
        while silent:
            if monotonic() > deadline:
                raise self._failure()
            self._check()
            readable, _, _ = select.select(list(silent), [], [], _CHECK_SECONDS)
            for replies in readable:
                line = replies.readline()
                if not line.endswith("\n"):
                    raise self._failure()
                heard[silent.pop(replies)] = json.loads(line)
        return [heard[number] for number in range(len(self._chosen))]

    def _failure(self) -> WorkerError:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        reason = lines[-1] if lines else "it was killed, or did not answer in time"
        return WorkerError(f"A worker process failed: {reason}")
