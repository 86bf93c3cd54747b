"""The addresses of the admin's pages: of which server, and a lock's name as one piece of a path."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import pgettext

from redis_locks.conf.name_function import listed
from redis_locks.conf.settings import DEFAULT_SERVER, get_settings
from redis_locks.values.text import printable

SERVER = "server"
"""The argument in an address that names a server of REDIS_LOCKS["SERVERS"]."""

# The admin's quoting leaves dots alone, but browsers take "." and ".." out of a path.
# What it never produces by itself can stand for a dot: it turns each "_" into "_5F".
_DOT = "_2E"


def to_path(name: str) -> str:
    """Return the name as it stands in a path, before percent-encoding."""
    return quote(name) if name.strip(".") else name.replace(".", _DOT)


def from_path(piece: str) -> str:
    """Return the name that `to_path` made into `piece`: that on the server."""
    return listed(unquote(piece.replace(_DOT, ".")))


@dataclass(frozen=True)
class ServerPages:
    """The pages of the locks of one server on an admin site; `using` None is the default server."""

    site: AdminSite
    using: str | None = None

    @classmethod
    def of(cls, request: HttpRequest, site: AdminSite) -> ServerPages:
        """Return those of the server that the address names.

        Raises:
            Http404: There is no server of that name in the settings.
        """
        asked = request.GET.get(SERVER, "")
        using = None if asked in {"", DEFAULT_SERVER} else asked
        if using not in get_settings().server_names:
            raise Http404(f"REDIS_LOCKS['SERVERS'] has no {printable(asked)!r}")
        return cls(site, using)

    @property
    def choices(self) -> list[tuple[str | None, str]]:
        """The servers to choose from, each with its label; none if there is only one."""
        names = get_settings().server_names
        return [(using, self.label(using)) for using in names] if len(names) > 1 else []

    @staticmethod
    def label(using: str | None) -> str:
        """Return what to call a server."""
        return pgettext("server", "default") if using is None else printable(using)

    def path(self, view: str, name: str | None = None) -> str:
        """Return the path of a page, of all locks or of the lock `name`, without the server."""
        args = [] if name is None else [to_path(name)]
        return reverse(f"admin:redis_locks_lock_{view}", args=args, current_app=self.site.name)

    def url(self, view: str, name: str | None = None, **query: str) -> str:
        """Return the address of a page with this query, of all locks or of the lock `name`."""
        if self.using is not None:
            query[SERVER] = self.using
        return self.path(view, name) + (f"?{urlencode(query)}" if query else "")

    def command(self, *words: str) -> str:
        """Return what does the same for this server in a shell."""
        server = () if self.using is None else ("--using", self.using)
        return f"manage.py locks {shlex.join((*words, *server))}"
