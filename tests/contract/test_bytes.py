"""Under `python -bb`, which raises where bytes are compared with text: they are never equal."""

from __future__ import annotations

from redis_locks.testing.server import EmbeddedServer
from tests.support.children import run_script

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
    ran = run_script(CYCLES, redis_server.url, name, options=("-bb",))
    assert ("done\n", "") == (ran.stdout, ran.stderr)
