"""`manage.py locks completion`: what a shell may put in for a word that the user has begun."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from redis_locks import inspection
from redis_locks.conf.settings import get_settings
from redis_locks.inspection.time_limit import within
from redis_locks.management.locks.console import USAGE, Console, fail
from redis_locks.management.locks.verb import Verb, VerbParser

SHELLS = ("bash", "zsh", "fish")

_SCRIPTS = Path(__file__).parent
_PATIENCE = 2.0
"""Seconds that a user who pressed Tab waits for the names of locks, at most."""

_WANT_LOCKS = frozenset({"name", "pattern"})
"""Arguments that are names of locks."""


class Completion(Verb):
    """The script for a shell, and what that script asks."""

    name = "completion"
    asks_first = False
    help = "Print the script that completes this command in a shell."
    details = (
        "It completes verbs, options, their values, and the names of locks of the server. "
        "Other completions of manage.py stay as they are."
    )
    examples = (
        "completion bash > ~/.locks.bash   (and `source ~/.locks.bash` in ~/.bashrc)",
        "completion zsh > ~/.locks.zsh     (and `source ~/.locks.zsh` in ~/.zshrc, after compinit)",
        "completion fish > ~/.config/fish/conf.d/locks.fish",
    )
    answers = False

    def __init__(self, verbs: Sequence[Verb]) -> None:
        self._verbs = (*verbs, self)

    def arguments(self, parser: CommandParser) -> None:
        """Add the shell, and the words that its script asks about."""
        parser.add_argument("shell", choices=SHELLS, nargs="?", help="the shell")
        parser.add_argument("--words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)

    def run(self, console: Console, **options: Any) -> None:
        """Print the script, or candidates for the last word: each with a tab and what it means."""
        if options["words"]:
            console.write(f"{text}\t{meaning}" for text, meaning in self._found(options["words"]))
        elif options["shell"]:
            script = _SCRIPTS / f"completion.{options['shell']}"
            console.write(script.read_text(encoding="utf-8").splitlines())
        else:
            fail(f"Name the shell: {', '.join(SHELLS)}.", USAGE)

    def _found(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        *before, begun = words
        begun = re.sub(r"\\(.)", r"\1", begun)
        for text, meaning in self._candidates(before, begun):
            if text.startswith(begun):
                # Its first words, without what argparse would put in.
                yield text, re.split(r"[.;%]", meaning)[0].strip()

    def _candidates(self, before: Sequence[str], begun: str) -> Iterable[tuple[str, str]]:
        if not before:
            return [(verb.name, verb.help) for verb in self._verbs]
        known = _arguments(self._verbs, before[0])
        options = {text: action for action in known for text in action.option_strings}
        asked = options.get(before[-1])
        if asked is not None and asked.nargs != 0:
            return [(choice, "") for choice in _values(asked)]
        option, equals, _ = begun.partition("=")
        if equals:
            values = _values(options[option]) if option in options else ()
            return [(f"{option}={choice}", "") for choice in values]
        if begun.startswith("-"):
            return [
                (text, action.help or "")
                for text, action in options.items()
                if text.startswith("--") and text not in before and action.help != argparse.SUPPRESS
            ]
        return self._positionals(known, options, before[1:])

    def _positionals(
        self,
        known: Iterable[argparse.Action],
        options: dict[str, argparse.Action],
        before: Sequence[str],
    ) -> Iterable[tuple[str, str]]:
        given = [
            word
            for last, word in zip(("", *before), before, strict=False)
            if not word.startswith("-") and not ((of := options.get(last)) and of.nargs != 0)
        ]
        wanted = [action for action in known if not action.option_strings][len(given) :][:1]
        for action in wanted:
            if action.dest in _WANT_LOCKS:
                using = dict(pairwise(before)).get("--using")
                return [(name, "") for name in _names(using)]
            return [(str(choice), "") for choice in action.choices or ()]
        return ()


def _arguments(verbs: Iterable[Verb], name: str) -> Sequence[argparse.Action]:
    """Return the arguments of a verb; of one that is none, nothing."""
    parsers = argparse.ArgumentParser().add_subparsers(parser_class=VerbParser)
    return [
        action
        for verb in verbs
        if verb.name == name
        for action in verb.parser(parsers).known
        if action.dest != "help"
    ]


def _values(option: argparse.Action) -> Iterable[str]:
    if option.dest == "using":
        return filter(None, get_settings().server_names)
    return map(str, option.choices or ())


def _names(using: str | None) -> Sequence[str]:
    """Return the names of the locks that can be typed; without the server, or if it takes long, none."""
    found = within(_PATIENCE, lambda: inspection.names(using=using)) or ()
    return [name for name in found if name.isprintable()]
