#!/usr/bin/env python
"""Run Django's commands for the demo project."""

from __future__ import annotations

import os
import sys

HOW_TO_INSTALL = """\
Django is not installed here. From this folder, run the demo with
python3 -m venv .venv && .venv/bin/python -m pip install -q -e '.[demo]' \
&& .venv/bin/python manage.py demo
or the tests with
python3 -m venv .venv && .venv/bin/python -m pip install -q -e '.[test]' \
&& .venv/bin/python -m pytest
"""


def main() -> None:
    """Hand the command line to Django, or say how to install it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "demo_project.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "django":
            raise
        sys.stderr.write(HOW_TO_INSTALL)
        sys.exit(1)
    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit("Stopped by Ctrl-C.")
    except ImproperlyConfigured as error:  # by the environment, as our settings are right
        sys.exit(str(error))


if __name__ == "__main__":
    main()
