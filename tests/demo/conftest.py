from __future__ import annotations

from tests.demo.driving import browser, site

__all__ = ["browser", "site"]
