"""Every connection to a database or broker notices a peer that is gone."""

import socket
from typing import Any

import psycopg
import pytest

from cdc.debezium.broker import client_settings
from cdc.debezium.options import DebeziumOptions
from cdc.keepalive import COUNT, IDLE_S, INTERVAL_S, UNACKNOWLEDGED_MS
from cdc.mysql.connection import open_connection
from cdc.postgres.session import keepalive_parameters
from service.engine.databases.mysql.address import Address
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database

WANTED = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, COUNT),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS),
]


def set_on(connected: socket.socket) -> list[tuple[int, int, int]]:
    return [(level, option, connected.getsockopt(level, option)) for level, option, _ in WANTED]


@pytest.mark.postgres
def test_of_postgres(database: Database) -> None:
    parameters: dict[str, Any] = keepalive_parameters(database.url)
    with (
        psycopg.connect(database.url, **parameters) as connection,
        socket.socket(fileno=socket.dup(connection.fileno())) as same,
    ):
        assert set_on(same) == WANTED


@pytest.mark.mariadb
def test_of_mariadb(mariadb: MariaDatabase) -> None:
    connection = open_connection(**Address.parse(mariadb.url).options())
    assert set_on(connection._sock) == WANTED  # type: ignore[attr-defined]
    connection.close()


def test_of_a_broker() -> None:
    settings = client_settings(DebeziumOptions(bootstrap_servers="localhost:1", topic_prefix="t"))
    assert set(WANTED) < set(settings["socket_options"])
