"""``manage.py demo``: everything at once, with nothing installed and nothing left running."""

from __future__ import annotations

import secrets
import shlex
import socket
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django_redis import get_redis_connection

from demo_project.bank.compare.rankings import LEAST_ROUNDS
from demo_project.bank.live.customers import open_accounts
from demo_project.bank.report import print_report
from demo_project.bank.server import bank_server
from demo_project.bank.tour import directions

from .compare import add_plan_arguments, plan_from, run_in_terminal

LOGIN = "admin"
USUAL_PORT = 8000


class Command(BaseCommand):
    """Start a server, prepare the bank, compare the strategies, and serve the site."""

    help = "Show the whole demo: start a server, seed the bank, run a short comparison, serve the site."
    # The system checks need the server that this command starts.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options of the first comparison, --once and --port."""
        # Few and short, but enough to tell the strategies apart.
        add_plan_arguments(parser, (2, 10), 0.15, LEAST_ROUNDS, 0.3)
        parser.add_argument("--once", action="store_true", help="do all of it but do not serve")
        parser.add_argument(
            "--port",
            type=int,
            default=USUAL_PORT,
            help="port of the site; a free one is chosen if it is taken (default: %(default)s)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do one step after the other and say so."""
        plan = plan_from(options)
        with bank_server():
            open_accounts(get_redis_connection("default"))
            password = create_login()
            self.stdout.write(
                f"Making {len(plan)} measurements, about {plan.estimated_seconds:.0f} s ..."
            )
            color = not options["no_color"]
            comparison = run_in_terminal(plan, color=color)
            print_report(getattr(self.stdout, "_out", sys.stdout), comparison, color=color)
            self.stdout.write(f"Log in as {LOGIN} with the password {password}")
            if not options["once"]:
                self._serve(choose_port(options["port"]))

    def _serve(self, port: int) -> None:
        site = f"http://127.0.0.1:{port}"
        self.stdout.write(f"Open {site}/ and stop the demo with Ctrl-C. What to click first:")
        for line in directions(site):
            self.stdout.write(line)
        self.stdout.write(
            " And in a second terminal, from this directory, the same locks as a command:"
        )
        self.stdout.write(f"    {command_here('locks', 'list')}")
        self.stdout.flush()
        # No reloader: it would run this command, and so the server, a second time.
        call_command("runserver", f"127.0.0.1:{port}", use_reloader=False, skip_checks=True)


def command_here(*arguments: str) -> str:
    """The line for a shell in this directory that runs ``manage.py`` on the server of this demo."""
    paths = [Path(sys.executable), settings.BASE_DIR / "manage.py"]
    here = Path.cwd()
    shown = [path.relative_to(here) if path.is_relative_to(here) else path for path in paths]
    line = shlex.join([*map(str, shown), *arguments])
    return f"REDIS_URL={shlex.quote(settings.REDIS_URL)} {line}"


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


def choose_port(wanted: int) -> int:
    """The wanted port, or a free one if somebody listens there already."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise CommandError("There is no free port on this machine.")
