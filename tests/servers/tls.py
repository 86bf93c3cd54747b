"""A server behind TLS on loopback, with certificates of our own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import redis
import trustme

from redis_locks.testing.server import EmbeddedServer
from tests.support.world import Tasks

HOST = "127.0.0.1"


class Certificates:
    """An authority, a certificate for HOST, and one for a client, as files."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.authority = str(folder / "ca.pem")
        self.server = str(folder / "server.pem")
        self.client = str(folder / "client.pem")
        authority.cert_pem.write_to_path(self.authority)
        authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(self.server)
        client = authority.issue_cert("client@example.org")
        client.private_key_and_cert_chain_pem.write_to_path(self.client)

    def options(self) -> dict[str, str]:
        """What redis-py needs to know, by its names."""
        return {
            "ssl_ca_certs": self.authority,
            "ssl_certfile": self.client,
            "ssl_keyfile": self.client,
        }


class TlsServer:
    """Where a client finds the server, and what it needs to get in."""

    def __init__(self, server: EmbeddedServer, port: int, certificates: Certificates) -> None:
        self.server = server
        self.port = port
        self.certificates = certificates

    def url(self, *, host: str = HOST, **options: str) -> str:
        """The address; `options` replace those that are right."""
        return f"{self.bare_url(host=host)}?{urlencode(self.certificates.options() | options)}"

    def bare_url(self, *, host: str = HOST, scheme: str = "rediss") -> str:
        return f"{scheme}://{host}:{self.port}/0"


@contextlib.contextmanager
def with_own_tls(certificates: Certificates) -> Iterator[TlsServer | None]:
    """A server's own TLS; None if it was built without."""
    with EmbeddedServer(use_environment=False) as server, server.client() as admin:
        port = _free_port()
        try:
            admin.config_set(
                "tls-cert-file", certificates.server, "tls-key-file", certificates.server,
                "tls-ca-cert-file", certificates.authority, "tls-port", port,
            )  # fmt: skip
        except (redis.ResponseError, redis.ConnectionError):  # refused, or it ended at once
            yield None
        else:
            yield TlsServer(server, port, certificates)


@contextlib.contextmanager
def with_terminator(certificates: Certificates) -> Iterator[TlsServer]:
    """TLS by a process in front of the server, as hosted ones have it; here a thread of ours."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.authority)
    context.load_cert_chain(certificates.server)
    context.verify_mode = ssl.CERT_REQUIRED
    tasks = Tasks()
    ends: set[asyncio.StreamWriter] = set()

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()

    async def serve(near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far, far_writer = await asyncio.open_unix_connection(path)
        pair = (writer, far_writer)
        ends.update(pair)
        passing = [
            asyncio.create_task(pass_on(source, target))
            for source, target in ((near, far_writer), (far, writer))
        ]
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        await close(*pair)
        await asyncio.gather(*passing)

    async def close(*writers: asyncio.StreamWriter) -> None:
        for each in writers:
            each.transport.abort()
            with contextlib.suppress(OSError):
                await each.wait_closed()
        ends.difference_update(writers)

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, HOST, 0, ssl=context)

    async def end() -> None:  # in the loop's thread, which may be counting its connections just now
        listener.close()
        await close(*ends)

    with EmbeddedServer(use_environment=False) as server:
        path = server.url.removeprefix("unix://")
        listener = tasks.run(listen())
        yield TlsServer(server, listener.sockets[0].getsockname()[1], certificates)
        tasks.run(end())
        tasks.close()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
