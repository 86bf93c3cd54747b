"""What the app adds to Django's start, with it and without it in turn: `python -m tests.benchmarks.start`.

The processor's time, not the clock's, so that what else runs on the machine counts for less. A project
without Redis elsewhere: redis-py is imported when the first lock is taken, and counted apart.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median

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
import redis_locks.connections
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="how often all are started in turn")
    rounds = parser.parse_args().rounds
    for _, apps, code in STEPS:
        start(code, *apps)  # so that everything is compiled
    times = [[start(code, *apps) for _, apps, code in STEPS] for _ in range(rounds)]
    print(f"ms of the processor, median of {rounds} rounds")  # noqa: T201 - for whoever runs it
    for place, (label, _, _) in enumerate(STEPS):
        added = median(each[place] - each[place - 1] for each in times) if place else 0.0
        least = min(each[place] for each in times)
        print(  # noqa: T201 - as above
            f"{median(each[place] for each in times):7.1f}  added {added:+6.1f}  least {least:6.1f}  {label}"
        )


if __name__ == "__main__":
    main()
