"""`manage.py locks` called in this process: what it prints, asks, and fails with."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(*args: str, out: io.StringIO | None = None) -> tuple[str, str]:
    out, err = out or io.StringIO(), io.StringIO()
    call_command("locks", "--no-color", *args, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def fails(*args: str, code: int = 1) -> str:
    with pytest.raises(CommandError) as caught:
        run(*args)
    assert code == caught.value.returncode
    return str(caught.value)


def answers(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], str]) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", answer)
