"""The demo shows django-debug-toolbar to who asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.demo.driving import ROOT

ASK = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.test import Client
browser = Client(SERVER_NAME="localhost")
for url in ("/", "/?toolbar=on", "/", "/?toolbar=off", "/"):
    page = browser.get(url).content.decode()
    print("djdt-LocksPanel" in page)
print("djDebug" in Client(SERVER_NAME="localhost").get("/").content.decode())
"""


@pytest.mark.ci
@pytest.mark.slow
def test_a_browser_sees_the_panel_of_locks_until_it_switches_that_off(
    redis_server: EmbeddedServer, environment: dict[str, str]
) -> None:
    environment |= {
        "DJANGO_SETTINGS_MODULE": "demo_project.settings",
        "REDIS_URL": redis_server.url,
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=environment,
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert "" == done.stderr
    assert ["False", "True", "True", "False", "False", "False"] == done.stdout.split()
