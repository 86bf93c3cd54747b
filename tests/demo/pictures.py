"""Take README's pictures of a demo that runs: `python -m tests.demo.pictures URL PASSWORD`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).resolve().parents[2] / "demo_project" / "pictures"
# The name of each picture, the page, and what to show of it, from the first to the last.
PICTURES = [
    ("comparison", "admin/bank/comparison/", "section:has(#title-1)", "section:has(#title-1)"),
]


def take(page: Page, site: str) -> None:
    """Take all pictures of the site."""
    for name, address, first, last in PICTURES:
        page.goto(f"{site}/{address}")
        page.wait_for_selector("html[data-charts-drawn]", state="attached")
        top, bottom = (page.locator(place).bounding_box() for place in (first, last))
        if top is None or bottom is None:
            raise SystemExit(f"{name}: nothing to see at {page.url}")
        clip = {**top, "height": bottom["y"] + bottom["height"] - top["y"]}
        # The sidebar is not what the picture is about.
        page.screenshot(path=FOLDER / f"{name}.png", clip=clip, full_page=True)  # type: ignore[arg-type]


def main(site: str, password: str) -> None:
    """Log in and take the pictures."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_context(
            viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
        ).new_page()
        page.goto(f"{site}/admin/")
        page.fill("#id_username", "admin")
        page.fill("#id_password", password)
        page.click("[type=submit]")
        take(page, site)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), sys.argv[2])
