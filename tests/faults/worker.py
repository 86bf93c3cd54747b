"""One real process that acquires, waits and holds as told, one JSON object per line each way.

Started as ``python worker.py URL``. Commands come on standard input, answers with the time of
CLOCK_MONOTONIC, which all processes of a machine share, go to standard output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import django

django.setup()

from redis_locks import Hold, Lock, LockError  # noqa: E402 - after setup


def say(**answer: Any) -> None:
    sys.stdout.write(json.dumps({"at": time.monotonic(), **answer}) + "\n")
    sys.stdout.flush()


def sleeping_child() -> int:
    """Fork a child that does nothing until it is killed; return its pid."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b".")  # what is to be done after a fork is done
        while True:
            signal.pause()
    os.read(reading, 1)
    return child


class Commands:
    """What the process can be told to do; it says how it went."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._holds: list[Hold | None] = []

    def acquire(
        self, name: str, *, wait: float = 20, not_before: float = 0, **options: Any
    ) -> None:
        time.sleep(max(0.0, not_before - time.monotonic()))
        hold = Lock(name, using=self._url, **options).acquire(wait=wait)
        self._holds.append(hold)
        say(granted=hold is not None, fence=hold and hold.fencing_token, token=hold and hold.token)

    def wait_in_a_thread(self, name: str, **options: Any) -> None:
        lock = Lock(name, using=self._url, **options)
        threading.Thread(target=lambda: self._holds.append(lock.acquire(wait=60))).start()

    def fork(self) -> None:
        say(child=sleeping_child())

    def enter(self, name: str, *, wait: float = 20, **options: Any) -> None:
        Lock(name, using=self._url, **options).hold(wait=wait).__enter__()

    def is_lost(self) -> None:
        say(is_lost=self._holds[-1].is_lost)  # type: ignore[union-attr]

    def release(self) -> None:
        self._holds.pop().release()  # type: ignore[union-attr]
        say(released=True)


def serve(commands: object) -> None:
    """Do what the lines of standard input say, and answer each."""
    say(ready=os.getpid())
    for line in sys.stdin:
        do, options = json.loads(line)
        try:
            getattr(commands, do)(**options)
        except LockError as error:
            say(
                error=type(error).__name__,
                message=str(error),
                holder=str(getattr(error, "holder", None)),
            )


if __name__ == "__main__":
    serve(Commands(sys.argv[1]))
