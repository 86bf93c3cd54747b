"""How locks are asked for: all that each acquire of them repeats, worked out once.

`Terms` are what locks with the same options have in common on one server. A `Plan` adds the names,
and the packets in which only the token changes. The end of a packet, with who asks and where the
grant is heard, is kept with the link.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import Any, Final

from redis_locks import scripts
from redis_locks.drivers.base import PARKED, Call, Link
from redis_locks.drivers.server_link import pack_call, pack_words
from redis_locks.protocol.store import (
    Commands,
    Request,
    acquire_call,
    milliseconds_of,
)
from redis_locks.scripts import Script
from redis_locks.values import identity
from redis_locks.values.keys import MANY_NAMES, Keys

_FEW_KEYS: Final = 4
"""Packets with more keys are packed each time: what is remembered would be large."""

_MOST_TAILS: Final = 256
"""How many ends of packets a link keeps: each task has a name of its own."""


class Terms:
    """What locks with the same options have in common on one server.

    Args:
        mode: How they are held, as `_prelude.lua` says.
        lease_ms: How long a hold lasts unless it is renewed.
        backend: The server, which has a `description`; it is not kept alive, as other settings make
            another one.
        wait: Seconds to wait if an acquire does not say; None: for ever.
        renews: Whether holds are renewed.
        replicas: How many replicas have to know of the grant, and of each extend, before it counts.
        patience: Seconds after which a wait looks for a deadlock; None: only when it is told to.
        label: What the holder runs, for people; None: the command of this process.
        template: What the names were made from; see `LockEvent.template`.
        shown_mode: What people call the mode, if that is not what scripts call it.
        crash_release: Whether the locks become free soon after the end of the holder's process.
        guarded: The databases before whose COMMIT holds are verified; None: all.
        max_hold: Seconds for which a hold is renewed while its event loop stands still; None: as
            its renewer says.
        script: What extends a hold.
        at_least_ms: For how long after a grant the locks stay closed, if the hold ends before; 0:
            not at all.
        max_waiting: How many may wait for each lock; None: any number.
        proceeds: Whether a block goes on without the lock when its server cannot be asked.
    """

    __slots__ = (
        "at_least_ms",
        "backend",
        "crash_release",
        "description",
        "ends_plainly",
        "guarded",
        "is_plain",
        "label",
        "lease",
        "lease_ms",
        "max_hold",
        "max_waiting",
        "mode",
        "patience",
        "proceeds",
        "renews",
        "replicas",
        "script",
        "shown_mode",
        "template",
        "third",
        "wait",
    )

    def __init__(
        self,
        mode: str,
        lease_ms: int,
        *,
        backend: Any = None,
        wait: float | None = None,
        renews: bool = True,
        replicas: int = 0,
        patience: float | None = None,
        label: str | None = None,
        template: str | None = None,
        shown_mode: str | None = None,
        crash_release: bool = False,
        guarded: frozenset[str] | None = None,
        max_hold: float | None = None,
        script: Script = scripts.EXTEND,
        at_least_ms: int = 0,
        max_waiting: int | None = None,
        proceeds: bool = False,
    ) -> None:
        self.backend: Any = (lambda: None) if backend is None else weakref.ref(backend)
        self.description: str = "" if backend is None else backend.description
        """The server, as text for people."""
        self.mode, self.shown_mode = mode, shown_mode
        self.lease_ms, self.lease, self.third = lease_ms, lease_ms / 1000, lease_ms / 3000
        self.wait, self.patience = wait, patience
        self.renews, self.max_hold = renews, max_hold
        self.replicas = replicas
        self.script = scripts.CONFIRM if replicas else script
        self.label, self.template = label, template
        self.crash_release, self.guarded = crash_release, guarded
        self.at_least_ms = at_least_ms
        self.max_waiting = max_waiting
        self.proceeds = proceeds
        self.is_plain = not (replicas or crash_release or max_waiting)
        """Whether nothing but the question and its reply is needed."""
        self.ends_plainly = not (at_least_ms or (backend is not None and backend.is_hasty))
        """Whether one question ends a hold, most often, in the time that its caller has."""

    def who(self, unit: str) -> str:
        """Return who asks, as text for scripts: this process, and a thread or task of it."""
        channel = self.backend().own_channel if self.crash_release else None
        return identity.written(identity.process.pid, unit, self.label, channel)


class Plan:
    """How the locks of one partition are asked for, all at once.

    Args:
        terms: What they have in common with others.
        names: Their names.
        keys: KEYS of the scripts.
        name: What messages call them; None: their names.
        reads: Packed commands to run as soon as they are held.
        is_found: Whether later acquires of the thread or task are to find the hold.
    """

    __slots__ = (
        *(
            "_ask",
            "_end",
            "_locks",
            "is_large",
            "keys",
            "name",
            "names",
            "places",
            "read_packet",
            "reads",
            "terms",
        ),
    )

    def __init__(
        self,
        terms: Terms,
        names: tuple[str, ...],
        keys: Keys,
        name: str | None = None,
        reads: tuple[bytes, ...] = (),
        *,
        is_found: bool = True,
    ) -> None:
        self.terms, self.names, self.keys, self.reads = terms, names, keys, reads
        self.is_large = len(names) > MANY_NAMES
        """Whether thousands of them are too much to keep."""
        self.name = name or ", ".join(names)
        server = terms.backend
        self.places = tuple([(server, each) for each in names]) if is_found else ()
        """Where later acquires of a thread or task find a hold."""
        self.read_packet = b"".join(reads)
        self._ask = self._end = ""
        if len(keys) <= _FEW_KEYS:
            question, end = _heads(keys[0], len(keys))
            self._locks = locks = pack_words(keys[1:]).decode()
            self._ask, self._end = f"{question}{locks}$", f"{end}{locks}$"

    def question(self, link: Link, token: str, unit: str, wait: float | None) -> bytes:
        """Return the packet that asks first for the locks, and queues for up to `wait` seconds."""
        if not self._ask:
            return pack_call(scripts.ACQUIRE, self._call(link.listener, token, unit, wait, "1"))
        key = self.terms, unit, wait
        tail = link.tails.get(key)
        if tail is None:
            tail = self._tail(key, link, self._call(link.listener, token, unit, wait, "1"))
        return f"{self._ask}{len(token)}\r\n{token}\r\n{tail}".encode()

    def silent_question(
        self, link: Link, token: str, unit: str, wait: float | None, *, parks: bool
    ) -> bytes:
        """Return the packet that asks without a reply; `parks`: reads wait for its turn.

        See `silent_questions`.
        """
        listener = link.listener + PARKED if parks else link.listener
        if not self._ask:
            return pack_call(scripts.ACQUIRE, self._call(listener, token, unit, wait, "2"))
        key = self.terms, unit, wait, parks
        tail = link.tails.get(key)
        if tail is None:
            tail = self._tail(key, link, self._call(listener, token, unit, wait, "2"))
        return f"{self._ask}{len(token)}\r\n{token}\r\n{tail}".encode()

    def _call(self, listener: str, token: str, unit: str, wait: float | None, first: str) -> Call:
        return acquire_call(self.request(token, unit), listener, milliseconds_of(wait), first)

    @staticmethod
    def _tail(key: object, link: Link, call: Call) -> str:
        if len(link.tails) >= _MOST_TAILS:
            link.tails.clear()
        tail = link.tails[key] = pack_words(tuple(call[1][1:])).decode()
        return tail

    def end(self, token: str) -> bytes:
        """Return the packet that ends the hold of a token, and hands the locks on."""
        if not self._end:
            return pack_call(scripts.RELEASE, (self.keys, (token,)))
        return f"{self._end}{len(token)}\r\n{token}\r\n".encode()

    def commit(self, token: str, commands: Commands) -> bytes:
        """Return the packet that runs commands and ends the hold of a token, in one step."""
        keys = self.keys
        if not self._end:
            return pack_call(scripts.COMMIT, (keys, (token, *commands.words)))
        head = _call_of(scripts.COMMIT, keys[0], len(keys))
        start = f"*{4 + len(keys) + len(commands.words)}\r\n{head}{self._locks}"
        return f"{start}${len(token)}\r\n{token}\r\n".encode() + commands.packed

    def request(self, token: str, unit: str) -> Request:
        """Return what asks for the locks off the usual way."""
        terms = self.terms
        return Request(
            self.keys,
            token,
            terms.lease_ms,
            terms.mode,
            terms.who(unit),
            self.reads,
            self.names,
            terms.template,
            terms.replicas,
            max_waiting=terms.max_waiting,
        )


@lru_cache(maxsize=256)
def _heads(index: bytes, keys: int) -> tuple[str, str]:
    """Return how the question and the end begin, up to the keys of the locks.

    `keys`: how many keys they have, with that of the index.
    """
    question, end = _call_of(scripts.ACQUIRE, index, keys), _call_of(scripts.RELEASE, index, keys)
    return f"*{3 + keys + 7}\r\n{question}", f"*{3 + keys + 1}\r\n{end}"


@lru_cache(maxsize=256)
def _call_of(script: Script, index: bytes, keys: int) -> str:
    """Return a call of a script up to the keys of the locks.

    It lacks the header that says how many words it has.
    """
    return pack_words((b"EVALSHA", script.sha, b"%d" % keys, index)).decode()
