"""How locks are asked for: all that each acquire of them repeats, worked out once.

`Terms` are what locks with the same options have in common on one server. A `Plan` adds the names, and the packets in
which only the token changes. The end of a packet, with who asks and where the grant is heard, is kept with the link.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from redis_locks import scripts
from redis_locks.drivers.base import Link
from redis_locks.drivers.resp import pack
from redis_locks.drivers.server_link import pack_call
from redis_locks.protocol.store import Request, acquire_call, milliseconds_of
from redis_locks.scripts import Script
from redis_locks.values import identity
from redis_locks.values.keys import Keys

_FEW_KEYS: Final = 4
"""Packets with more keys are packed each time: what is remembered would be large."""

_MOST_TAILS: Final = 256
"""How many ends of packets a link keeps: each task has a name of its own."""


class Terms:
    """What locks with the same options have in common on one server.

    Args:
        mode: How they are held, as `_prelude.lua` says.
        lease_ms: How long a hold lasts unless it is renewed.
        backend: The server; it is not kept alive, as other settings make another one.
        wait: Seconds to wait if an acquire does not say; None: for ever.
        renews: Whether holds are renewed.
        replicas: How many replicas have to know of the grant, and of each extend, before it counts.
        patience: Seconds after which a wait looks for a deadlock; None: only when it is told to.
        label: What the holder runs, for people; None: the command of this process.
        template: What the names were made from; see `LockEvent.template`.
        shown_mode: What people call the mode, if that is not what scripts call it.
        crash_release: Whether the locks become free soon after the end of the holder's process.
        guarded: The databases before whose COMMIT holds are verified; None: all.
        max_hold: Seconds for which a hold is renewed while its event loop stands still; None: as its renewer says.
        script: What extends a hold.
    """

    __slots__ = (
        "backend",
        "crash_release",
        "guarded",
        "is_plain",
        "label",
        "lease",
        "lease_ms",
        "max_hold",
        "mode",
        "patience",
        "renews",
        "replicas",
        "script",
        "shown_mode",
        "template",
        "wait",
    )

    def __init__(
        self,
        mode: str,
        lease_ms: int,
        *,
        backend: object = None,
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
    ) -> None:
        self.backend: Any = (lambda: None) if backend is None else weakref.ref(backend)
        self.mode, self.shown_mode = mode, shown_mode
        self.lease_ms, self.lease = lease_ms, lease_ms / 1000
        self.wait, self.patience = wait, patience
        self.renews, self.max_hold = renews, max_hold
        self.replicas = replicas
        self.script = scripts.CONFIRM if replicas else script
        self.label, self.template = label, template
        self.crash_release, self.guarded = crash_release, guarded
        self.is_plain = not (replicas or crash_release)
        """Whether nothing but the question and its reply is needed."""

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

    __slots__ = ("_ask", "_end", "keys", "name", "names", "places", "read_packet", "reads", "terms")

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
        self.name = name or ", ".join(names)
        server = terms.backend
        self.places = tuple([(server, each) for each in names]) if is_found else ()
        """Where later acquires of a thread or task find a hold."""
        self.read_packet = b"".join(reads)
        few = len(keys) <= _FEW_KEYS
        self._ask = _head(scripts.ACQUIRE, keys, 7) if few else None
        self._end = _head(scripts.RELEASE, keys, 1) if few else None

    def question(self, link: Link, token: str, unit: str, wait: float | None) -> bytes:
        """Return the packet that asks for the locks first, and joins the queue for up to `wait` seconds."""
        if self._ask is None:
            request = self.request(token, unit)
            call = acquire_call(request, link.listener, milliseconds_of(wait), "1")
            return pack_call(scripts.ACQUIRE, call)
        tail = link.tails.get((self.terms, unit, wait))
        if tail is None:
            tail = self._tail(link, token, unit, wait)
        return f"{self._ask}{len(token)}\r\n{token}\r\n{tail}".encode()

    def _tail(self, link: Link, token: str, unit: str, wait: float | None) -> str:
        request = self.request(token, unit)
        _, (_, *words) = acquire_call(request, link.listener, milliseconds_of(wait), "1")
        if len(link.tails) >= _MOST_TAILS:
            link.tails.clear()
        tail = link.tails[self.terms, unit, wait] = _packed(*words)
        return tail

    def end(self, token: str) -> bytes:
        """Return the packet that ends the hold of a token, and hands the locks on."""
        if self._end is None:
            return pack_call(scripts.RELEASE, (self.keys, (token,)))
        return f"{self._end}{len(token)}\r\n{token}\r\n".encode()

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
        )


def _packed(*words: bytes | str) -> str:
    """Return words in RESP, without the header that says how many they are."""
    packed = pack(words).decode()
    return packed[packed.index("\n") + 1 :]


def _head(script: Script, keys: Keys, arguments: int) -> str:
    """Return how a call of a script begins, up to the length of its first argument."""
    words = _packed(b"EVALSHA", script.sha, b"%d" % len(keys), *keys)
    return f"*{3 + len(keys) + arguments}\r\n{words}$"
