"""Print the public API, or write it to its file: `python -m tests.architecture [--write]`."""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.architecture import surface  # noqa: E402 - needs Django's apps

text = "\n".join(surface.describe()) + "\n"
if "--write" in sys.argv[1:]:
    surface.FILE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {surface.FILE}\n")
else:
    sys.stdout.write(text)
