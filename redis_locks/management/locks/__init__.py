"""The verbs of `manage.py locks`, one file each."""

from __future__ import annotations

from redis_locks.management.locks.blocking_tree import Blocking
from redis_locks.management.locks.doctor import Doctor
from redis_locks.management.locks.list import List
from redis_locks.management.locks.migrate import Migrate
from redis_locks.management.locks.operators import Cancel, Drain, Release
from redis_locks.management.locks.run import Run
from redis_locks.management.locks.show import Show
from redis_locks.management.locks.stats import History, Stats
from redis_locks.management.locks.verb import Verb
from redis_locks.management.locks.watch import Watch

VERBS: tuple[Verb, ...] = (
    List(),
    Show(),
    Blocking(),
    Watch(),
    Stats(),
    History(),
    Release(),
    Cancel(),
    Drain(),
    Run(),
    Migrate(),
    Doctor(),
)
