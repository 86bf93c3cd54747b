"""The screen of `manage.py locks watch`: what a key means that comes while the screen changes."""

from __future__ import annotations

from concurrent.futures import Future
from io import StringIO

from django.core.management.base import OutputWrapper
from django.core.management.color import no_style

from redis_locks.inspection import LockInfo
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.live_screen import LiveScreen, _Prompt
from redis_locks.management.locks.selection import Selection
from tests.django.lock_infos import info


def test_a_key_that_came_before_the_question_consents_to_nothing() -> None:
    out = OutputWrapper(StringIO())
    screen = LiveScreen(Console(out, out, no_style(), force_color=False), None, Selection())
    answered: Future[LockInfo | str] = Future()
    answered.set_result(info("n"))
    screen._prompt, screen._answer = _Prompt("given", "stuck", "n"), answered
    assert screen.press("y")
    assert screen.asks_for_consent
    assert screen._answer is None  # nothing was sent
