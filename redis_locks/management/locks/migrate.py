"""`manage.py locks migrate`: Django's migrate, by one instance of a deploy at a time."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS

from redis_locks.locks.lock import Lock
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.run import run_under
from redis_locks.management.locks.verb import SECONDS, Argument, Verb


class Migrate(Verb):
    """Django's migrate, under the lock of its database."""

    name = "migrate"
    asks_first = False
    help = "Run Django's migrate while holding a lock, in every instance of a deploy."
    examples = (
        "migrate",
        "migrate --database archive --wait 1800",
        "migrate -- shop --fake-initial",
    )
    details = (
        "One instance migrates. The others wait, run migrate after it, find nothing left, and exit "
        "with 0. The exit status is that of migrate. It is 75 if another instance still migrates "
        "after --wait seconds. It is 69 if Redis cannot be reached, and 79 if the lock was lost, "
        "which ends migrate. What stands after -- goes to migrate. The lock is in Redis, so "
        "PgBouncer and lost connections to the database do not end it."
    )
    answers = False
    usage = "%(prog)s [options] [-- ARGUMENT ...]"
    arguments = (
        Argument(
            "--database",
            default=DEFAULT_DB_ALIAS,
            help="the alias of the database; default: %(default)s",
        ),
        Argument(
            "--wait",
            **SECONDS,
            default=600.0,
            help="how long to wait while another instance migrates; default: %(default)g",
        ),
        Argument(
            "--check",
            action="store_true",
            help="take no lock and migrate nothing; exit with 1 if a migration is not applied",
        ),
        Argument("migrate_arguments", nargs="*", metavar="ARGUMENT", help="an argument of migrate"),
    )

    def run(self, console: Console, **options: Any) -> None:
        """Migrate under the lock, then exit as migrate did."""
        database, arguments = options["database"], options["migrate_arguments"]
        if options["check"]:
            call_command("migrate", *arguments, "--check", "--no-input", "--database", database)
            return
        lock = Lock(
            f"migrate:{database}",
            wait=options["wait"],
            renew=True,
            using=options["using"],
            label="locks migrate",
        )
        command = [sys.executable, sys.argv[0], "migrate", "--no-input", "--database", database]
        if options["pythonpath"]:
            command += ["--pythonpath", options["pythonpath"]]
        command += arguments
        run_under(lock.hold().__enter__, command, console, options["using"])
