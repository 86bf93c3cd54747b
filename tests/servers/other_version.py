"""A process with another version of the package, which does as it is told.

It runs with that version on its path, and not with this checkout.

    python other_version.py URL hold NAME MODE
    python other_version.py URL locks WORD...
"""

from __future__ import annotations

import sys

import django
from django.conf import settings
from django.core.management import call_command


def hold(name: str, mode: str) -> None:
    """Acquire the lock, say so, keep it until there is a line to read, and say how it ended."""
    from redis_locks import Lock, LockError

    try:
        with Lock(name, mode=mode, wait=0.2, lease=30, renew=False) as held:
            sys.stdout.write(f"held {held.fencing_token}\n")
            sys.stdout.flush()
            sys.stdin.readline()
            held.extend(31)
    except LockError as error:
        sys.stdout.write(f"{type(error).__name__} {error}\n")
    else:
        sys.stdout.write("released\n")
    sys.stdout.flush()


if __name__ == "__main__":
    url, verb, *words = sys.argv[1:]
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "redis_locks"],
        REDIS_LOCKS={"CONNECTION": url},
    )
    django.setup()
    if verb == "hold":
        hold(*words)
    else:
        call_command(verb, *words)
