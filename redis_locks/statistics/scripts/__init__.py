"""The Lua scripts of the statistics."""

from __future__ import annotations

from redis_locks.scripts import Script

ADD = Script("add", __name__)
NOTE = Script("note", __name__)
NOTES = Script("notes", __name__)
READ = Script("read", __name__)

ALL = (ADD, NOTE, NOTES, READ)
