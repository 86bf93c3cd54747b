"""The demo's site, served by a thread of the process that measures."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.management.base import CommandError
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

HOST = "127.0.0.1"


class _QuietHandler(WSGIRequestHandler):
    """Answers, and prints no line for each request: the site's address stays on the screen."""

    def log_message(self, format: str, *_args: Any) -> None:  # noqa: A002
        """Say nothing."""


class Site:
    """A port of this machine, which visitors can open once it is `serving`.

    Args:
        port: The port to listen on; another one is chosen if it is taken.

    Raises:
        CommandError: No port is free, or the port may not be used.
    """

    def __init__(self, port: int) -> None:
        self.note = ""
        try:
            self._server = _listen(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CommandError(f"The site cannot use port {port}: {error.strerror}.") from error
            self._server = _listen(0)
        except OverflowError as error:
            raise CommandError(f"The site cannot use port {port}: ports end at 65535.") from error
        self.note = (
            f"Port {port} is taken, so the site has another one."
            if self.port != port and port
            else ""
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of the front page."""
        return f"http://{HOST}:{self.port}/"

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answer requests while the block runs."""
        self._server.set_app(StaticFilesHandler(get_wsgi_application()))
        # Pages that are not found are no news for the terminal. After the line above, which sets
        # logging up.
        requests = logging.getLogger("django.request")
        requests.setLevel(logging.ERROR)
        # A server that does not answer is explained by the page, and by the command's last line.
        requests.addFilter(
            lambda record: getattr(record, "status_code", 0) != HTTPStatus.SERVICE_UNAVAILABLE
        )
        thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="site")
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()

    def close(self) -> None:
        """Leave the port."""
        self._server.server_close()


def _listen(port: int) -> ThreadedWSGIServer:
    server = ThreadedWSGIServer((HOST, port), _QuietHandler)
    server.daemon_threads = True
    return server
