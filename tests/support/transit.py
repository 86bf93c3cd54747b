"""The text of a hold that is on its way to another process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_locks.locks.transfer import SALT, Detached


def interrupt_text(monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[], None]) -> None:
    """Call `interrupt` where a detached hold makes its text; the text is empty."""

    def text(_: Detached) -> str:
        interrupt()
        return ""

    monkeypatch.setattr(Detached, "text", text)
