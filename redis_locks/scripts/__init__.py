"""Load the Lua scripts, one file per operation, each behind the shared prelude."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """One Lua script and the SHA-1 under which Redis caches it."""

    name: str
    parts: tuple[str, ...]
    text: bytes
    sha: bytes

    @property
    def is_extension(self) -> bool:
        """Whether it does nothing but let a lease last longer."""
        return self.name == "extend"


def load(name: str, *shared: str, first: Sequence[str] = (), package: str = __name__) -> Script:
    """Return the script `name` behind its first parts, the prelude and other shared parts.

    A script of another package has that package's own prelude after the shared parts.

    Each function a script defines costs it 0.1 us, so it gets only the parts it needs, and
    the shortest way out comes first.
    """
    parts = (*first, "_prelude", *shared, name)
    own = [(package, name)] if package == __name__ else [(package, "_prelude"), (package, name)]
    paths = [*((__name__, part) for part in parts[:-1]), *own]
    text = b"\n".join((files(folder) / f"{part}.lua").read_bytes() for folder, part in paths)
    return _named(name, parts, text)


def _named(name: str, parts: tuple[str, ...], text: bytes) -> Script:
    # Redis names cached scripts by SHA-1; nothing here depends on its strength.
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
    return Script(name, parts, text, sha)


@lru_cache(maxsize=64)
def on_cluster(script: Script) -> Script:
    """Return the script as the nodes of a cluster run it: messages stay in the partition's slot.

    It changes nothing at all while the slot moves to another node key by key, but for one that
    only extends a lease, of which half is as good as nothing.
    """
    text = script.text
    for word, sharded in ((b"PUBLISH", b"SPUBLISH"), (b"NUMSUB", b"SHARDNUMSUB")):
        text = text.replace(b'"%b"' % word, b'"%b"' % sharded)
    if not script.is_extension:
        text = (files(__name__) / "_cluster.lua").read_bytes() + b"\n" + text
    return _named(script.name, script.parts, text)


ACQUIRE = load("acquire", "_modes", "_queue", first=("_alone", "_acquire_fast"))
RELEASE = load("release", "_modes", "_queue", first=("_alone", "_release_fast"))
ABANDON = load("abandon", "_modes", "_queue")
ADOPT = load("adopt", "_modes")
BURY = load("bury", "_modes", "_queue")
CANCEL = load("cancel", "_modes", "_queue")
CONFIRM = load("confirm", "_modes")
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
    CONFIRM,
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
