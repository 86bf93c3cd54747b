"""What every verb of `manage.py locks` does: formats, escapes, colours, how it fails and ends."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess

import pytest
from django.core.management import call_command

from redis_locks import Hold, Lock
from tests.django.command_calls import fails, run
from tests.django.command_line import LOCKS, Terminal, environment, locks
from tests.support.commands import VERBS

pytestmark = pytest.mark.usefixtures("own_prefix")


@pytest.mark.parametrize(
    "verb", ["list", "show x", "release x -y", "blocking", "run x -- touch /nonexistent/ran"]
)
def test_a_server_that_is_down_gives_69(verb: str) -> None:
    word, *arguments = verb.split()
    message = fails(word, "--using", "unix:///nonexistent/server.sock", *arguments, code=69)
    assert "nonexistent/server.sock?db=0 cannot be reached" in message


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show", ""], "must not be empty"),
        (["list", "--using", "no such alias"], "there is no cache"),
        (["list", "--limit", "0"], "'0' is not a whole number above 0"),
        (["list", "--older", "nan"], "'nan' is not a number of seconds"),
    ],
)
def test_a_wrong_argument_is_explained_without_a_traceback(args: list[str], said: str) -> None:
    assert said in fails(*args, code=64)


def test_every_format_tells_the_same(name: str, hold: Hold) -> None:
    (lock,) = json.loads(run("list", "--format", "json")[0])
    (line,) = run("list", "--format", "jsonl")[0].splitlines()
    assert lock["holders"][0]["token"] == json.loads(line)["holders"][0]["token"] == hold.token
    (row,) = csv.DictReader(run("list", "--format", "csv")[0].splitlines())
    assert (name, str(hold.fencing_token)) == (row["name"], row["fencing_token"])
    assert run("list", "--format", "plain")[0].splitlines()[0] == "\t".join(row)
    assert "NAME" in run("list", "--format", "table")[0]


@pytest.mark.parametrize("wanted", ["table", "plain", "csv", "json", "jsonl"])
def test_control_characters_and_bidirectional_marks_never_reach_the_terminal(
    name: str, wanted: str
) -> None:
    nasty = "a\nb\tc\x1b[31m\u202e\u200f"
    with Lock(f"{name}{nasty}", label=nasty):
        out = (
            run("list", "--format", wanted)[0]
            + run("show", f"{name}{nasty}", "--format", wanted)[0]
        )
    assert r"\x1b[31m\u202e\u200f" in out or r"\u001b[31m\u202e\u200f" in out
    assert not set(out) & set("\x1b\u202e\u200f")
    if wanted in {"table", "plain", "csv"}:
        assert r"a\nb\tc" in out


def test_a_reader_that_has_seen_enough_ends_the_command_in_silence() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    listing = subprocess.run(
        [*LOCKS, "list"], stdout=writing, stderr=subprocess.PIPE, env=environment(), check=False
    )
    os.close(writing)
    assert (128 + signal.SIGPIPE, b"") == (listing.returncode, listing.stderr)


def test_a_terminal_without_unicode_gets_escapes(name: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    with Lock(f"{name}:口座"):
        call_command("locks", "list", stdout=out)
    assert rb":\u53e3\u5ea7" in out.buffer.getvalue()


@pytest.mark.parametrize(
    ("variables", "arguments", "coloured"),
    [({}, [], True), ({"NO_COLOR": "1"}, [], False), ({"NO_COLOR": "1"}, ["--force-color"], True)],
)
def test_colours_are_for_terminals_and_can_be_refused(
    variables: dict[str, str], arguments: list[str], coloured: bool
) -> None:
    with Terminal("show", "no such lock", *arguments, **variables) as terminal:
        status, shown = terminal.end()
    assert 1 == status
    assert coloured == ("\x1b[" in shown)


def test_a_wrong_verb_is_a_usage_error_that_names_those_that_there_are() -> None:
    status, out, err = locks("lst")
    assert (64, "") == (status, out)
    assert "'lst'" in err
    assert all(verb.name in err for verb in VERBS)


@pytest.mark.parametrize(
    "verb",
    [VERBS[0].name, *(pytest.param(verb.name, marks=pytest.mark.ci) for verb in VERBS[1:])],
)
def test_the_help_of_each_verb_has_examples(verb: str) -> None:
    status, out, _ = locks(verb, "--help")
    assert 0 == status
    assert f"\n  manage.py locks {verb}" in out.partition("Examples:")[2]
