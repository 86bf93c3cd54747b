"""The least that a fair lock with fencing tokens needs, over bare sockets.

It is what is possible on this machine.

One script asks or joins the queue, one hands on by a message. There are no timeouts, no renewal, no
errors, no holder that people can read, and nothing that a dead process leaves is cleaned up. It is
to be compared with, and for nothing else.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from demo_project.benchmark.conditions import LEASE, Take, one_server
from demo_project.benchmark.subjects import Subject
from redis_locks.drivers.resp import pack

_ACQUIRE = b"""
local lock, fence, queue = unpack(KEYS)
local own, lease = ARGV[1], ARGV[2]
if redis.call("EXISTS", lock, queue) == 0 then
  redis.call("SET", lock, own, "PX", lease)
  return redis.call("INCR", fence)
end
redis.call("RPUSH", queue, own)
return "queued"
"""

_RELEASE = b"""
local lock, fence, queue = unpack(KEYS)
local own, lease = ARGV[1], ARGV[2]
if redis.call("GET", lock) ~= own then
  return 0
end
while true do
  local heir = redis.call("LPOP", queue)
  if not heir then
    return redis.call("DEL", lock)
  end
  local token, channel = string.match(heir, "^(%S+) (%S+)$")
  if redis.call("PUBLISH", channel, token .. " " .. redis.call("INCR", fence)) > 0 then
    redis.call("SET", lock, heir, "PX", lease)
    return 1
  end
end
"""


_LISTENERS = count()


def _keys(name: str) -> tuple[bytes, ...]:
    return tuple(f"bare:{kind}:{name}".encode() for kind in ("lock", "fence", "queue"))


def _bare(using: str | None, name: str) -> Take:
    client = one_server(using)
    path: Any = client.get_connection_kwargs()["path"]
    asking, hearing = (socket.socket(socket.AF_UNIX) for _ in range(2))
    for each in (asking, hearing):
        each.connect(path)
    channel, keys = f"bare:{os.getpid()}:{next(_LISTENERS)}", _keys(name)
    hearing.sendall(pack(("SUBSCRIBE", channel)))
    hearing.recv(4096)
    acquire, release = (
        pack(("EVALSHA", client.script_load(text), b"%d" % len(keys), *keys))[4:]
        for text in (_ACQUIRE, _RELEASE)
    )
    numbers, lease = count(), pack((str(LEASE * 1000),))[4:]

    @contextmanager
    def take() -> Iterator[None]:
        own = b"%d %b" % (next(numbers), channel.encode())
        who = b"$%d\r\n%b\r\n%b" % (len(own), own, lease)
        asking.sendall(b"*8\r\n%b%b" % (acquire, who))
        if not asking.recv(4096).startswith(b":"):
            hearing.recv(4096)
        yield
        asking.sendall(b"*8\r\n%b%b" % (release, who))
        assert asking.recv(4096) == b":1\r\n"

    return take


BARE: Final = Subject("bare", "bare sockets", _bare, _keys, ("evalsha",))
