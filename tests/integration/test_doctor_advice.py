"""``upquery doctor`` over tables with identities of every kind: its advice, and the effect of following it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.command.diagnosis import Examination, examine
from service.engine.upstream.identities import FULL
from service.settings.stack import load_settings
from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until, upquery
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres

ROWS = 40
#: Keys that the rows have; all of them are read.
KEYS = range(10)


@dataclass(frozen=True)
class Site:
    """One table with its view, and the statements that the doctor recommends."""

    columns: str
    rows: str
    view: str
    tier: str = "incremental"
    #: Statements after the table's creation.
    then: tuple[str, ...] = ()
    #: Remedy without which the table is not followed.
    repair: str | None = None
    #: Remedy that spares the view memory or evictions.
    advice: tuple[str, ...] = ()


def indexed(table: str, name: str, columns: str) -> tuple[str, ...]:
    return (
        f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON {table} ({columns});",
        f"ALTER TABLE {table} REPLICA IDENTITY USING INDEX {name};",
    )


def identity(table: str, clause: str) -> str:
    return f"ALTER TABLE {table} REPLICA IDENTITY {clause};"


BODY = "id int PRIMARY KEY, author int NOT NULL, body text"
BODY_ROWS = "i, i % 10, 'body ' || i"
#: A function that no plan computes.
REFRESHED = "SELECT id, body, generate_series(1, 2) AS g FROM {} WHERE author = :key"

SITES = {
    "accounts": Site(
        "id int PRIMARY KEY, name text NOT NULL", "i, 'name ' || i", "SELECT name FROM accounts WHERE id = :key"
    ),
    "posts": Site(
        BODY,
        BODY_ROWS,
        "SELECT id, body FROM posts WHERE author = :key",
        advice=indexed("public.posts", "posts_author_id_identity", "author, id"),
    ),
    "comments": Site(
        "id int PRIMARY KEY, post int NOT NULL",
        "i, i % 10",
        "SELECT post, count(*) AS n FROM comments WHERE post = :key GROUP BY post",
        advice=indexed("public.comments", "comments_post_id_identity", "post, id"),
    ),
    "votes": Site(
        "voter int, post int, PRIMARY KEY (voter, post)",
        "i, i % 10",
        "SELECT count(*) AS n FROM votes WHERE post = :key GROUP BY post",
    ),
    "notes": Site(
        "id int PRIMARY KEY, author int, body text",
        BODY_ROWS,
        "SELECT id, body FROM notes WHERE author = :key",
        advice=(identity("public.notes", "FULL"),),
    ),
    '"Odd, ""T"""': Site(
        '"Id" int PRIMARY KEY, "Author, name" int NOT NULL',
        "i, i % 10",
        'SELECT "Id" FROM "Odd, ""T""" WHERE "Author, name" = :key',
        advice=indexed('public."Odd, ""T"""', '"Odd, ""T""_Author, name_Id_identity"', '"Author, name", "Id"'),
    ),
    "lines": Site(
        "author int, body text",
        "i % 10, 'body'",
        "SELECT body FROM lines WHERE author = :key",
        repair=identity("public.lines", "FULL"),
    ),
    "visits": Site(
        "code int NOT NULL UNIQUE, author int",
        "i, i % 10",
        "SELECT author FROM visits WHERE code = :key",
        repair=identity("public.visits", "USING INDEX visits_code_key"),
    ),
    "clicks": Site(
        BODY,
        BODY_ROWS,
        "SELECT id FROM clicks WHERE author = :key",
        then=("ALTER TABLE clicks REPLICA IDENTITY NOTHING",),
        repair=identity("public.clicks", "DEFAULT"),
        advice=indexed("public.clicks", "clicks_author_id_identity", "author, id"),
    ),
    "imports": Site(
        "author int, body text",
        "i % 10, 'body'",
        "SELECT body FROM imports WHERE author = :key",
        then=("ALTER TABLE imports REPLICA IDENTITY NOTHING",),
        repair=identity("public.imports", "FULL"),
    ),
    "bookings": Site(
        "id int PRIMARY KEY DEFERRABLE, guest int NOT NULL",
        "i, i % 10",
        "SELECT id FROM bookings WHERE guest = :key",
        repair=identity("public.bookings", "FULL"),
    ),
    "tags": Site(
        "id int PRIMARY KEY, kind int NOT NULL, CONSTRAINT tags_key UNIQUE (id, kind)",
        "i, i % 10",
        "SELECT id FROM tags WHERE kind = :key",
        then=("ALTER TABLE tags REPLICA IDENTITY USING INDEX tags_key",),
    ),
    "labels": Site(
        "id int PRIMARY KEY, name text NOT NULL, kind int NOT NULL, CONSTRAINT labels_key UNIQUE (id, name)",
        "i, 'name ' || i, i % 10",
        "SELECT id FROM labels WHERE kind = :key",
        then=("ALTER TABLE labels REPLICA IDENTITY USING INDEX labels_key",),
        advice=indexed("public.labels", "labels_kind_id_name_identity", "kind, id, name"),
    ),
    "stages": Site(
        f"{BODY}, CONSTRAINT stages_key UNIQUE (author, id)",
        BODY_ROWS,
        "SELECT id FROM stages WHERE id = :key",
        then=(
            "ALTER TABLE stages REPLICA IDENTITY USING INDEX stages_key",
            "ALTER TABLE stages DROP CONSTRAINT stages_key",
        ),
        repair=identity("public.stages", "DEFAULT"),
    ),
    "ledger": Site(
        "account int, amount int",
        "i % 10, i",
        "SELECT sum(amount) AS sum FROM ledger WHERE account = :key GROUP BY account",
        then=("ALTER TABLE ledger REPLICA IDENTITY FULL",),
    ),
    "memos": Site(
        BODY,
        BODY_ROWS,
        "SELECT id, body FROM memos WHERE author = :key",
        then=("CREATE UNIQUE INDEX my_memos ON memos (id, author)",),
        advice=(identity("public.memos", "USING INDEX my_memos"),),
    ),
    "orders": Site(
        "id int PRIMARY KEY, kind int",
        "i, i % 10",
        "SELECT count(*) AS n FROM orders",
        advice=(identity("public.orders", "FULL"),),
    ),
    "reports": Site(
        BODY,
        BODY_ROWS,
        REFRESHED.format("reports"),
        "refresh",
        advice=indexed("public.reports", "reports_author_id_identity", "author, id"),
    ),
    "drafts": Site(
        "id int PRIMARY KEY, author int, body text",
        BODY_ROWS,
        REFRESHED.format("drafts"),
        "refresh",
        advice=(identity("public.drafts", "FULL"),),
    ),
    "pages": Site(
        BODY, BODY_ROWS, REFRESHED.format("pages"), "refresh", then=("ALTER TABLE pages REPLICA IDENTITY FULL",)
    ),
    "measures": Site(
        "id int PRIMARY KEY, day int) PARTITION BY RANGE (id",
        "i, i % 10",
        "SELECT id FROM measures WHERE day = :key",
        advice=(FULL.statement("public.measures", partitioned=True),),
        then=("CREATE TABLE measures_1 PARTITION OF measures FOR VALUES FROM (0) TO (100)",),
    ),
    "logs": Site("id int PRIMARY KEY", "i", "SELECT id FROM logs WHERE id = :key", "ttl"),
}
VIEWS = {f"of_{''.join(filter(str.isalpha, table)).lower()}": site.view for table, site in SITES.items()}
TIERS = dict(zip(VIEWS, (site.tier for site in SITES.values()), strict=True))
#: Tables whose updates are counted.
COUNTED = ("posts", "memos", "notes", "reports", "drafts", "pages")


