"""The Lua scripts that the server runs, one file a verb.

A line ``--include NAME`` in a file stands for the file ``NAME.lua``, once in a script. The parts
begin with an underscore. Each function that a script defines costs it 0.2 us. So `acquire`,
`release` and `commit` take their usual way right behind `_prelude`, which defines none, and include
the parts that define many after it.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_INCLUDE = re.compile(rb"^--include (\w+)\n", re.MULTILINE)


class Script:
    """One Lua script and the SHA-1 under which Redis caches it.

    Read when first used: a process that takes no lock reads none of the files.

    Args:
        name: The operation, for people, and the name of its file.
        package: Where the file is; its parts are there, too, or here.
        repeats: Whether its arguments after the token are the same in most calls.
    """

    def __init__(self, name: str, package: str = __name__, *, repeats: bool = False) -> None:
        self.name = name
        self.package = package
        self.repeats = repeats

    @cached_property
    def text(self) -> bytes:
        """What the server runs."""
        return _expanded(self.package, self.name)

    @cached_property
    def sha(self) -> bytes:
        """The name that the server gives it."""
        # Nothing here depends on the strength of SHA-1.
        return hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()

    @property
    def is_extension(self) -> bool:
        """Whether it does nothing but let a lease last longer."""
        return self.name == "extend"


def _expanded(package: str, name: str) -> bytes:
    included: set[bytes] = set()

    def part(match: re.Match[bytes]) -> bytes:
        name = match[1]
        if name in included:
            return b""
        included.add(name)
        return _INCLUDE.sub(part, _read(package, name.decode()))

    return _INCLUDE.sub(part, _read(package, name))


def _read(package: str, part: str) -> bytes:
    path = _folder(package) / f"{part}.lua"
    if not path.is_file():
        path = _folder(__name__) / f"{part}.lua"
    return path.read_bytes()


@cache
def _folder(package: str) -> Traversable:
    """Return where the scripts of a package are.

    Kept: a block may end, and release, when Python can import no more.
    """
    # Not above: it takes as long to import as several of our modules.
    from importlib.resources import files

    return files(package)


_SHARDED = (
    (b"PUBLISH", b"SPUBLISH"),
    (b"NUMSUB", b"SHARDNUMSUB"),
    (b"{%d+}:index$", b":index$"),  # what the channels of a partition have instead
)


class _ClusterScript(Script):
    """A script as the nodes of a cluster run it."""

    def __init__(self, script: Script) -> None:
        super().__init__(script.name, script.package, repeats=script.repeats)
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

    It changes nothing at all while the slot moves to another node key by key. The exception only
    extends leases, and half of that does no harm.
    """
    return _ClusterScript(script)


ACQUIRE = Script("acquire", repeats=True)
RELEASE = Script("release")
GIVE_UP = Script("give_up")
ADOPT = Script("adopt")
ALERTS = Script("alerts")
CANCEL = Script("cancel")
CLOSE = Script("close")
CONFIRM = Script("confirm", repeats=True)
COMMIT = Script("commit")
CRASH_RELEASE = Script("crash_release")
DETECT = Script("detect")
DOWNGRADE = Script("downgrade")
EXTEND = Script("extend", repeats=True)
FENCE = Script("fence")
FORCE_RELEASE = Script("force_release")
TAKE = Script("take")
INSPECT = Script("inspect")
LONG_WAITS = Script("long_waits")
NAMES = Script("names")
SURVEY = Script("survey")

ALL = tuple(each for each in list(globals().values()) if isinstance(each, Script))
"""All scripts above."""
