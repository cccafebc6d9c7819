"""The news site's database, with tables that no fault is about: what is done to its server.

Not here: what is done to the service (`faults`).
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import MappingProxyType
from typing import Any

import psycopg

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.mariadb import MariaDatabase, MariaDbServer, start_mariadb, start_replica
from tests.fixtures.postgres import Database, discard_server, start_server, start_standby
from tests.integration.news_mariadb import MariaNews
from tests.integration.news_postgres import PostgresNews
from tests.integration.news_workload import News

#: Rows of the tables that probes read.
ROWS = {"kept": 50, "apart": 100_000}


@contextmanager
def suspended(*pids: int) -> Iterator[None]:
    """These processes do not run, and are not gone. They may be ended meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class PostgresSide:
    """Faults of a PostgreSQL server."""

    #: What the connection of the change stream says at first.
    stream_says = b"replication\0database"
    #: Of the service's configuration.
    sections: Mapping[str, dict[str, Any]] = MappingProxyType({})
    #: Whether a restart of one engine is warm; of several.
    warm, several_warm = True, True

    def __init__(self) -> None:
        self.server: EmbeddedPostgres = start_server()
        self._other_servers: set[EmbeddedPostgres] = set()
        self.database = Database("postgres", self.server.url, self.server)
        self.news: News = PostgresNews(self.database)
        self.news.create()
        for name, rows in ROWS.items():
            self.database.execute(
                f"CREATE TABLE {name} (id int PRIMARY KEY, n int)",
                f"ALTER TABLE {name} REPLICA IDENTITY FULL",
                f"INSERT INTO {name} SELECT i, i FROM generate_series(1, {rows}) i",
            )

    def crash(self) -> None:
        """Stop it like a power failure."""
        self.server.stop("immediate")

    def start(self) -> None:
        """After a crash."""
        self.server.start()

    def restart(self) -> None:
        """Stop it in order, and start it again."""
        self.server.stop("fast")
        self.server.start()

    def restarts(self) -> list[Callable[[], None]]:
        """Restart each server that the service needs."""
        return [self.restart]

    def fail_over(self) -> None:
        """Stop it like a power failure, and have a standby take its place."""
        standby = start_standby(self.server)
        self._other_servers |= {self.server, standby}
        # Not before: the standby would have the setting, too.
        self.database.execute("ALTER SYSTEM SET synchronized_standby_slots = 'standby'", "SELECT pg_reload_conf()")
        standby.wait_for_slots()
        self.crash()
        standby.take_over()
        self.server = standby

    def end_connections(self) -> None:
        """Those of the service."""
        self.database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'upquery'"
        )

    def end_stream(self) -> None:
        """The change stream's connection."""
        self.database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")

    def kill_stream(self) -> None:
        """The process that sends the change stream: the server ends all others, too, and recovers."""
        for (pid,) in self.database.query("SELECT pid FROM pg_stat_replication"):
            os.kill(pid, signal.SIGKILL)

    def stream_stopped(self) -> AbstractContextManager[None]:
        """The process that sends the change stream does not run."""
        pids = [int(pid) for (pid,) in self.database.query("SELECT pid FROM pg_stat_replication")]
        assert pids
        return suspended(*pids)

    @contextmanager
    def _in_transaction(self, statement: bytes) -> Iterator[None]:
        with psycopg.connect(self.database.url) as connection:
            connection.execute(statement)
            yield
            connection.rollback()

    def locked(self) -> AbstractContextManager[None]:
        """The votes: nobody reads or writes them."""
        return self._in_transaction(b"LOCK TABLE votes")

    def transaction(self) -> AbstractContextManager[None]:
        """One that has written and is left open."""
        return self._in_transaction(b"CREATE TABLE forgotten (id int)")

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """New connections may write nothing; the service has new ones."""
        self.database.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        self.end_connections()
        try:
            yield
        finally:
            self.database.execute("SET default_transaction_read_only = off", "ALTER DATABASE postgres RESET ALL")

    def discard(self) -> None:
        """Stop it and remove it."""
        for server in {self.server} | self._other_servers:
            discard_server(server)


class MariaSide:
    """Faults of a MariaDB server."""

    stream_says = b"heartbeat_period"
    sections: Mapping[str, dict[str, Any]] = MappingProxyType({})
    warm, several_warm = True, True

    def __init__(self) -> None:
        self.server: MariaDbServer = start_mariadb()
        self._other_servers: list[MariaDbServer] = []
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE news")
        self.database = MariaDatabase("news", self.server.url("news"), self.server)
        self.news: News = MariaNews(self.database)
        self.news.create()
        for name, rows in ROWS.items():
            self.database.execute(
                f"CREATE TABLE {name} (id int PRIMARY KEY, n int)",
                f"INSERT INTO {name} SELECT seq, seq FROM seq_1_to_{rows}",
            )

    def crash(self) -> None:
        """Stop it like a power failure."""
        self.server.kill()

    def start(self) -> None:
        """After a crash."""
        self.server.start()

    def restart(self) -> None:
        """Stop it in order, and start it again: its log goes on in another file."""
        self.server.stop()
        self.server.start()

    def restarts(self) -> list[Callable[[], None]]:
        """Restart each server that the service needs."""
        return [self.restart]

    def begin_log(self) -> None:
        """Restart it without the log of before."""
        self.server.stop()
        self.server.remove_log()
        self.server.start()

    def fail_over(self) -> None:
        """Kill it, and have a replica, which has read all of its log, take its place."""
        replica = start_replica(self.server)
        self._other_servers.append(self.server)
        self.server.kill()
        replica.take_over(self.server)
        self.server = replica

    def end_connections(self) -> None:
        """Those of the service, and of the writers."""
        self._end("db = 'news' AND command <> 'Binlog Dump' AND id <> connection_id()")

    def end_stream(self) -> None:
        """The change stream's connection."""
        self._end("command = 'Binlog Dump'")

    def _end(self, which: str) -> None:
        for (process,) in self.database.query(f"SELECT id FROM information_schema.processlist WHERE {which}"):
            self.database.execute(f"KILL {process}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The votes: nobody reads or writes them."""
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("LOCK TABLES votes WRITE")
            yield
            cursor.execute("UNLOCK TABLES")

    def discard(self) -> None:
        """Stop it and remove it."""
        for server in (self.server, *self._other_servers):
            server.discard()


Side = PostgresSide | MariaSide
