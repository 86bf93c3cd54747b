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


class Argument:
    """An argument of a verb, declared by what `add_argument` takes."""

    def __init__(self, *names: str, **options: Any) -> None:
        self._names, self._options = names, options

    def add_to(self, parser: CommandParser) -> None:
        """Have a parser read it."""
        parser.add_argument(*self._names, **self._options)


class Verb:
    """One verb: `name` and `help` for the user, arguments, and what it does."""

    name: ClassVar[str]
    help: ClassVar[str]
    usage: ClassVar[str | None] = None
    """What --help says in place of a list of all options."""
    arguments: ClassVar[tuple[Argument, ...]] = ()
    """Its own, in the order of --help; all verbs have `--using` and Django's."""
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
            usage=self.usage,
            description=textwrap.fill(f"{self.help} {self.details}", _HELP_COLUMNS),
            epilog=f"Examples:{examples}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(run=self.begin)
        for argument in (*self.arguments, _USING, *(_FORMAT if self.answers else ()), *_DJANGOS):
            argument.add_to(parser)

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


_USING: Final = Argument(
    "--using",
    help="the server: a name in REDIS_LOCKS['SERVERS'], a CACHES alias, a URL or a dotted path",
)
_FORMAT: Final = (
    Argument(
        "--format",
        choices=FORMATS,
        help="default: a table; of list, plain (tab-separated) when stdout is not a terminal",
    ),
    Argument("--json", dest="format", action="store_const", const="json", help="as --format json"),
)
# As Django's, which are the command's, but a user may well put them last.
_HIDDEN: Final = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
_DJANGOS: Final = (
    *(Argument(name, **_HIDDEN) for name in ("--settings", "--pythonpath")),
    *(
        Argument(name, action="store_true", **_HIDDEN)
        for name in ("--traceback", "--no-color", "--force-color")
    ),
)

SECONDS: Final[dict[str, Any]] = {
    "type": number(0, MAX_SECONDS, float, "a number of seconds from 0 to one year"),
    "metavar": "SECONDS",
}
COUNT: Final[dict[str, Any]] = {
    "type": number(1, 10**9, int, "a whole number above 0"),
    "metavar": "N",
}
"""What arguments of these types are declared with."""

NAME: Final = Argument("name", help="the name of the lock")
PATTERN: Final = Argument("pattern", nargs="?", help="only locks whose name matches: 'account:*'")
LIMIT: Final = Argument("--limit", **COUNT, help="show at most so many locks")
