"""Load the Lua scripts, one file per operation, each behind the shared prelude."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property, lru_cache


class Script:
    """One Lua script and the SHA-1 under which Redis caches it.

    Read when first used: a process that takes no lock reads none of the files.

    Args:
        name: The operation, for people.
        parts: The names of its files in this package, in order.
        paths: All its files, each as package and name.
    """

    def __init__(
        self, name: str, parts: tuple[str, ...], paths: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.name = name
        self.parts = parts
        self._paths = paths

    @cached_property
    def text(self) -> bytes:
        """What the server runs."""
        return b"\n".join(_read(*path) for path in self._paths)

    @cached_property
    def sha(self) -> bytes:
        """The name that the server gives it."""
        # Nothing here depends on the strength of SHA-1.
        return hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()

    @cached_property
    def repeats(self) -> bool:
        """Whether its arguments, but for the first, mostly come again: so they are kept packed, the latest few."""
        return self.name in {"acquire", "extend", "release"}  # see also `packed`

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
    return Script(name, parts, paths)


def _read(package: str, part: str) -> bytes:
    # Not above: it takes as long to import as several of our modules.
    from importlib.resources import files

    return (files(package) / f"{part}.lua").read_bytes()


_SHARDED = (
    (b"PUBLISH", b"SPUBLISH"),
    (b"NUMSUB", b"SHARDNUMSUB"),
    (b"{%d+}:index$", b":index$"),  # what the channels of a partition have instead
)


class _ClusterScript(Script):
    """A script as the nodes of a cluster run it."""

    def __init__(self, script: Script) -> None:
        super().__init__(script.name, script.parts)
        self._script = script

    @cached_property
    def text(self) -> bytes:
        """See `on_cluster`."""
        text = self._script.text
        for word, sharded in _SHARDED:
            text = text.replace(b'"%b"' % word, b'"%b"' % sharded)
        return text if self.is_extension else _read(__name__, "_cluster") + b"\n" + text


@lru_cache(maxsize=64)
def on_cluster(script: Script) -> Script:
    """Return the script as the nodes of a cluster run it: messages stay in the partition's slot.

    It changes nothing at all while the slot moves to another node key by key, but for one that
    only extends a lease, of which half is as good as nothing.
    """
    return _ClusterScript(script)


ACQUIRE = load(
    "acquire",
    "_modes",
    "_queue",
    first=("_alone", "_time", "_free", "_join", "_grant", "_tell", "_answer"),
)
RELEASE = load(
    "release",
    "_modes",
    "_queue",
    first=("_alone", "_held", "_leave", "_time", "_heir", "_grant", "_tell", "_told"),
)
ABANDON = load("abandon", "_modes", "_queue")
ADOPT = load("adopt", "_modes")
BURY = load("bury", "_modes", "_queue")
CANCEL = load("cancel", "_modes", "_queue")
CONFIRM = load("confirm", "_modes")
COMMIT = load(
    "commit",
    "_modes",
    "_queue",
    first=("_alone", "_held", "_apply", "_leave", "_time", "_heir", "_grant", "_tell", "_told"),
)
DETECT = load("detect", "_modes", "_queue")
DOWNGRADE = load("downgrade", "_modes", "_queue")
EXTEND = load("extend", "_modes")
FENCE = load("fence", "_modes")
FORCE_RELEASE = load("force_release", "_modes", "_queue")
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
    FORCE_RELEASE,
    TAKE,
    INSPECT,
    INDEX,
    NAMES,
)
