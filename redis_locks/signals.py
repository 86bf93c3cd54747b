"""The signals, sent robustly: an error in a receiver is logged and changes nothing.

Each is sent with the class of the description as ``sender`` (`run_once`, or a class derived from it)
and one frozen payload, ``event``.

| signal | event | sent when |
|---|---|---|
| ``run_acquired`` | `RunEvent` | this process begins an attempt; ``event.last_attempt`` if none would follow |
| ``run_reacquired`` | `RunEvent` | that attempt follows one that failed or died; sent before ``run_acquired`` |
| ``run_locked`` | `RunEvent` | somebody else is at the job; sent before waiting for it |
| ``run_done`` | `RunEvent` | this process did the job and that is recorded |
| ``run_exhausted`` | `RunEvent` | no attempt is left: to whose attempt was the last, and to all who ask later |
| ``run_error`` | `RunEvent` | this process's attempt failed, or Redis could not be asked |
"""

from __future__ import annotations

from django.dispatch import Signal

run_acquired = Signal()
run_reacquired = Signal()
run_locked = Signal()
run_done = Signal()
run_exhausted = Signal()
run_error = Signal()
