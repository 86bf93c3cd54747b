"""`manage.py locks` with a server that accepts connections and is silent: an error within 3 s."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command

from tests.django.command_calls import fails
from tests.django.command_line import Terminal

pytestmark = pytest.mark.ci

IN_TIME = 4.0
"""Seconds: three, and room for a busy machine."""


@pytest.fixture
def silent() -> Iterator[str]:
    """Its address; its own timeouts are long."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0?socket_timeout=6"


class Timed(io.StringIO):
    """Notes when it was first written to."""

    first = 0.0

    def write(self, text: str) -> int:
        self.first = self.first or time.monotonic()
        return super().write(text)


@pytest.mark.parametrize("verb", [["doctor"], ["watch"], ["watch", "--alerts", "--once"]])
def test_it_ends_in_time(silent: str, verb: list[str]) -> None:
    began = time.monotonic()
    fails(*verb, "--using", silent, code=1 if "--alerts" in verb else 69)
    assert time.monotonic() - began < IN_TIME


@pytest.mark.parametrize("verb", [["run", "job", "--wait", "1"], ["migrate", "--wait", "1"]])
def test_a_verb_that_waits_says_so_and_goes_on(silent: str, verb: list[str]) -> None:
    err, began = Timed(), time.monotonic()
    command = ["--", "true"] if verb[0] == "run" else []
    with pytest.raises(CommandError) as caught:
        call_command("locks", "--no-color", *verb, "--using", silent, *command, stderr=err)
    assert 69 == caught.value.returncode
    assert err.first - began < IN_TIME
    assert time.monotonic() - err.first > 2  # as its own timeouts say
    assert "has not answered for 2.5 s. Still trying." in err.getvalue()


def test_the_screen_says_so_and_goes_on(silent: str) -> None:
    began = time.monotonic()
    with Terminal("watch", "--interval", "0.1", "--using", silent) as terminal:
        terminal.until_line("has not answered for 2 s")
        assert time.monotonic() - began < 2 * IN_TIME  # with the start of a process
        terminal.until_line("Next try in")
        terminal.type("q")
        assert 0 == terminal.end()[0]
