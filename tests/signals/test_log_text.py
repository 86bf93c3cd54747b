"""No client can write its own line into the log: quoted control characters are escaped."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import redis_locks
from tests.support.events import LEVELS, log_event_of, write_summaries

PACKAGE = Path(redis_locks.__file__).parent
HOSTILE = "1\nERROR django.security forged\r\x1b[2J\u202e"
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


class Hostile(Exception):
    """An error that quotes what a client sent."""

    def __str__(self) -> str:
        return HOSTILE

    def __repr__(self) -> str:
        return HOSTILE


def _loggers(tree: ast.AST) -> dict[str, str]:
    """The names of the loggers of a module, by the names of their variables."""
    return {
        node.targets[0].id: ast.literal_eval(node.value.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "logging.getLogger"
    }


def _calls() -> Iterator[tuple[str, str]]:
    """Each call of a logger in the package: the logger's name, and the text that it is given.

    Texts that stand in a table are for `test_the_lines_of_events_are_escaped`.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        if "getLogger" not in (source := path.read_text()):
            continue
        tree = ast.parse(source)
        loggers = _loggers(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in METHODS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in loggers
            ):
                text = node.args[1 if node.func.attr == "log" else 0]
                if isinstance(text, ast.Constant):
                    yield loggers[node.func.value.id], text.value


@pytest.mark.parametrize("value", [HOSTILE, Hostile()], ids=["text", "error"])
def test_no_line_can_be_forged(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    calls = list(_calls())
    assert len(calls) > 25
    for logger, text in calls:
        # Only a number can stand where one is wanted.
        arguments = [1 if kind in "dgf" else value for kind in _kinds(text)]
        caplog.set_level(logging.DEBUG, logger)
        logging.getLogger(logger).error(text, *arguments)
        _require_one_line(caplog.records[-1].getMessage())


def _kinds(message: str) -> list[str]:
    parts = message.replace("%%", "").split("%")[1:]
    return [next(letter for letter in part if letter.isalpha()) for part in parts]


def _require_one_line(line: str) -> None:
    assert line.isprintable(), line


@pytest.mark.parametrize("kind", list(LEVELS))
def test_the_lines_of_events_are_escaped(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "redis_locks")
    for _ in range(3):
        log_event_of(kind, HOSTILE)
    write_summaries()
    lines = [record.getMessage() for record in caplog.records]
    assert lines
    for line in lines:
        # Each wait of a deadlock begins a line, by two spaces.
        first, *waits = line.split("\n")
        assert all(wait.startswith("  ") for wait in waits)
        assert bool(waits) == (kind == "deadlock")
        for part in (first, *waits):
            _require_one_line(part)


def test_what_is_harmless_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("redis_locks").warning("%s %r %d %.1f", "plain", "plain", 3, 1.5)
    assert "plain 'plain' 3 1.5" == caplog.records[-1].getMessage()
    assert ("plain", "plain", 3, 1.5) == caplog.records[-1].args
