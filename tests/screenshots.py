"""Take the pictures in README: `nox -s screenshots`, or `python -m tests.screenshots`.

They show the demo's site in headless Chromium, with money that is really moved, and locks that are
really held and waited for. Only the figures of the hour before are made up, as nobody wants to wait
for that hour. The pictures of the comparison, which wants a quiet machine for some minutes, is
taken with --comparison only.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zlib import crc32

import django
from PIL import Image
from playwright.sync_api import Page, ViewportSize

from redis_locks.testing.server import EmbeddedServer
from tests.browsing import launched, log_in

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "demo_project" / "pictures"
SCREEN: ViewportSize = {"width": 1280, "height": 800}
MOST_BYTES = 200_000
COLOURS = 256
LOCKS = "/admin/redis_locks/lock/"
HELD = {
    "report:nightly": ("cron-1", "manage.py report"),
    "invoice:2041": ("worker-2", "billing.tasks.send_invoice"),
    "account:17": ("web-1", "bank.views.transfer"),
    "stock:7": ("web-3", "shop.views.checkout"),
    "search:reindex": ("worker-1", "search.tasks.reindex"),
}
WAITING = {"account:17": ["web-2", "web-3", "worker-1"], "stock:7": ["web-1"]}
EARLIER = ("web-3", "web-1", "worker-1", "web-2")
BUSY = {"account:17": 40, "stock:7": 25, "invoice:2041": 9, "report:nightly": 1, "account:4": 12}


@contextmanager
def locks() -> Iterator[None]:
    """Hold some locks, with others waiting, from several hosts."""
    from redis_locks import Lock
    from redis_locks.statistics.collector import collector
    from tests.support.parties import held, on_host, waited_for

    for host in EARLIER:
        with on_host(host, process_of(host)), Lock("account:17", label=HELD["account:17"][1]):
            time.sleep(0.2)
    with ExitStack() as stack:
        for name, (host, label) in HELD.items():
            with on_host(host, process_of(host)):
                stack.enter_context(held(name, label=label, lease=30))
        for name, hosts in WAITING.items():
            for host in hosts:
                with on_host(host, process_of(host)):
                    stack.enter_context(waited_for(name, HELD[name][1]))
        use()
        collector.flush()
        yield


def process_of(host: str) -> int:
    """The number of the process there: no two hosts have the same."""
    return 1000 + crc32(host.encode()) % 30_000


def use() -> None:
    """Make up the figures of the hour before."""
    from redis_locks.connections.backends import backend_for
    from redis_locks.connections.resolution import client_of
    from redis_locks.statistics import read
    from redis_locks.statistics.collector import HOLDS, WAITS
    from redis_locks.values.histogram import bucket_of

    dice = random.Random(7)
    (index,) = backend_for(None).partitions()[0]
    now = int(read().at) // 60
    pipe = client_of(None).pipeline()
    for age in range(60):
        key = index.removesuffix(b"index") + f"stats:60:{now - age}".encode()
        for name, share in BUSY.items():
            for _ in range(dice.randint(share // 2, share) * (2 if 20 < age < 32 else 1)):
                pipe.hincrby(key, f"a {name}", 1)
                pipe.hincrby(key, f"{HOLDS[bucket_of(dice.lognormvariate(-4, 1))]} {name}", 1)
                if dice.random() < share / 150:
                    pipe.hincrby(key, f"c {name}", 1)
                    wait = dice.lognormvariate(-3, 1.2)
                    pipe.hincrby(key, f"{WAITS[bucket_of(wait)]} {name}", 1)
                    if wait > 0.4:
                        pipe.hincrby(key, f"t {name}", 1)
        pipe.expire(key, 3600)
    pipe.execute()


def take_bank(site: str, page: Page) -> None:
    """Take the picture of the live bank after a race."""
    page.goto(site)
    page.click("text=Open the accounts")
    page.click("#race button")
    page.wait_for_selector("#result")
    take(page, "bank")


def take_ledger(site: str, page: Page) -> None:
    """Take the picture of both ledgers after a run with faults."""
    page.goto(f"{site}/ledger/")
    page.click("text=Lose replies and kill workers")
    page.wait_for_selector("#run", timeout=120_000)
    page.locator("#run").screenshot(path=FOLDER / "ledger.png")
    shrink("ledger")


def take_tellers(site: str, page: Page) -> None:
    """Take the picture of a branch in which one teller has crashed and others serve and wait."""
    page.goto(f"{site}/tellers/")
    page.click("text=Open the branch")
    page.wait_for_selector("#branch >> text=3 of 3", timeout=60_000)
    # So that there are customers of before to see.
    served = (
        "[...document.querySelectorAll('.tellers td.number')].every((each) => each.textContent > 1)"
    )
    page.wait_for_function(f"() => {served}", timeout=60_000)
    page.click(".tellers tr:has(.working) button")
    page.wait_for_selector(".state.dead")
    page.wait_for_selector(".tellers >> text=waiting as number 1")
    page.locator("#branch").screenshot(path=FOLDER / "tellers.png")
    shrink("tellers")


def take_locks(page: Page) -> None:
    """Take the pictures of the admin's pages of locks, of which the list is open."""
    page.wait_for_selector("text=3 waiting")
    take(page, "locks")
    page.click("text=account:17")
    page.wait_for_selector("text=Held by 1")
    take(page, "lock")
    page.goto(page.url.split(LOCKS)[0] + f"{LOCKS}stats/")
    page.wait_for_selector(".locks-chart svg")
    take(page, "stats")


def take_comparison(site: str, page: Page) -> None:
    """Take the picture of the comparison's first charts."""
    page.goto(f"{site}/admin/bank/comparison/")
    page.wait_for_selector("html[data-charts-drawn]", state="attached")
    # The sidebar is not what the picture is about.
    page.locator("section:has(#title-1)").screenshot(path=FOLDER / "comparison.png")
    shrink("comparison")


def take(page: Page, name: str) -> None:
    """Take a picture of a page."""
    page.screenshot(path=FOLDER / f"{name}.png", full_page=True)
    shrink(name)


def shrink(name: str) -> None:
    """Make a picture small: it has few colours."""
    path = FOLDER / f"{name}.png"
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size:,} bytes")  # noqa: T201 - for whoever runs it
    if size > MOST_BYTES:
        msg = f"{path.name} has {size:,} bytes, more than {MOST_BYTES:,}: make the screen smaller"
        raise SystemExit(msg)


def main(*, comparison: bool) -> None:
    """Start a server and the site, use some locks, and take the pictures."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer(use_environment=False))
        database = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "db.sqlite3"
        os.environ.update(
            DJANGO_SETTINGS_MODULE="demo_project.settings",
            REDIS_URL=server.url,
            DEMO_DATABASE=str(database),
        )
        django.setup()
        from tests.django.serving import served

        site = stack.enter_context(served(server.url, database))
        browser = stack.enter_context(launched())
        page = browser.new_context(viewport=SCREEN, reduced_motion="reduce").new_page()
        take_bank(site, page)
        take_ledger(site, page)
        with locks():
            page.goto(f"{site}/admin/login/?next={LOCKS}")
            log_in(page, "password")
            take_locks(page)
        # After the others, as its semaphore would be in the pictures of locks.
        take_tellers(site, page)
        if comparison:
            # After the others, as its locks would be in the picture of statistics.
            compare = [sys.executable, "manage.py", "compare", "--csv"]
            subprocess.run(compare, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
            take_comparison(site, page)


if __name__ == "__main__":
    main(comparison="--comparison" in sys.argv[1:])
