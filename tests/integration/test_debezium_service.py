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
    database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )


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

    # A table whose old rows are not told.
    database.execute("ALTER TABLE items REPLICA IDENTITY DEFAULT", "UPDATE items SET owner = 'bob' WHERE id = 1")
    here.says("REPLICA IDENTITY FULL")
    assert here.answers() in (True, False)
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
