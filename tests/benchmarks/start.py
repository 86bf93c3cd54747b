"""What the app adds to Django's start, with and without it: `python -m tests.benchmarks.start`.

The processor's time, not the clock's, so that what else runs on the machine counts for less. A
project without Redis elsewhere: redis-py is imported when the first lock is taken, and counted
apart. The exit status is 1 if the app adds more than `MOST_MS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

MOST_MS = 30
ROUNDS = 5

# What every project with views imports is no cost of the app.
_START = """
import sys, time
import django
from django.conf import settings
apps = [f"django.contrib.{app}" for app in ("contenttypes", "auth", "sessions", "messages")]
settings.configure(INSTALLED_APPS=apps + sys.argv[1:])
django.setup()
import django.http, django.shortcuts, django.urls, django.views
"""
_DECORATE = """
from redis_locks import redis_lock
redis_lock("account:{pk}")(lambda request, pk: None)
"""
_REDIS = """
import redis_locks.connections.resolution
"""
_TELL = """
print(time.process_time())
"""
STEPS = (
    ("Django alone", (), _START),
    ("redis_locks in INSTALLED_APPS, and a decorated view", ("redis_locks",), _START + _DECORATE),
    ("and redis-py, when the first lock is taken", ("redis_locks",), _START + _DECORATE + _REDIS),
)


def start(code: str, *apps: str) -> float:
    """Return the processor's time, in ms, that a process takes to run `code`."""
    command = [sys.executable, "-c", code + _TELL, *apps]
    told = subprocess.run(
        command, env=_environment(), check=True, capture_output=True, text=True
    ).stdout
    return float(told) * 1000


def _environment() -> dict[str, str]:
    # Where modules are compiled anew in each process, that is all there is to measure.
    return {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}


def main() -> int:
    """Measure and print; return the exit status."""
    codes = {label: (code, *apps) for label, apps, code in STEPS}
    for code in codes.values():
        start(*code)  # so that everything is compiled
    # The least of some, as what else the machine does can only add to it.
    rounds = [
        [min(start(*code) for _ in range(3)) for code in codes.values()] for _ in range(ROUNDS)
    ]
    for label, *times in zip(codes, *rounds, strict=True):
        sys.stdout.write(f"{median(times):6.1f} ms of the processor: {label}\n")
    added = median(ours - django for django, ours, _ in rounds)
    sys.stdout.write(f"redis_locks adds {added:.1f} ms, at most {MOST_MS}\n")
    return int(added > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
