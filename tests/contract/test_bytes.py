"""Under `python -bb`, which raises where bytes are compared with text: that is always unequal, whatever they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from redis_locks.testing.server import EmbeddedServer

ROOT = Path(__file__).parents[2]

CYCLES = """
import sys
from threading import Event, Thread
import django

url, name = sys.argv[1:]
django.setup()

from redis_locks import Lock, inspection

def hold_until_waited_for():
    with Lock(name, using=url):
        held.set()
        while not inspection.lock(name, using=url).waiting:
            pass

for _ in range(2):  # after a brief wait, the next one may ask silently
    held = Event()
    thread = Thread(target=hold_until_waited_for, daemon=True)
    thread.start()
    assert held.wait(20)
    with Lock(name, using=url, wait=20):
        pass
    thread.join()
print("done")
"""


def test_a_contended_cycle_compares_no_bytes_with_text(
    redis_server: EmbeddedServer, name: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-bb", "-c", CYCLES, redis_server.url, name],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert ("done\n", "") == (ran.stdout, ran.stderr)
