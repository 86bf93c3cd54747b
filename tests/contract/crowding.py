"""Processes whose threads want one lock; each hold notes itself and who waits."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from itertools import takewhile
from typing import NamedTuple

import redis

from tests.support import stored
from tests.support.keys import process_of
from tests.support.world import keys_of


class Note(NamedTuple):
    """A hold: its token and fencing token, how many held meanwhile, and the tokens of the queue."""

    token: str
    fence: int
    holders: int
    queue: list[str]


def crowd(url: str, name: str, threads: int, times: int, patience: float) -> None:
    """Let so many threads acquire a lock so often each, and end the process's part when all have.

    Each waits for `patience` seconds.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from redis_locks import Lock

    client = redis.Redis.from_url(url)
    lock = Lock(name, using=url, wait=patience, lease=2 * patience)

    def run() -> None:
        for _ in range(times):
            with lock as hold:
                holders = client.incr(f"{name}:holders")
                queue = [token.decode() for token in stored.line(client, keys_of(name).lock)]
                note = Note(hold.token, hold.fencing_token, holders, queue)
                client.rpush(f"{name}:notes", json.dumps(note))
                client.decr(f"{name}:holders")

    running = [threading.Thread(target=run) for _ in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()


def forked_crowds(count: int, url: str, name: str, times: int, patience: float) -> None:
    """Fork so many processes, as a web server does, and let one thread of each be such a crowd.

    The process that forks has set Django up and holds no connection. It fails if one of the others
    does.
    """
    os.setpgrp()  # so that one signal ends all of them
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    multiprocessing.current_process().daemon = False  # it has processes of its own
    # What this test forgets ends by itself: the forked ones inherit no alarm, so each sets its own.
    signal.alarm(int(patience) + 60)
    gc.freeze()  # or each of them copies what its garbage collector touches
    forked = multiprocessing.get_context("fork")
    args = (url, name, 1, times, patience)
    crowds = [forked.Process(target=_crowd_with_an_end, args=args) for _ in range(count)]
    for each in crowds:
        each.start()
    for each in crowds:
        each.join()
    failed = [each.exitcode for each in crowds if each.exitcode]
    if failed:
        raise SystemExit(f"{len(failed)} of {count} processes failed: {failed}")


def _crowd_with_an_end(url: str, name: str, threads: int, times: int, patience: float) -> None:
    signal.alarm(int(patience) + 60)
    crowd(url, name, threads, times, patience)


def notes(client: redis.Redis, name: str) -> list[Note]:
    """What all of them noted, in the order of their holds."""
    return [Note(*json.loads(each)) for each in client.lrange(f"{name}:notes", 0, -1)]


def overtaken(kept: list[Note]) -> list[int]:
    """For each waiter, the most holds that one other process had before it and that were not due.

    Due are those that stood before it when it was first seen in the queue, one hold each.
    """
    found = []
    seen: set[str] = set()
    for at, note in enumerate(kept):
        for place, waiter in enumerate(note.queue):
            if waiter not in seen:
                seen.add(waiter)
                found.append(_went_before(kept[at + 1 :], waiter, set(note.queue[:place])))
    return found


def _went_before(later: list[Note], waiter: str, due: set[str]) -> int:
    others: Counter[str] = Counter()
    for hold in takewhile(lambda hold: hold.token != waiter, later):
        if hold.token in due:
            due.remove(hold.token)
        else:
            others[process_of(hold.token)] += 1
    return max(others.values(), default=0)
