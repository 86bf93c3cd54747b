"""Connections to Redis, blocking and async, behind one async-shaped protocol (`base`).

`protocol` asks drivers for links and runs scripts on them. `connections` makes the drivers. Nothing
here knows Django.
"""

from __future__ import annotations
