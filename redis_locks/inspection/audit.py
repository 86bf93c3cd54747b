"""A line in the log for each hold or wait that an operator ends: who did it, to whom, and why."""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Sequence

from redis_locks.inspection.snapshots import HolderInfo, WaiterInfo
from redis_locks.values.text import printable

logger = logging.getLogger("redis_locks.audit")


def operator() -> str:
    """Return who runs this process, as for a command line: user and host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user needs no name
        user = "unknown"
    return f"{user} on {socket.gethostname()}"


def note(
    done: str,
    name: str,
    parties: Sequence[HolderInfo] | Sequence[WaiterInfo],
    *,
    by: str,
    reason: str,
) -> None:
    """Log at level INFO what an operator did; the record has each part as an attribute of its own.

    Args:
        done: "force-released" or "cancelled".
        name: The lock.
        parties: Whose holds or waits were ended.
        by: The operator.
        reason: Why; may be empty.
    """
    whose = printable("; ".join(map(str, parties)))
    logger.info(
        "%s %s lock '%s' of %s. Reason: %s",
        printable(by),
        done,
        printable(name),
        whose,
        printable(reason) or "not given",
        extra={
            "operator": by,
            "action": done,
            "lock": name,
            "parties": [str(party) for party in parties],
            "reason": reason,
        },
    )
