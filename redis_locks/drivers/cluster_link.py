"""A link to a cluster: it sends each call to the node that has the call's keys.

`ClusterDriver` makes one for each user; it takes links to nodes from the drivers of `nodes`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from redis_locks.drivers.addresses import Address
from redis_locks.drivers.base import Call, Link, LinkBroken, Unreachable
from redis_locks.drivers.nodes import Nodes
from redis_locks.drivers.refusals import NotNow, Redirected
from redis_locks.drivers.resp import ErrorReply, pack
from redis_locks.drivers.server_link import CallingLink, pack_call
from redis_locks.drivers.slots import slot_of
from redis_locks.exceptions import LockBackendError
from redis_locks.scripts import Script, on_cluster
from redis_locks.values.keys import partition_channel

T = TypeVar("T")

PATIENCE: Final = 1.0
"""Seconds to wait for a slot to finish moving. After that the core tries again some times."""

_PAUSE = 0.05
_ASKING = pack((b"ASKING",))

_NOWHERE = "-"
"""The channel and the listener's name in a claim of a holder that does not listen."""


class NodeLink(Link, Protocol):
    """A connection to one node."""

    broken: bool
    listener: str
    channels: set[str]
    """The channels of partitions on which it listens."""

    def listen(self, token: str) -> None:
        """Keep messages for `token` until the link is given back."""


