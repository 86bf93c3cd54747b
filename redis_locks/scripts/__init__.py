"""Load the Lua scripts, one file per operation, each behind the shared prelude."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """One Lua script and the SHA-1 under which Redis caches it."""

    name: str
    text: bytes
    sha: bytes


def _load(name: str) -> Script:
    folder = files(__package__)
    text = b"\n".join((folder / f).read_bytes() for f in ("_prelude.lua", f"{name}.lua"))
    # Redis names cached scripts by SHA-1; nothing here depends on its strength.
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
    return Script(name, text, sha)


ACQUIRE = _load("acquire")
RELEASE = _load("release")
ABANDON = _load("abandon")
EXTEND = _load("extend")
INSPECT = _load("inspect")
INDEX = _load("index")

ALL = (ACQUIRE, RELEASE, ABANDON, EXTEND, INSPECT, INDEX)
