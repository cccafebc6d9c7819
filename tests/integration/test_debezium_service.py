"""Faults of topics and connectors under a running service: it names the fault, gives no wrong answer, and resumes after
the repair.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.debezium import Debezium, debezium_of_mariadb, debezium_of_postgres
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until

pytestmark = pytest.mark.kafka

OWNERS = ["ann", "bob"]
VIEW = "SELECT id, n FROM items WHERE owner = :owner ORDER BY id"
SCHEMA = (
    "CREATE TABLE items (id int PRIMARY KEY, owner varchar(20) NOT NULL, n int)",
    "INSERT INTO items VALUES (1, 'ann', 1), (2, 'ann', 2), (3, 'bob', 3)",
)
LIMIT_S = 60.0


@dataclass
class Site:
    """A service over a connector, and the database that both read."""

    service: RunningService
    connector: Debezium
    broker: KafkaBroker
    database: Database | MariaDatabase
    topic: str
    #: Asks the database for a version that has all that is committed.
    version: Callable[[], str]

    def expected(self, owner: str) -> list[dict[str, Any]]:
        rows = self.database.query("SELECT id, n FROM items WHERE owner = %s ORDER BY id", owner)
        return [{"id": id_, "n": n} for id_, n in rows]

    def answers(self) -> bool:
        """Return whether all keys are answered at a version that has all that is committed. AssertionError: wrong
        answers."""
        for owner in OWNERS:
            headers = {"Upquery-Min-Version": self.version(), "Prefer": "wait=2"}
            reply = self.service.read("items", headers=headers, owner=owner)
            if reply.status_code != 200:
                assert reply.status_code in (404, 500, 503, 504), reply.text
                return False
            assert reply.json()["rows"] == self.expected(owner), reply.text
        return True

    def is_right(self) -> None:
        """Wait until it answers as the database does; nothing else may be answered in between."""
        until(self.answers, LIMIT_S)
        # Kept, not looked up again: the next change comes by the stream. (A table may join that anew just now.)
        until(lambda: self.service.hits("items", owner="ann"), LIMIT_S)
        self.database.execute("UPDATE items SET n = n + 1")
        until(self.answers, LIMIT_S)

    def says(self, *words: str) -> None:
        """The service's log has some of these words, from now on or already."""
        until(lambda: any(some in self.service.log.read_text() for some in words), LIMIT_S)


@contextmanager
def site(
    directory: Path,
    database: Database | MariaDatabase,
    connector: Debezium,
    broker: KafkaBroker,
    version: Callable[[], str],
    **kafka: Any,
) -> Iterator[Site]:
    prefix = connector.prefix
    schema = "public" if isinstance(database, Database) else database.name
    topics = {f"{prefix}.{schema}.items": 2, f"{prefix}.transaction": 1}
    if "watermark_table" in kafka:
        topics[f"{prefix}.{kafka['watermark_table']}"] = 1
    broker.create_topics(topics)
    try:
        connector.start()
        settings = {"bootstrap_servers": broker.bootstrap, "topic_prefix": prefix, "gap_timeout_s": 3, **kafka}
        sections = {"cdc": {"source": "kafka"}, "cdc.kafka": settings}
        with running_service(directory / "service", database.url, {"items": VIEW}, **sections) as service:
            found = Site(service, connector, broker, database, f"{prefix}.{schema}.items", version)
            found.is_right()
            yield found
    finally:
        connector.kill()


