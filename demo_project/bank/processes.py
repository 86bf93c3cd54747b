"""Processes that a page starts to show something, and what they say."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]


class ActorFailed(RuntimeError):
    """A process did not do what it should."""


class Busy(Exception):
    """Something of the kind is at work already; the message says so."""


@dataclass(frozen=True)
class Event:
    """Something that a process did, or that was done to it; `at` is in seconds."""

    at: float
    who: str
    kind: str
    text: str


_actors: set[Actor] = set()
_starting = threading.Lock()
_over = threading.Event()
"""Set while no actor may start."""


@contextmanager
def actors_end() -> Iterator[None]:
    """Kill all actors of this process when the block ends, and let no thread start one later."""
    _over.clear()
    try:
        yield
    finally:
        with _starting:
            _over.set()
            for actor in _actors:
                actor.kill()


class Actor:
    """A process of its own that runs a module.

    It reads its job as a line of JSON, and prints lines of JSON.

    It ends with its own block, or with that of `actors_end`.

    Raises:
        ActorFailed: The block of `actors_end` has ended.
        OSError: The process cannot be started.
    """

    def __init__(self, who: str, module: str, job: Mapping[str, Any]) -> None:
        self.who = who
        with _starting:
            if _over.is_set():
                raise ActorFailed("The site ends, and its experiments with it.")
            self._process = self._start(module)
            _actors.add(self)
        # Not in its arguments, which every user of the machine can read: a job may have a password
        # in it.
        self.tell(json.dumps(job))

    @staticmethod
    def _start(module: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Ctrl-C is for us, who end it. In our session, so that the kernel ends it with us even
            # while it is stopped.
            process_group=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()
        with _starting:
            _actors.discard(self)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def hear(self, within: float | None = None) -> Event | None:
        """The next that the process says, or None if it has ended; blocks until then.

        Raises:
            ActorFailed: It said nothing for `within` seconds, and was killed.
        """
        assert self._process.stdout is not None  # noqa: S101 - we have asked for it
        with _patience(within, self.kill) as is_over:
            line = self._process.stdout.readline()
        if not line and is_over():
            raise ActorFailed(f"Process {self.who} did not answer within {within:.0f} s.")
        # A process that is killed may leave half a line.
        return Event(who=self.who, **json.loads(line)) if line.endswith("\n") else None

    def listen(self, heard: Callable[[Event], None]) -> None:
        """Pass on what the process says, and that it has ended; blocks until then."""
        while event := self.hear():
            heard(event)
        heard(Event(time.monotonic(), self.who, "gone", ""))

    def tell(self, line: str = "") -> None:
        """Send the process a line, if it has not ended; an empty one is the word to begin."""
        assert self._process.stdin is not None  # noqa: S101 - we have asked for it
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """Kill the process by SIGKILL, if it has not ended; what it has said can still be heard."""
        self._process.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal, if it has not ended."""
        self._process.send_signal(number)


@contextmanager
def _patience(seconds: float | None, end: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Call `end` if the block lasts longer; yields what says afterwards whether it did."""
    if seconds is None:
        yield lambda: False
        return
    over = threading.Event()

    def lose() -> None:
        over.set()
        end()

    timer = threading.Timer(seconds, lose)
    timer.daemon = True
    timer.start()
    try:
        yield over.is_set
    finally:
        timer.cancel()


def read_job() -> Any:
    """What this process is to do, as whoever started it has said."""
    return json.loads(sys.stdin.readline())


def say(kind: str, text: str = "") -> None:
    """Tell whoever started this process what happens now."""
    print(json.dumps({"at": time.monotonic(), "kind": kind, "text": text}), flush=True)  # noqa: T201
