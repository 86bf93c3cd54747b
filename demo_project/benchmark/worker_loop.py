"""The other end of a `WorkerPool`: what a worker process does with its jobs.

One JSON line in, one out: a job is answered with ``ready`` and the process's id; the line after it
says at which time of the monotonic clock to begin; the report follows. The end of input ends the
process, so that no worker outlives the run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Prepare = Callable[[dict[str, Any]], Callable[[], "DataclassInstance"]]
"""Given a job, gets ready for it, and returns what does it and gives the report."""


def serve(requests: IO[str], replies: IO[str], prepare: Prepare) -> None:
    """Do one job after the other until there are no more."""
    while line := requests.readline():
        work = prepare(json.loads(line))
        _say(replies, {"ready": os.getpid()})
        if not (begin := requests.readline()):
            return
        sleep(max(0.0, float(begin) - monotonic()))
        _say(replies, asdict(work()))


def _say(replies: IO[str], message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()
