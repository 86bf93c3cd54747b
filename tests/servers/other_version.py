"""A process with another version of the package, which does as it is told: `python other_version.py URL NAME MODE`.

It runs with that version on its path, and not with this checkout.
"""

from __future__ import annotations

import sys

from django.conf import settings


def main(url: str, name: str, mode: str) -> None:
    """Acquire the lock, say so, and keep it until there is a line to read; then say how that ended."""
    settings.configure(REDIS_LOCKS={"CONNECTION": url})
    from redis_locks import Lock, LockError

    try:
        with Lock(name, mode=mode, wait=0.2, lease=30, renew=False) as hold:
            sys.stdout.write(f"held {hold.fencing_token}\n")
            sys.stdout.flush()
            sys.stdin.readline()
            hold.extend(31)
    except LockError as error:
        sys.stdout.write(f"{type(error).__name__} {error}\n")
    else:
        sys.stdout.write("released\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
