"""`manage.py locks` of another version of the package: `python other_command.py URL WORD...`.

It runs with that version on its path, and not with this checkout.
"""

from __future__ import annotations

import sys

import django
from django.conf import settings
from django.core.management import call_command


def main(url: str, *words: str) -> None:
    """Run the command as an operator of that version would."""
    settings.configure(
        INSTALLED_APPS=[
            "django.contrib.contenttypes",
            "django.contrib.auth",
            "redis_locks",
        ],
        REDIS_LOCKS={"CONNECTION": url},
    )
    django.setup()
    call_command("locks", *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