@pytest.fixture
def mariadb_site(
    mariadb: MariaDatabase, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> Iterator[Site]:
    mariadb.execute(*SCHEMA, "CREATE TABLE watermark (id int PRIMARY KEY, n bigint NOT NULL)")
    connector = debezium_of_mariadb(tmp_path / "debezium", kafka_broker, mariadb, topic_prefix)

    def version() -> str:
        ((file, offset, *_),) = mariadb.query("SHOW MASTER STATUS")
        return f"{file}:{offset}"

    watermark = f"{mariadb.name}.watermark"
    with site(tmp_path, mariadb, connector, kafka_broker, version, watermark_table=watermark) as found:
        yield found


@pytest.fixture
def postgres_site(database: Database, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Site]:
    database.execute(*SCHEMA, "ALTER TABLE items REPLICA IDENTITY FULL")
    connector = debezium_of_postgres(tmp_path / "debezium", kafka_broker, database, topic_prefix)

    def version() -> str:
        return str(database.query("SELECT pg_current_wal_insert_lsn()::text")[0][0])

    with site(tmp_path, database, connector, kafka_broker, version) as found:
        yield found


@pytest.mark.mariadb
def test_topics_and_images_of_mariadb(mariadb_site: Site, mariadb: MariaDatabase) -> None:
    here = mariadb_site

    # A record that is no event.
    with closing(here.broker.producer()) as producer:
        producer.send(here.topic, key=b"{}", value=b"\xff is not JSON")
        producer.flush()
    here.says("cannot be read")
    here.is_right()

    # A topic that is made anew: what was in it may not have been read.
    here.connector.stop()
    mariadb.execute("INSERT INTO items VALUES (10, 'bob', 0)")
    here.broker.delete_topics(here.topic)
    here.broker.create_topics({here.topic: 2})
    here.connector.start()
    # Whichever the consumer notices first.
    here.says("created again", "lost records", "were removed before they were read")
    here.is_right()

    # A connector that lost its place and takes a snapshot.
    here.connector.kill()
    mariadb.execute("INSERT INTO items VALUES (11, 'ann', 0)")
    here.connector.forget_offsets()
    here.connector.properties["snapshot.mode"] = "initial"
    here.connector.start()
    here.says("takes a snapshot")
    here.is_right()

    # Row images that are not whole: the connector itself stops, so that nothing newer is answered.
    with closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = MINIMAL")
        cursor.execute("UPDATE items SET n = 100 WHERE id = 1")
    until(lambda: "different column size" in here.connector.said(), LIMIT_S)
    assert not here.answers()


@pytest.mark.postgres
def test_settings_of_postgres(postgres_site: Site, database: Database) -> None:
    here = postgres_site

    # A table that gets another replica identity.
    database.execute("ALTER TABLE items REPLICA IDENTITY DEFAULT", "UPDATE items SET owner = 'bob' WHERE id = 1")
    here.says("another replica identity")
    here.is_right()
    database.execute("ALTER TABLE items REPLICA IDENTITY FULL")
    here.is_right()

    # A connector that says nothing of transactions.
    here.connector.stop()
    here.connector.properties["provide.transaction.metadata"] = "false"
    here.connector.start()
    database.execute("UPDATE items SET n = n + 1")
    here.says("provide.transaction.metadata")
    assert not here.answers()
    here.connector.stop()
    here.connector.properties["provide.transaction.metadata"] = "true"
    here.connector.start()
    here.is_right()


LARGE = "(SELECT string_agg(md5(i::text || '{0}'), '') FROM generate_series(1, 300) i)"
IN_PART = (
    "CREATE TABLE pages (id int PRIMARY KEY, owner text NOT NULL, n int NOT NULL, body text)",
    "CREATE TABLE notes (id int PRIMARY KEY, slug text NOT NULL, owner text NOT NULL, n int NOT NULL DEFAULT 5,"
    " body text NOT NULL)",
    "CREATE UNIQUE INDEX notes_slug ON notes (slug)",
    "ALTER TABLE notes REPLICA IDENTITY USING INDEX notes_slug",
    f"INSERT INTO pages SELECT i, 'ann', i, {LARGE.format('p')} FROM generate_series(1, 6) i",
    f"INSERT INTO notes SELECT i, 'note' || i, 'ann', i, {LARGE.format('n')} FROM generate_series(1, 6) i",
)
PART_VIEWS = {
    f"{table}_{name}": sql.format(table)
    for table in ("pages", "notes")
    for name, sql in {
        "by_id": "SELECT id, owner, n, body FROM {} WHERE id = :key::int",
        "by_owner": "SELECT id, n, md5(body) AS body FROM {} WHERE owner = :key ORDER BY id",
        "sums": "SELECT owner, COUNT(*) AS c, SUM(n) AS n FROM {} WHERE owner = :key GROUP BY owner",
    }.items()
}
PART_CHANGES = (
    *(
        statement.format(table=table, large=LARGE)
        for table in ("pages", "notes")
        for statement in (
            "UPDATE {table} SET n = n + 10 WHERE id <= 3",
            "UPDATE {table} SET owner = 'bob' WHERE id = 2",
            "UPDATE {table} SET id = 20, n = 7 WHERE id = 1",
            "UPDATE {table} SET body = 'short' WHERE id = 3",
            "DELETE FROM {table} WHERE id = 4",
            "UPDATE {table} SET id = 4, owner = 'bob' WHERE id = 5",
            "BEGIN; UPDATE {table} SET owner = 'bob' WHERE id = 6; DELETE FROM {table} WHERE id = 6;"
            " INSERT INTO {table} SELECT * FROM {table} WHERE false; UPDATE {table} SET n = 0 WHERE id = 20; COMMIT",
        )
    ),
    "UPDATE notes SET slug = 'first', owner = 'bob' WHERE id = 3",
    "UPDATE notes SET slug = 'second', id = 30 WHERE id = 2",
    "DELETE FROM notes WHERE slug = 'first'",
    "TRUNCATE pages",
    "INSERT INTO pages VALUES (1, 'ann', 1, NULL)",
    # The next change has another identity than the catalog had when it was read.
    "ALTER TABLE notes REPLICA IDENTITY DEFAULT; UPDATE notes SET slug = 'third' WHERE id = 20",
    "UPDATE notes SET id = 1 WHERE id = 20",
    "ALTER TABLE notes REPLICA IDENTITY USING INDEX notes_slug; UPDATE notes SET id = 2, owner = 'bob' WHERE id = 1",
    "ALTER TABLE notes REPLICA IDENTITY FULL; UPDATE notes SET id = 3 WHERE id = 2",
    "ALTER TABLE notes REPLICA IDENTITY USING INDEX notes_slug; UPDATE notes SET slug = 'fifth', id = 20 WHERE id = 3",
    "ALTER TABLE notes REPLICA IDENTITY DEFAULT; UPDATE notes SET slug = 'sixth' WHERE id = 20;"
    " ALTER TABLE notes REPLICA IDENTITY USING INDEX notes_slug; DELETE FROM notes WHERE slug = 'sixth'",
)


@pytest.mark.postgres
def test_identities_of_some_columns(
    database: Database, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """Updates, deletes, changed keys and large values that are not sent: every answer is the database's."""
    database.execute(*IN_PART)
    tables = ("pages", "notes")
    kafka_broker.create_topics({f"{topic_prefix}.public.{t}": 2 for t in tables} | {f"{topic_prefix}.transaction": 1})
    connector = debezium_of_postgres(tmp_path / "debezium", kafka_broker, database, topic_prefix)
    settings = {"bootstrap_servers": kafka_broker.bootstrap, "topic_prefix": topic_prefix, "gap_timeout_s": 3}
    sections = {"cdc": {"source": "kafka"}, "cdc.kafka": settings}
    keys = {name: ("1", "2", "3", "4", "20", "30") if "by_id" in name else ("ann", "bob") for name in PART_VIEWS}
    try:
        connector.start()
        with running_service(tmp_path / "service", database.url, PART_VIEWS, **sections) as service:

            def is_right() -> bool:
                version = str(database.query("SELECT pg_current_wal_insert_lsn()::text")[0][0])
                headers = {"Upquery-Min-Version": version, "Prefer": "wait=5"}
                for name, sql in PART_VIEWS.items():
                    for key in keys[name]:
                        reply = service.read(name, headers=headers, key=key)
                        if reply.status_code != 200:
                            assert reply.status_code in (404, 500, 503, 504), reply.text
                            return False
                        wanted = database.query(sql.replace(":key", "%s"), key)
                        assert [tuple(row.values()) for row in reply.json()["rows"]] == wanted, (name, key)
                return True

            until(is_right, LIMIT_S)
            until(lambda: all(service.hits(name, key=keys[name][0]) for name in PART_VIEWS), LIMIT_S)
            for statement in PART_CHANGES:
                database.execute(*statement.split("; "))
                until(is_right, LIMIT_S)
    finally:
        connector.kill()
