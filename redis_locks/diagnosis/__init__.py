"""What is wrong with the server that keeps the locks, and what somebody should be called for.

`alerts` has the rules. `checks` asks the server, for `manage.py locks doctor`.
"""

from __future__ import annotations

from redis_locks.diagnosis.alerts import AlertEvent, check_alerts

__all__ = ["AlertEvent", "check_alerts"]
