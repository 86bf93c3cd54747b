"""Lua allows a script 200 local names at its top level.

How many more may a shared part get before a script does not compile?
"""

from __future__ import annotations

import pytest
import redis

from redis_locks import scripts
from redis_locks.scripts import Script

LEAST = 30


@pytest.mark.parametrize("script", scripts.ALL, ids=lambda script: script.name)
def test_a_shared_part_may_get_many_more_names(client: redis.Redis, script: Script) -> None:
    more = "".join(f"local more_{number} = {number}\n" for number in range(LEAST))
    # Before the other names, where each lasts to the end of the script; after the flags, if it has
    # some.
    first, newline, rest = script.text.decode().partition("\n")
    text = f"{first}{newline}{more}{rest}" if first.startswith("#!") else f"{more}{first}\n{rest}"
    assert client.script_load(text)
