"""The Lua scripts of run_once: a lock's, and one more key."""

from __future__ import annotations

from redis_locks.scripts import load

_SHARED = ("_modes", "_queue")

BEGIN = load("begin", *_SHARED, package=__name__)
DONE = load("done", *_SHARED, package=__name__)
FAIL = load("fail", *_SHARED, package=__name__)
EXTEND = load("extend", *_SHARED, package=__name__)
STATUS = load("status", *_SHARED, package=__name__)

ALL = (BEGIN, DONE, FAIL, EXTEND, STATUS)
