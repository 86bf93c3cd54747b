"""Which options a class of redis-py takes: its releases 5 to 8 differ in them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any


@cache
def parameters(kind: type[Any]) -> Mapping[str, Parameter]:
    """Return the arguments that a class takes, those of its bases included."""
    found: dict[str, Parameter] = {}
    for base in reversed(kind.__mro__):
        found |= signature(base.__init__).parameters  # type: ignore[misc]
    return found


def without_notifications(kind: type[Any]) -> dict[str, Any]:
    """Return the options by which a client, pool or connection asks for no notices of maintenance.

    There are none where the class does not know of such notices, as before redis-py 7.
    """
    if "maint_notifications_config" not in parameters(kind):  # type: ignore[arg-type]
        return {}
    from redis.maint_notifications import MaintNotificationsConfig

    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}
