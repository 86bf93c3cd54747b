"""A lock's name as one piece of a path in the admin."""

from __future__ import annotations

from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.urls import reverse

# The admin's quoting leaves dots alone, but browsers take "." and ".." out of a path.
# What it never produces by itself can stand for a dot: it turns each "_" into "_5F".
_DOT = "_2E"


def to_path(name: str) -> str:
    """Return the name as it stands in a path, before percent-encoding."""
    return quote(name) if name.strip(".") else name.replace(".", _DOT)


def from_path(piece: str) -> str:
    """Return the name that `to_path` made into `piece`."""
    return unquote(piece.replace(_DOT, "."))


def lock_url(site: AdminSite, view: str, name: str) -> str:
    """Return the address of one of a lock's pages: change, data, release or history."""
    return reverse(f"admin:redis_locks_lock_{view}", args=[to_path(name)], current_app=site.name)
