"""The last tree with another protocol: `python -m tests.servers.previous_protocol FOLDER`."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PRELUDE: Final = "redis_locks/scripts/_prelude.lua"


def number_in(tree: Path) -> str:
    """Return the number of the protocol of a tree."""
    return (tree / PRELUDE).read_text(encoding="utf-8").split('local PROTOCOL = "')[1].split('"')[0]


OURS: Final = number_in(ROOT)


def _git(*words: str) -> bytes:
    git = shutil.which("git") or "git"
    return subprocess.run([git, *words], cwd=ROOT, check=True, capture_output=True).stdout


def commit() -> str | None:
    """Return the last commit whose protocol is not ours; None without enough history."""
    line = f'local PROTOCOL = "{OURS}"'
    try:
        # Since the first of these our number is there; before it is another one.
        _git("ls-files", "--error-unmatch", PRELUDE)
        since = _git("log", "--format=%H", "-S", line, "--", PRELUDE).split()
        before = f"{since[-1].decode()}^" if since else "HEAD"
        text = _git("show", f"{before}:{PRELUDE}").decode()
    except (OSError, subprocess.CalledProcessError):
        return None
    return None if line in text else before


def extract(revision: str, folder: Path) -> None:
    """Write the tree of a commit into a folder."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", revision))) as archive:
        archive.extractall(folder, filter="data")


if __name__ == "__main__":
    found = commit()
    if found is None:
        sys.exit("the history has no commit with another protocol")
    extract(found, Path(sys.argv[1]))