@pytest.fixture
def site(database: Database) -> Database:
    for table, site in SITES.items():
        unlogged = "UNLOGGED" if table == "logs" else ""
        database.execute(f"CREATE {unlogged} TABLE {table} ({site.columns})", *site.then)
        database.execute(f"INSERT INTO {table} SELECT {site.rows} FROM generate_series(1, {ROWS}) i")
    database.execute("ANALYZE")
    return database


@contextmanager
def service_over(database: Database, directory: Path) -> Iterator[RunningService]:
    with running_service(directory, database.url, VIEWS) as service:
        assert {name: service.view(name)["tier"] for name in VIEWS} == TIERS
        yield service


def evictions(service: RunningService, database: Database) -> dict[str, int]:
    """Return the number of cached keys that one update of each counted table evicts, of ten."""
    views = [f"of_{table}" for table in COUNTED]
    for view, key in product(views, KEYS):
        until(partial(service.hits, view, key=key))
    until(lambda: all(service.hits(view, key=key) for view, key in product(views, KEYS)))
    before = [metric(service, "upquery_view_evicted_keys_total", view) for view in views]
    for table in COUNTED:
        database.execute(f"UPDATE {table} SET body = body || '!' WHERE id = 1")
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": position, "Prefer": "wait=20"}
    assert service.read("of_accounts", headers, key=1).status_code == 200
    after = [metric(service, "upquery_view_evicted_keys_total", view) for view in views]
    return {table: new - old for table, old, new in zip(COUNTED, before, after, strict=True)}


