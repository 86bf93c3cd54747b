"""The Lua scripts of run_once: a lock's, and one more key."""

from __future__ import annotations

from redis_locks.scripts import Script

BEGIN = Script("begin", __name__)
DONE = Script("done", __name__)
FAIL = Script("fail", __name__)
EXTEND = Script("extend", __name__)
STATUS = Script("status", __name__)

ALL = (BEGIN, DONE, FAIL, EXTEND, STATUS)
