"""Load the Lua scripts, one file per operation, each behind the shared prelude."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """One Lua script and the SHA-1 under which Redis caches it."""

    name: str
    parts: tuple[str, ...]
    text: bytes
    sha: bytes


def _load(name: str, *shared: str) -> Script:
    """Return the script `name` behind the prelude and other shared parts.

    Each function a script defines costs it 0.1 us, so it gets only the parts it needs, and
    the shortest ways out come first.
    """
    folder = files(__package__)
    parts = ("_prelude", *shared, name)
    text = b"\n".join((folder / f"{part}.lua").read_bytes() for part in parts)
    # Redis names cached scripts by SHA-1; nothing here depends on its strength.
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
    return Script(name, parts, text, sha)


ACQUIRE = _load("acquire", "_acquire_fast", "_modes", "_queue")
RELEASE = _load("release", "_release_fast", "_modes", "_queue")
ABANDON = _load("abandon", "_modes", "_queue")
COMMIT = _load("commit", "_modes", "_queue")
DETECT = _load("detect", "_modes", "_queue")
DOWNGRADE = _load("downgrade", "_modes", "_queue")
EXTEND = _load("extend", "_modes")
INSPECT = _load("inspect", "_modes")
INDEX = _load("index")
NAMES = _load("names")

ALL = (
    ACQUIRE,
    RELEASE,
    ABANDON,
    COMMIT,
    DETECT,
    DOWNGRADE,
    EXTEND,
    INSPECT,
    INDEX,
    NAMES,
)
