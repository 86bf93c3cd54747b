"""Run as a script: interrupt blocks of a blocking lock at random moments and count what stays behind.

Arguments: the server's URL, the name of the lock, how many interrupts, and who else competes:
alone, or contended (another thread). Prints JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

import redis  # noqa: E402

from redis_locks import Lock, LockError  # noqa: E402
from tests.support.keys import lock_keys  # noqa: E402


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def compete(lock: Lock, stop: threading.Event) -> None:
    while not stop.is_set():
        with lock.hold(wait=None):
            pass


RIVALS = {"alone": 0, "contended": 1}


def main(url: str, name: str, interrupts: int, rivals: int) -> None:
    random.seed(7)
    lock = Lock(name, using=url, wait=10, lease=30, label="interrupted")
    probe = Lock(name, using=url, wait=1, lease=29)
    client = redis.Redis.from_url(url)
    keys = lock_keys("redis_locks", 0, name)
    stop = threading.Event()
    rival = Lock(name, using=url, lease=30)
    threads = [
        threading.Thread(target=compete, args=(rival, stop), daemon=True) for _ in range(rivals)
    ]
    for thread in threads:
        thread.start()
    with lock:
        pass
    signal.signal(signal.SIGALRM, interrupt)
    hits = errors = left = 0
    slowest = 0.0
    for _ in range(interrupts):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.0006), 0.1)
            # Again and again: an interrupt inside __del__ is swallowed by the interpreter.
            while True:
                with lock.hold():
                    pass
        except KeyboardInterrupt:
            hits += 1
        except LockError:
            errors += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        started = time.monotonic()
        hold = probe.acquire()
        if hold is None:
            left += 1
            sys.stderr.write(f"{client.hgetall(keys.lock)!r}\n")
            client.delete(keys.lock)
            continue
        hold.release()
        slowest = max(slowest, time.monotonic() - started)
    stop.set()
    for thread in threads:
        thread.join()
    counts = {"hits": hits, "errors": errors, "left": left, "slowest": slowest}
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), RIVALS[sys.argv[4]])
