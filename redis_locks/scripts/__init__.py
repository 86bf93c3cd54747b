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


def load(name: str, *shared: str, package: str = __name__) -> Script:
    """Return the script `name` behind the prelude and other shared parts.

    A script of another package has that package's own prelude after the shared parts.

    Each function a script defines costs it 0.1 us, so it gets only the parts it needs, and
    the shortest ways out come first.
    """
    parts = ("_prelude", *shared, name)
    own = [(package, name)] if package == __name__ else [(package, "_prelude"), (package, name)]
    paths = [*((__name__, part) for part in parts[:-1]), *own]
    text = b"\n".join((files(folder) / f"{part}.lua").read_bytes() for folder, part in paths)
    # Redis names cached scripts by SHA-1; nothing here depends on its strength.
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
    return Script(name, parts, text, sha)


ACQUIRE = load("acquire", "_acquire_fast", "_modes", "_queue")
RELEASE = load("release", "_release_fast", "_modes", "_queue")
ABANDON = load("abandon", "_modes", "_queue")
ADOPT = load("adopt", "_modes")
BURY = load("bury", "_modes", "_queue")
CANCEL = load("cancel", "_modes", "_queue")
COMMIT = load("commit", "_modes", "_queue")
DETECT = load("detect", "_modes", "_queue")
DOWNGRADE = load("downgrade", "_modes", "_queue")
EXTEND = load("extend", "_modes")
FENCE = load("fence", "_modes")
TAKE = load("take", "_modes", "_queue")
INSPECT = load("inspect", "_modes")
INDEX = load("index")
NAMES = load("names")

ALL = (
    ACQUIRE,
    RELEASE,
    ABANDON,
    ADOPT,
    BURY,
    CANCEL,
    COMMIT,
    DETECT,
    DOWNGRADE,
    EXTEND,
    FENCE,
    TAKE,
    INSPECT,
    INDEX,
    NAMES,
)
