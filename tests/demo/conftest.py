from __future__ import annotations

import pytest
from django.db import connection

from tests.browsing import browser
from tests.demo.driving import environment, site


@pytest.fixture(autouse=True)
def database_of_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of a comparison find the accounts that are rows."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("django_db_setup")
        monkeypatch.setenv("REDIS_LOCKS_TEST_DATABASE", str(connection.settings_dict["NAME"]))
