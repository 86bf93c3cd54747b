"""What a forked child process does."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_a_child(work: Callable[[], object]) -> str:
    """Fork, do `work` in the child, and return as text what it returns, or the name of the error that it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as error:  # noqa: BLE001 - said by name
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
