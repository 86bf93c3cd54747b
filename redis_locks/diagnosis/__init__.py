"""What may be wrong with the server that keeps the locks, and how to put it right.

    for finding in diagnose():
        print(finding.level, finding.check, finding.message, finding.fix)

Reads, and takes one lock of its own for a moment. What the user may not read becomes a
warning that says which right is missing.

`check_alerts` looks for what somebody should be called for: see `alerts`.
"""

from __future__ import annotations

from redis_locks.diagnosis.alerts import AlertEvent, check_alerts
from redis_locks.diagnosis.checks import diagnose
from redis_locks.diagnosis.findings import Finding

__all__ = ["AlertEvent", "Finding", "check_alerts", "diagnose"]