def metric(service: RunningService, name: str, view: str) -> int:
    """Return the sum of a view's samples, whatever their other labels."""
    families = text_string_to_metric_families(service.call("GET", "/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    return sum(int(each.value) for each in samples if each.name == name and each.labels.get("view") == view)


def findings(config: Path) -> Examination:
    return run(examine(load_settings(config)))


def advice(found: Examination, *, fatal: bool) -> dict[str, tuple[str, ...]]:
    """Return the statements that findings about identities recommend, by table."""
    return {
        each.table or "": tuple((each.fix or "").splitlines())
        for each in found.findings
        if each.code == "replica_identity" and each.fatal is fatal
    }


def test_the_advice_is_the_least_that_serves_the_views(site: Database, tmp_path: Path) -> None:
    """Following it does what it says: first for tables that are not followed, then for those that cost something."""
    config = RunningService(tmp_path / "configuration", site.url, VIEWS).config
    wanted = {f"public.{table}": each.advice for table, each in SITES.items() if each.advice}
    found = findings(config)
    assert advice(found, fatal=True) == {f"public.{t}": (each.repair,) for t, each in SITES.items() if each.repair}
    assert advice(found, fatal=False) == wanted
    assert {each.table: each.reason.rpartition(": ")[2] for each in found.findings if each.code == "not_streamed"} == {
        "public.logs": "of_logs.",
    }
    assert [each.code for each in found.findings if each.fatal] == ["replica_identity"] * 6

    fixed = upquery("doctor", "--fix", "--config", str(config))
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    found = findings(config)
    assert (advice(found, fatal=True), advice(found, fatal=False)) == ({}, wanted)
    reasons = {each.table: each.reason for each in found.findings if each.code == "replica_identity"}
    assert "For want of author, each update or delete evicts all cached keys" in reasons["public.reports"]
    assert "For want of author, rows are materialized to find old ones: of_posts." in reasons["public.posts"]
    with service_over(site, tmp_path / "before") as service:
        assert evictions(service, site) == dict.fromkeys(COUNTED, 0) | {"reports": 10, "drafts": 10, "pages": 1}
        rows_of = {table: metric(service, "upquery_view_inner_bytes", f"of_{table}") for table in COUNTED}

    site.execute(*(statement for statements in wanted.values() for statement in statements))
    found = findings(config)
    assert found.healthy
    assert {each.code for each in found.findings} == {"index", "not_streamed"}
    # A new index serves the lookups, too.
    made = {table for table, statements in wanted.items() if len(statements) > 1}
    assert not made & {each.table for each in found.findings}
    with service_over(site, tmp_path / "after") as service:
        # Where rows were materialized, an index has the row's own key evicted instead, FULL none.
        one = dict.fromkeys(("posts", "memos", "reports", "drafts", "pages"), 1)
        assert evictions(service, site) == {"notes": 0} | one
        for table in ("posts", "memos", "notes"):
            assert metric(service, "upquery_view_inner_bytes", f"of_{table}") < rows_of[table] / 5