class ClusterLink(CallingLink):
    """Links to as many nodes as the calls need; used by one thread or task at a time."""

    __slots__ = ("_links", "_nodes", "_subscribed_at", "_token", "channel", "in_bulk", "listener")

    needs_subscription = True

    def __init__(self, nodes: Nodes, token: str) -> None:
        """Make a link that keeps messages for `token`, if it is not empty."""
        self.channel = self.listener = _NOWHERE
        self._nodes = nodes
        self._links: dict[Address, NodeLink] = {}
        self._token = token
        self._subscribed_at: Address | None = None
        self.in_bulk = False
        """Whether it asks over the bulk links of the nodes'."""

    def give_back(self) -> None:
        """Give the links back to the drivers of their nodes."""
        links, self._links = self._links, {}
        for address, link in links.items():
            self._nodes.driver(address).checkin(link, self._token)

    async def bulk(self) -> ClusterLink:
        """Return a link that asks over the bulk links of the nodes'; see `Link`."""
        bulk = copy(self)
        bulk.in_bulk = True
        return bulk

    async def _link(self, address: Address) -> NodeLink:
        link = self._links.get(address)
        if link is not None:
            return link
        try:
            opened: Any = await self._nodes.driver(address).checkout()
            if self._token:
                opened.listen(self._token)
        except Unreachable as error:
            self._nodes.failed(address)
            await self._nodes.refresh()
            # Others answer: in a while one of them will have its slots.
            raise LinkBroken(str(error)) from error
        except LinkBroken:
            self._nodes.failed(address)
            raise
        self._nodes.slots.answered(address)
        self._links[address] = opened
        return self._links[address]

    async def _at(self, address: Address, work: Callable[[NodeLink], Coroutine[Any, Any, T]]) -> T:
        """Do something on a link to a node, and note if the node failed or a slot has moved."""
        link = await self._link(address)
        try:
            bulk: Any = await link.bulk() if self.in_bulk else link
            return await work(bulk)
        except Redirected as error:
            self._note_moved([error], address)
            raise
        except LinkBroken as error:
            if self.in_bulk and not isinstance(error, NotNow):
                link.disconnect()  # it is to be as broken as its bulk link
            if link.broken:
                self._links.pop(address, None)
                self._nodes.failed(address)
            raise

    def _note_moved(self, replies: Sequence[Any], source: Address) -> None:
        for reply in replies:
            if isinstance(reply, Redirected) and reply.for_good:
                self._nodes.slots.moved(reply.slot, reply.host, reply.port, source)

    async def subscribe(self, keys: Sequence[bytes]) -> None:
        """Listen on the node that has the partition of `keys`; see `Link`."""
        address = await self._nodes.owner(slot_of(keys[0]))
        try:
            self.channel = await self._at(address, lambda link: self._subscribed(link, keys[0]))
        except Redirected as error:
            raise LinkBroken(str(error)) from error
        self._subscribed_at = address

    async def _subscribed(self, link: NodeLink, index: bytes) -> str:
        """Return the channel of a partition on which the link listens now."""
        channel = partition_channel(index, link.listener)
        if channel not in link.channels:
            subscribe = pack((b"SSUBSCRIBE", channel.encode()))
            (reply,) = await link.read((subscribe,), (index,))
            if isinstance(reply, ErrorReply):
                raise self._nodes.refusal(reply)
            link.channels.add(channel)
        self.listener = link.listener
        return channel

    async def call(self, script: Script, call: Call, reads: Sequence[bytes] = ()) -> list[Any]:
        """Run a script and commands after it on the node that has its keys; see `Link`."""
        # A waiter's channel is on the node that it has asked, and how long it waits is not ours to
        # say.
        patience = 0.0 if self._subscribed_at is not None else PATIENCE
        return await self._routed(on_cluster(script), call, reads, patience)

    def packed(self, script: Script, call: Call) -> bytes:
        """Return what runs a script; see `Link`."""
        return super().packed(on_cluster(script), call)

    async def _owner(self, keys: Sequence[bytes]) -> Address:
        """Return the node that has `keys`. Raises LinkBroken if a waiter listens on another one.

        Another thread may have learned of a new owner since the waiter subscribed. Scripts there
        count no listener, and pass the waiter over; but the old owner may still bring it what they
        told.
        """
        address = await self._nodes.owner(slot_of(keys[0]))
        if self._subscribed_at is not None and self._subscribed_at != address:
            msg = f"{address} has the lock now, and the waiter listens on {self._subscribed_at}"
            raise LinkBroken(msg)
        return address

    async def _routed(
        self, script: Script, call: Call, reads: Sequence[bytes], patience: float
    ) -> list[Any]:
        """Run a script; for `patience` seconds, again where or when the cluster says."""
        until = monotonic() + patience
        pause = 0.0
        while True:
            address = await self._owner(call[0])
            try:
                return await self._at(address, lambda link: self._called(link, script, call, reads))
            except Redirected as error:
                if script.is_extension and not error.for_good:
                    return [await self._asking(script, call, error, address)]
                failure: Exception = error
                if not error.for_good:
                    pause = _PAUSE
            except NotNow as error:
                failure, pause = error, _PAUSE
            if monotonic() + pause >= until:
                raise LinkBroken(str(failure)) from failure
            jitter = random.uniform(0.5, 1)  # noqa: S311
            await self._nodes.any_driver().sleep(jitter * pause)
            pause = _PAUSE  # nodes may disagree

    async def _called(
        self, link: NodeLink, script: Script, call: Call, reads: Sequence[bytes]
    ) -> list[Any]:
        reply, *read = await link.call(script, call, reads)
        return [reply, *self._here(read)]

    def _here(self, replies: list[Any]) -> list[Any]:
        """Return the replies to reads.

        Raises Redirected or NotNow if the slot of a key has moved or is moving.
        """
        for reply in replies:
            if isinstance(reply, ErrorReply):
                refusal = self._nodes.refusal(reply)
                if isinstance(refusal, Redirected | NotNow):
                    raise refusal
        return replies

    async def _asking(self, script: Script, call: Call, error: Redirected, source: Address) -> Any:
        """Extend a lease whose keys have moved before the rest of their slot.

        Nothing else is done there until it has the slot. A key made there would stand in the way of
        the same key still to come.
        """
        target = self._nodes.slots.address(error.host, error.port, source)
        commands = (_ASKING, pack_call(script, call, whole=True))
        _, reply = await self._at(target, lambda link: link.read(commands, call[0]))
        if isinstance(reply, ErrorReply):
            raise LinkBroken(reply.text)
        return reply

    async def read(self, reads: Sequence[bytes], keys: Sequence[bytes]) -> list[Any]:
        """Run commands on the node that has `keys`; see `Link`."""
        address = await self._owner(keys)

        async def read(link: NodeLink) -> list[Any]:
            return self._here(await link.read(reads, keys))

        try:
            return await self._at(address, read)
        except Redirected as error:
            raise LinkBroken(str(error)) from error

    async def call_many(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Run a script many times, in one round trip for each node; see `Link`."""
        clustered = on_cluster(script)
        replies: list[Any] = [None] * len(calls)
        for address, indexes in await self._by_owner(calls, replies):
            found = await self._many_at(address, clustered, [calls[index] for index in indexes])
            for index, reply in zip(indexes, found, strict=True):
                replies[index] = reply
        for index, reply in enumerate(replies):
            if isinstance(reply, Redirected | NotNow):
                replies[index] = await self._again(clustered, calls[index])
        return replies

    async def _many_at(self, address: Address, script: Script, calls: Sequence[Call]) -> list[Any]:
        for retry in (True, False):
            try:
                replies = await self._at(address, lambda link: link.call_many(script, calls))
            except (LinkBroken, LockBackendError) as error:
                # The link may have died long ago, while nobody used it.
                if not retry or isinstance(error, LockBackendError):
                    return [error] * len(calls)
            else:
                break
        self._note_moved(replies, address)
        return replies

    async def _by_owner(
        self, calls: Sequence[Call], replies: list[Any]
    ) -> list[tuple[Address, list[int]]]:
        """Return the indexes of each node's calls, those of doubtful nodes last.

        The reply to a call that has no node is its exception.
        """
        found: dict[Address, list[int]] = {}
        for index, (keys, _) in enumerate(calls):
            try:
                address = await self._nodes.owner(slot_of(keys[0]))
            except LinkBroken as error:
                replies[index] = error
            else:
                found.setdefault(address, []).append(index)
        return sorted(found.items(), key=lambda item: self._nodes.slots.is_doubtful(item[0]))

    async def _again(self, script: Script, call: Call) -> Any:
        """Run one call of many by itself, as it was refused where or when it was sent."""
        # Other leases must not wait for one that cannot be extended now.
        patience = 0.0 if script.is_extension else PATIENCE
        try:
            (reply,) = await self._routed(script, call, (), patience)
        except (LinkBroken, LockBackendError) as error:
            return error
        return reply

    def disconnect(self) -> None:
        """Listen no more; see `Link`."""
        for link in self._links.values():
            link.disconnect()

    async def receive(self, token: str, timeout: float) -> bytes | None:
        """Wait for a message on the node that it subscribed to; see `Link`.

        Returns at once when that node does not have the partition any more.
        """
        if self._subscribed_at is None or self._subscribed_at not in self._links:
            raise LinkBroken("the connection was closed")
        if self.channel not in self._links[self._subscribed_at].channels:
            return None
        return await self._at(self._subscribed_at, lambda link: link.receive(token, timeout))
