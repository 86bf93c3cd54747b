"""System checks. They work offline: none of them connects, or calls code of yours that may.

`apps` imports this package when checks run, so its modules may import redis-py.

| id | what is wrong |
|---|---|
| redis_locks.E001 | REDIS_LOCKS is not a dictionary |
| redis_locks.E002 | an entry that there is not |
| redis_locks.E003 | an entry with a value that cannot be used |
| redis_locks.E004 | CONNECTION or SERVERS names no server that can hold locks |
| redis_locks.W005 | a view's lock ends before the COMMIT of a transaction around it |
| redis_locks.W006 | a cache's clear() empties the database of the locks |
| redis_locks.W007 | a client that waits for a silent server for ever |
| redis_locks.W008 | REQUEST_DEADLINE is set, but its middleware is not there |
| redis_locks.E009 | REPLICAS is set, but a server is a cluster |
| redis_locks.E010 | redis_lock or run_once stands above a task decorator; see `task_order` |
| redis_locks.W012 | the client has an option that locks do not heed |
| redis_locks.W013 | async code cannot take locks over this connection |
| redis_locks.W014 | a lock's name has a field that the view's URL does not give |
| redis_locks.W015 | a view's own dispatch() is outside the transaction that its lock opens |
| redis_locks.W016 | a view takes its lock before it checks permissions |
| redis_locks.E017 | `fenced_by` has a field that the model has not; see `redis_locks.fencing` |
| redis_locks.W018 | a view handles none of the methods for which its mixin takes the lock |
| redis_locks.W011 | SQLite's transactions are DEFERRED, and a model has `select_for_lock` |
"""

from __future__ import annotations

from typing import Final

from redis_locks.checks.configuration import check_servers, check_settings
from redis_locks.checks.row_locks import check_rows
from redis_locks.checks.task_order import check_task_order
from redis_locks.checks.view_checks import check_views
from redis_locks.checks.view_locks import check_lock_names, check_view_order

OF_SETTINGS: Final = (check_settings, check_servers)
OF_CODE: Final = (check_views, check_view_order, check_lock_names, check_rows, check_task_order)
