"""`manage.py locks`: see the locks, end a hold from outside, run a command under a lock."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.management.color import no_style
from django.utils import translation

from redis_locks.exceptions import LockBackendError
from redis_locks.management.locks import VERBS
from redis_locks.management.locks.console import UNREACHABLE, USAGE, Console
from redis_locks.management.locks.verb import VerbParser
from redis_locks.values.text import printable


class Command(BaseCommand):
    """Data goes to stdout, notes and questions go to stderr."""

    help = (
        "Show the locks that are held or waited for, release them, run commands under them. "
        "Exit status: 0 ok; 1 not found or something is wrong; 64 usage; 69 the server cannot "
        "be reached; 70 a job has no attempt left; 75 somebody else holds the lock; "
        "79 a command lost its lock while it ran."
    )
    # A tool for the hour of need must not stop at an unrelated failing check.
    requires_system_checks = []

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        """Return the parser, whose usage errors have the exit status of a verb's."""
        parser = super().create_parser(*args, **options)
        parser.error = MethodType(VerbParser.error, parser)  # type: ignore[method-assign]
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        """Add one sub-command per verb."""
        verbs = parser.add_subparsers(
            dest="verb", required=True, metavar="VERB", parser_class=VerbParser
        )
        for verb in VERBS:
            verb.parser(verbs)

    @translation.override("en")  # what it prints is for logs, scripts and search
    def handle(self, *_args: Any, run: Callable[..., None], **options: Any) -> None:
        """Run one verb."""
        if os.environ.get("NO_COLOR") and not options["force_color"]:
            self.style = no_style()
            self.stderr.style_func = None
        console = Console(self.stdout, self.stderr, self.style, force_color=options["force_color"])
        try:
            run(console, **options)
        except LockBackendError as error:
            raise CommandError(printable(str(error)), returncode=UNREACHABLE) from error
        except (ImproperlyConfigured, ValueError) as error:
            raise CommandError(printable(str(error)), returncode=USAGE) from error
        except BrokenPipeError:
            # Whoever read our output has seen enough, as `head` does. Python would complain
            # about what is still in the buffer when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + signal.SIGPIPE)
