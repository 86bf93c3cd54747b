"""Processes forked from one that has imported everything but holds no connection and no thread."""

from __future__ import annotations

import multiprocessing

# A test process has one such parent, whichever test starts it.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "redis_locks",
        "django.db.backends.sqlite3.base",
        "django_redis.cache",
        "demo_project.bank.strategies",
        "tests.faults.bank_worker",
        "tests.demo.money_worker",
    ]
)
