"""What the server does, seen from outside: its lines, its grants, and what is free.

`MONITOR` shows each command of each script in the order in which the server ran it, which no client
can see. What a lock's hash contains, `redis_locks/scripts/_lock.lua` says.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from typing import Any

import redis

from redis_locks import LockError, inspection
from tests.history.cluster import Cluster
from tests.history.injection import Server
from tests.history.workload import Log
from tests.support import scripts

_LINE = re.compile(rb"^\d+\.\d+ \[\d+ ([^\]]*)\] (.*)$", re.DOTALL)
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_PLACE = re.compile(r"-?\d+")
_CLAIM = re.compile(r"\d+ \d+ (\S+) \d+ \S+ \d+ \d+ ")

PERIOD = 0.1
"""Seconds between two looks at what is free."""


class Witness:
    """Writes down what a server does while the block lasts; of a cluster, only what is free."""

    def __init__(self, server: Server, note: Log) -> None:
        self._server = server
        self._note = note
        self._over = threading.Event()
        looks = (self._look,) if isinstance(server, Cluster) else (self._listen, self._look)
        self._threads = [threading.Thread(target=each, daemon=True) for each in looks]
        self._listening = threading.Event()
        self._client: redis.Redis | None = None

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()
        if len(self._threads) > 1:
            self._listening.wait(10)

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(10)

    def _listen(self) -> None:
        while not self._over.is_set():
            self._note("gap")
            try:
                with self._server.client(socket_timeout=0.5) as client, client.monitor() as monitor:
                    self._hear(monitor.connection, Lines(self._note))
            except redis.RedisError:
                time.sleep(0.02)

    def _hear(self, connection: Any, lines: Lines) -> None:
        self._listening.set()
        while not self._over.is_set():
            try:
                heard = _LINE.match(connection.read_response())
            except redis.TimeoutError:
                continue
            if heard:
                words = [word.decode(errors="replace") for word in _WORD.findall(heard[2])]
                lines.see(words, in_script=heard[1] == b"lua")

    def _look(self) -> None:
        """Write down for each lock whether it is held, and who waits for it only, on a change."""
        known: dict[str, Any] = {}
        while not self._over.wait(PERIOD):
            at = time.monotonic()
            try:
                locks = inspection.locks()
            except LockError:
                # Nobody can be granted anything meanwhile.
                self._note("fault", at=at, kind="no answer", until=time.monotonic(), pid=0)
                continue
            blocked = _blocked(locks)
            found = {
                info.name: (
                    bool(info.holders),
                    sorted({each.pid for each in info.waiters if each.token not in blocked}),
                )
                for info in locks
            }
            for lock in known.keys() | found.keys():
                state = found.get(lock, (False, []))
                if known.get(lock) != state:
                    known[lock] = state
                    self._note("state", at=at, lock=lock, held=state[0], waiting=state[1])


def _blocked(locks: list[inspection.LockInfo]) -> set[str]:
    """Return the waiters for a held lock and those behind them: a set stands in many lines."""
    lines = [[waiter.token for waiter in info.waiters] for info in locks]
    blocked = {waiter.token for info in locks if info.holders for waiter in info.waiters}
    while True:
        behind = {
            token
            for line in lines
            for place, token in enumerate(line)
            if token not in blocked and blocked.intersection(line[:place])
        }
        if not behind:
            return blocked
        blocked |= behind


def _escaped(text: bytes) -> bytes:
    """Return a text as MONITOR shows it."""
    for plain, shown in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        text = text.replace(plain, shown)
    return text


class Lines:
    """The lines of all locks, followed command by command."""

    def __init__(self, note: Log) -> None:
        self._note = note
        self._names = {
            text.decode(): script.name
            for script in scripts.ALL
            for text in (script.sha, _escaped(script.text))
        }
        self._script = ""
        self._arguments: list[str] = []
        self._asked = set[str]()
        """Tokens that were seen when they asked first."""
        self._held = defaultdict[str, set[str]](set)
        """Tokens that had each lock: to get it back in another mode is no arrival."""
        self._waiting = defaultdict[str, dict[str, str]](dict)

    def see(self, words: list[str], *, in_script: bool) -> None:
        """Follow one command."""
        command = words[0].upper() if words else ""
        if not in_script and command in {"EVALSHA", "EVAL"}:
            self._begin(words)
        elif in_script and len(words) > 1 and "}:lock:" in words[1]:
            lock = words[1].partition("}:lock:")[2]
            if command == "HSET":
                self._set(lock, dict(zip(words[2::2], words[3::2], strict=False)))
            elif command == "HDEL":
                for token in self._waiting[lock].keys() & set(words[2:]):
                    self._leave(lock, token)
            elif command == "DEL":
                for token in list(self._waiting[lock]):
                    self._leave(lock, token)

    def _begin(self, words: list[str]) -> None:
        self._script, keys = self._names.get(words[1], ""), int(words[2])
        self._arguments = [*words[3 + keys :], "", "", ""]
        first = {"acquire": 6, "take": 7}.get(self._script)
        if first is not None and len(self._arguments) > first and self._arguments[first] != "0":
            self._asked.add(self._arguments[0])

    def _set(self, lock: str, fields: dict[str, str]) -> None:
        for field, value in fields.items():
            if field == "holder":
                self._grant(lock, value.partition(" ")[0])
            elif _PLACE.fullmatch(field):
                token = value.partition(" ")[0]
                if self._waiting[lock].get(token) != field:
                    self._waiting[lock][token] = field
                    upgrades = " upgrade:" in value
                    self._note("join", lock=lock, token=token, upgrades=upgrades)
            elif (claim := _CLAIM.match(value)) and field != "claim":
                self._grant(lock, field, beside=claim[1].startswith("intent:"))

    def _leave(self, lock: str, token: str) -> None:
        del self._waiting[lock][token]
        self._note("leave", lock=lock, token=token)

    def _grant(self, lock: str, token: str, *, beside: bool = False) -> None:
        """Note an arrival; an intent stands in no line, and an upgrade goes before it."""
        new = token not in self._held[lock] and token in self._asked
        self._held[lock].add(token)
        upgrades = token == self._arguments[0] and "upgrade:" in self._arguments[2]
        if new and not beside and not upgrades and self._script != "adopt":
            self._note("grant", lock=lock, token=token)
