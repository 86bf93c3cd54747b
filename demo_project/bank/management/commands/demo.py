"""``manage.py demo``: everything at once, with nothing installed and nothing left running."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django_redis import get_redis_connection

from demo_project.bank.background import experiments_end
from demo_project.bank.compare.gate import LEAST_ROUNDS
from demo_project.bank.compare.plan import Plan
from demo_project.bank.endings import Terminated, check_reader, one_line_endings
from demo_project.bank.live.customers import open_accounts
from demo_project.bank.only_demo import only_demo
from demo_project.bank.report import report
from demo_project.bank.server import announced, bank_server
from demo_project.bank.site import Site
from demo_project.bank.tour import directions
from redis_locks.management.locks.console import Console

from .compare import add_plan_arguments, plan_from, run_in_terminal

LOGIN = "admin"
USUAL_PORT = 8000
LOOK_SECONDS = 2.0
"""Between two looks at whether the server still answers, and somebody reads the output."""


class Command(BaseCommand):
    """Start a server, serve the site, and compare the strategies meanwhile."""

    help = (
        "Show the whole demo: start a server, open the bank, serve the site, and run a short "
        "comparison."
    )
    # The system checks need the server that this command starts.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options of the first comparison, --once and --port."""
        # Few and short, but enough to tell the strategies apart.
        add_plan_arguments(parser, Plan(workers=(2, 10), rounds=LEAST_ROUNDS, table_seconds=0.2))
        parser.add_argument("--once", action="store_true", help="do all of it but do not serve")
        parser.add_argument(
            "--port",
            type=int,
            default=USUAL_PORT,
            help="port of the site; a free one is chosen if it is taken (default: %(default)s)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Serve at once, measure meanwhile, and go on until somebody stops it."""
        plan = plan_from(options)
        console = Console(self.stdout, self.stderr, self.style, force_color=options["force_color"])
        with (
            one_line_endings(),
            closing(Site(options["port"])) as site,
            bank_server(),
            only_demo(site.url),
            announced(),
        ):
            open_accounts(get_redis_connection("default"))
            password = create_login()
            if options["once"]:
                self._measure(plan, console)
                self._say(site=None, password=password)
                return
            with experiments_end(), site.serving():
                self._show(site, password, plan, console)

    def _show(self, site: Site, password: str, plan: Plan, console: Console) -> None:
        self._say(site, password)
        if site.note:
            self.stdout.write(site.note)
        self.stdout.write("What to click first:")
        for line in directions(site.url.removesuffix("/")):
            self.stdout.write(line)
        self.stdout.write(" And in a second terminal, from this folder, the same locks:")
        self.stdout.write(f"    {command_here('locks', 'list')}\n\n")
        self.stdout.write(
            f"Comparing: {len(plan)} measurements, about {plan.estimated_seconds:.0f} s. "
            "The site works meanwhile."
        )
        self.stdout.flush()
        try:
            self._measure(plan, console)
        except CommandError as error:
            # Somebody has cancelled it, or runs another one, from the page.
            self.stdout.write(str(error))
        self.stdout.write("")
        self._say(site, password)
        self.stdout.write("Stop the demo with Ctrl-C.")
        self.stdout.flush()
        self._wait()

    def _measure(self, plan: Plan, console: Console) -> None:
        comparison = run_in_terminal(plan, console)
        console.write(report(comparison, console.style))

    def _say(self, site: Site | None, password: str) -> None:
        if site:
            self.stdout.write(f"Open {site.url}")
        self.stdout.write(f"Log in as {LOGIN} with the password {password}")

    def _wait(self) -> None:
        """Block until somebody stops the demo.

        Raises:
            redis.RedisError: The server has ended.
            BrokenPipeError: Nobody reads the output any more.
        """
        conn = get_redis_connection("default")
        try:
            while True:
                time.sleep(LOOK_SECONDS)
                conn.ping()
                check_reader()
        except (KeyboardInterrupt, Terminated):
            self.stdout.write("The demo has ended.")


def command_here(*arguments: str) -> str:
    """The line for a shell in this directory that runs ``manage.py`` on the server of this demo."""
    paths = [Path(sys.executable), settings.BASE_DIR / "manage.py"]
    here = Path.cwd()
    shown = [path.relative_to(here) if path.is_relative_to(here) else path for path in paths]
    # A server of our own is found by the database, where that is the usual one.
    names = ["DATABASE_URL", "DEMO_DATABASE"]
    names += [] if settings.BANK_OWNS_SERVER else ["REDIS_URL"]
    chosen = [f"{name}={shlex.quote(os.environ[name])}" for name in names if os.environ.get(name)]
    return " ".join([*chosen, shlex.join([*map(str, shown), *arguments])])


def create_login() -> str:
    """Create the administrator, or give it a new password; returns the password."""
    password = secrets.token_urlsafe(9)
    user, _ = get_user_model().objects.get_or_create(
        **{get_user_model().USERNAME_FIELD: LOGIN},
        defaults={"is_staff": True, "is_superuser": True},
    )
    user.set_password(password)
    user.save()
    return password
