"""Encryption of a connection, from the client's end, with a proxy in between."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from cdc.postgres.stream import PostgresStream
from cdc.stream import Layouts
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.databases.postgres.upstream import PostgresUpstream
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres

SSL_REQUEST_BYTES = 8


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    """A server's, that nobody vouches for."""
    files = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=db.internal",
            "-keyout",
            files[0],
            "-out",
            files[1],
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    return context


@asynccontextmanager
async def pooler(database: Database, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Ends TLS in front of a server that has none; its port. (PostgreSQL's manual, SSL Session Encryption)"""

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            target.write(data)
        target.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(SSL_REQUEST_BYTES)
        writer.write(b"S")
        await writer.start_tls(context)
        answers, questions = await asyncio.open_connection("127.0.0.1", database.server.port)
        await asyncio.gather(pass_on(reader, questions), pass_on(answers, writer), return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _slot(url: str, layouts: Layouts) -> PostgresStream:
    return PostgresStream(url, "upquery", layouts, 1000, silence_s=30.0)


async def encryption(url: str) -> str:
    pool = PostgresPool(url)
    upstream = PostgresUpstream(pool, PostgresLookups(pool), partial(_slot, url), "upquery")
    try:
        async with upstream.session() as session:
            return await session.encryption()
    finally:
        await upstream.close()


def test_nothing_encrypts_a_connection_to_a_server_without_tls(database: Database) -> None:
    assert run(encryption(database.url)) == ""


def test_tls_is_the_clients(database: Database, certificate: ssl.SSLContext) -> None:
    """The server, which knows of the pooler's connection only, says that nothing is encrypted (pg_stat_ssl)."""

    async def through_a_pooler() -> str:
        async with pooler(database, certificate) as port:
            return await encryption(make_conninfo(database.url, port=port))

    assert run(through_a_pooler()) == "TLS"
