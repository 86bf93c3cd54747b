"""The Lua scripts of the statistics."""

from __future__ import annotations

from redis_locks.scripts import load

ADD = load("add", package=__name__)
NOTE = load("note", package=__name__)
NOTES = load("notes", package=__name__)
READ = load("read", package=__name__)

ALL = (ADD, NOTE, NOTES, READ)
