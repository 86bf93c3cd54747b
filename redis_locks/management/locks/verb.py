"""What every verb of the command has in common."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable
from typing import Any, ClassVar, Final, NoReturn

from django.core.management.base import CommandError, CommandParser

from redis_locks.inspection.time_limit import require_answer
from redis_locks.management.locks.console import USAGE, Console
from redis_locks.management.locks.report import FORMATS
from redis_locks.values.durations import MAX_SECONDS

_HELP_COLUMNS = 78

_DJANGOS: dict[str, dict[str, Any]] = {
    "--settings": {},
    "--pythonpath": {},
    "--traceback": {"action": "store_true"},
    "--no-color": {"action": "store_true"},
    "--force-color": {"action": "store_true"},
}


ANSWERS_WITHIN: Final = 2.0
"""Seconds, with a new connection."""


class VerbParser(CommandParser):
    """A parser whose usage errors have the exit status 64."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments, and end."""
        if not self.called_from_command_line:
            raise CommandError(f"Error: {message}", returncode=USAGE)
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: error: {message}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and refuse what is unknown here, where the usage of the verb is known."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


class Verb:
    """One verb: `name` and `help` for the user, arguments, and what it does."""

    name: ClassVar[str]
    help: ClassVar[str]
    details: ClassVar[str] = ""
    """What is to be said beyond `help` by --help."""
    examples: ClassVar[tuple[str, ...]] = ()
    """What people may type after "manage.py locks"; --help shows them."""
    answers: ClassVar[bool] = True
    """Whether it prints an answer, of which the user may choose the format."""

    asks_first: ClassVar[bool] = True
    """Whether the server must answer within `ANSWERS_WITHIN` seconds before the verb begins. Others
    bound that themselves.
    """

    def parser(self, verbs: Any) -> None:
        """Add this verb to the command's `verbs`."""
        examples = "".join(f"\n  manage.py locks {each}" for each in self.examples)
        parser: VerbParser = verbs.add_parser(
            self.name,
            help=self.help,
            description=textwrap.fill(f"{self.help} {self.details}", _HELP_COLUMNS),
            epilog=f"Examples:{examples}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(run=self.begin)
        self.arguments(parser)
        parser.add_argument(
            "--using",
            help="the server: a name in REDIS_LOCKS['SERVERS'], a CACHES alias, a URL or a dotted "
            "path",
        )
        if self.answers:
            parser.add_argument(
                "--format",
                choices=FORMATS,
                help="default: a table; of list, plain (tab-separated) when stdout is not a "
                "terminal",
            )
            parser.add_argument(
                "--json", dest="format", action="store_const", const="json", help="as --format json"
            )
        for option, kind in _DJANGOS.items():
            # As Django's, which are the command's, but a user may well put them last.
            parser.add_argument(option, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **kind)

    def arguments(self, parser: CommandParser) -> None:
        """Add the verb's own arguments."""

    def begin(self, console: Console, **options: Any) -> None:
        """Run, if the server answers."""
        if self.asks_first:
            require_answer(options["using"], ANSWERS_WITHIN)
        self.run(console, **options)

    def run(self, console: Console, **options: Any) -> None:
        """Do it.

        Raises:
            CommandError: It could not be done; the exit status says why.
        """
        raise NotImplementedError


def number(least: float, most: float, kind: type[int | float], what: str) -> Callable[[str], Any]:
    """Return a converter of an argument to a number between two bounds."""

    def convert(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = None
        # So written, it refuses NaN too.
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return convert


SECONDS: Final[dict[str, Any]] = {
    "type": number(0, MAX_SECONDS, float, "a number of seconds from 0 to one year"),
    "metavar": "SECONDS",
}
COUNT: Final[dict[str, Any]] = {
    "type": number(1, 10**9, int, "a whole number above 0"),
    "metavar": "N",
}
"""What arguments of these types are declared with."""
