"""One of the workers: tries the job, takes over if another fails or dies, and says what happens.

It reads its job as a line of JSON. SIGUSR1 makes its attempt fail.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

from demo_project.bank.processes import read_job, say
from redis_locks import AttemptsExhausted, LockError
from redis_locks.run_once import Attempt, RunEvent, run_once

LEASE = 3.0
WAIT = 120.0
MAX_ATTEMPTS = 3
STEPS = 4


class JobFailed(Exception):
    """The job was told to fail."""


def _fail(_number: int, _frame: Any) -> NoReturn:
    raise JobFailed("the message could not be sent")


class Reported(run_once):
    """A job whose events are told to the page."""

    def acquired(self, event: RunEvent) -> None:
        """An attempt of this worker begins."""
        last = ", the last one" if event.last_attempt else ""
        say("acquired", f"begins attempt {event.attempt}{last}")

    def reacquired(self, event: RunEvent) -> None:
        """This worker takes over."""
        say("reacquired", f"takes over, as {event.last_error or 'the worker before has died'}")

    def locked(self, event: RunEvent) -> None:
        """Another worker does the job."""
        say("locked", f"waits for attempt {event.attempt}")

    def done(self, event: RunEvent) -> None:
        """This worker did the job."""
        say("done", f"records attempt {event.attempt} as DONE")

    def exhausted(self, event: RunEvent) -> None:
        """No attempt is left."""
        say("exhausted", f"finds that all {event.max_attempts} attempts are used up")

    def error(self, event: RunEvent) -> None:
        """An attempt of this worker failed."""
        say("error", f"fails: {event.error}")


def send_message(seconds: float) -> dict[str, Any]:
    """Do the job, step by step, unless SIGUSR1 comes."""
    signal.signal(signal.SIGUSR1, _fail)
    try:
        for step in range(1, STEPS + 1):
            time.sleep(seconds / STEPS)
            say("status", f"works: step {step} of {STEPS}")
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return {"sent_by": os.getpid(), "attempt": Attempt.current().number}


def main() -> None:
    """Do the job that comes first on standard input, or get its result."""
    import django
    from django.conf import settings

    order = read_job()
    settings.configure(REDIS_LOCKS={"CONNECTION": order["url"], "STATISTICS": False})
    django.setup()
    job = Reported(
        order["name"],
        max_attempts=MAX_ATTEMPTS,
        lease=LEASE,
        wait=WAIT,
        store_result=True,
        done_ttl=3600,
    )(send_message)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    say("ready")
    sys.stdin.readline()
    while True:
        try:
            result = job(order["seconds"])
        except JobFailed:
            continue  # a failed attempt is tried again, here or elsewhere
        except (AttemptsExhausted, LockError) as error:
            say("ended", f"stops: {type(error).__name__}")
        else:
            say("ended", f"has the result: {json.dumps(result)}")
        return


if __name__ == "__main__":
    main()
