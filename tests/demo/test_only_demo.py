"""The one demo of a database: what it does when the database fails for a moment."""

from __future__ import annotations

import threading

import pytest
from django.db import OperationalError

from demo_project.bank import only_demo as room
from demo_project.bank.models import Demo
from demo_project.bank.only_demo import only_demo

pytestmark = pytest.mark.django_db


def test_a_sign_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    signs, is_enough = [], threading.Event()

    class Rows:
        def update(self, **values: object) -> None:
            signs.append(values)
            if len(signs) > 2:
                is_enough.set()
            raise OperationalError("the database restarts")

    monkeypatch.setattr(room, "SIGN_SECONDS", 0.01)
    with only_demo("http://localhost/"), pytest.MonkeyPatch.context() as failing:
        failing.setattr(Demo.objects, "filter", lambda **_: Rows())
        assert is_enough.wait(50)
    assert Demo.objects.get().seen is None
