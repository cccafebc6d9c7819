"""``upquery migrate check`` on a PostgreSQL and a MariaDB."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.migration.script import SYNTAXES, Script, ScriptError
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.service import running_service, upquery

TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, name varchar(40) NOT NULL, kind varchar(9), small int, extra text)",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "INSERT INTO t VALUES (1, 'a', 'k', 1, 'x')",
)
VIEWS = {
    "names": "SELECT id, name FROM t WHERE id = :id",
    "smalls": "SELECT id, small FROM t WHERE id = :id",
    "counts": "SELECT kind, count(name) AS c FROM t WHERE kind = :kind GROUP BY kind",
    "rows": "SELECT * FROM t WHERE id = :id",
}
EVERY = " ".join(VIEWS)
SWAP = "ALTER TABLE t RENAME TO t_old; ALTER TABLE t_next RENAME TO t;"
#: The schema as far as a migration could change it, and the rows.
STATE = (
    "SELECT c.relname, c.oid, c.relreplident::text, c.relfilenode, a.attname, a.atttypid, a.atttypmod, a.attnotnull"
    " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
    " WHERE c.relnamespace = 'public'::regnamespace ORDER BY c.relname, a.attnum",
    "SELECT count(*), min(t::text) FROM t",
    "SELECT pubname, tablename FROM pg_publication_tables",
)


def migrate(
    url: str,
    directory: Path,
    migration: str,
    *arguments: str,
    views: Mapping[str, str] = VIEWS,
    settings: str = "",
    cold: bool = False,
) -> subprocess.CompletedProcess[str]:
    config, file = directory / "upquery.toml", directory / "migration.sql"
    written = [f'[[views]]\nname = "{name}"\nsql = """{sql}"""\n' for name, sql in views.items()]
    config.write_text(
        f'[upstream]\nurl = "{url}"\n[state]\ndirectory = "{directory}/state"\n{settings}{"".join(written)}'
    )
    file.write_text(migration)
    return upquery("migrate", "check", str(file), "--config", str(config), *arguments, cold=cold)


def predicted(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["harmless"] == (done.returncode == 0)
    return found


def effects(found: dict[str, Any]) -> dict[str, set[str]]:
    """Views by what happens to them, without those that stay."""
    by_effect: dict[str, set[str]] = {}
    for view in found["views"]:
        by_effect.setdefault(view["effect"], set()).add(view["view"])
    assert set().union(*by_effect.values()) == VIEWS.keys()
    by_effect.pop("stays", None)
    return by_effect


def state(database: Database) -> list[Any]:
    return [database.query(query) for query in STATE]


@pytest.fixture
def table(database: Database) -> Database:
    database.execute(*TABLE)
    return database


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("migration", "replanned", "breaks"),
    [
        pytest.param("ALTER TABLE t ADD COLUMN added int DEFAULT 5", "", "", id="add-column"),
        pytest.param("CREATE INDEX CONCURRENTLY i ON t (name)", "", "", id="create-index"),
        pytest.param("ALTER TABLE t DROP COLUMN extra", "rows", "", id="drop-unread-column"),
        pytest.param("ALTER TABLE t DROP COLUMN small", "rows", "smalls", id="drop-read-column"),
        pytest.param("ALTER TABLE t RENAME COLUMN small TO tiny", "rows", "smalls", id="rename-column"),
        pytest.param("ALTER TABLE t ALTER name TYPE varchar(80)", "", "", id="longer-varchar"),
        pytest.param("ALTER TABLE t ALTER name TYPE text", "", "", id="varchar-to-text"),
        pytest.param("ALTER TABLE t ALTER small TYPE bigint", "smalls rows", "", id="int-to-bigint"),
        pytest.param("ALTER TABLE t ALTER name DROP NOT NULL", "counts", "", id="drop-not-null"),
        pytest.param("ALTER TABLE t ALTER kind SET NOT NULL", "", "", id="set-not-null"),
        pytest.param(f"CREATE TABLE t_next (LIKE t INCLUDING ALL); {SWAP}", EVERY, "", id="swap-tables"),
        pytest.param("ALTER TABLE t RENAME TO other", "", EVERY, id="rename-table"),
        pytest.param("ALTER TABLE t REPLICA IDENTITY NOTHING", "", EVERY, id="replica-identity-nothing"),
    ],
)
def test_effects_of_a_migration(table: Database, tmp_path: Path, migration: str, replanned: str, breaks: str) -> None:
    """The database itself is as before."""
    before = state(table)
    found = predicted(migrate(table.url, tmp_path, migration, "--json"))
    expected = {"replanned": set(replanned.split()), "breaks": set(breaks.split())}
    assert effects(found) == {effect: views for effect, views in expected.items() if views}, found
    assert state(table) == before


@pytest.mark.postgres
def test_a_broken_view_names_its_column(table: Database, tmp_path: Path) -> None:
    done = migrate(table.url, tmp_path, "ALTER TABLE t DROP COLUMN small", "--json", cold=True)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    (view,) = (each for each in found["views"] if each["effect"] == "breaks")
    assert 'There is no column "small"' in view["reason"]
    assert (view["tier"], view["tier_after"]) == ("incremental", None)
    (changed,) = found["tables"]
    assert changed["table"] == "public.t"
    assert "small" in changed["reason"]


@pytest.mark.postgres
def test_a_lost_identity_is_told_with_its_remedy(table: Database, tmp_path: Path) -> None:
    done = migrate(table.url, tmp_path, "ALTER TABLE t REPLICA IDENTITY NOTHING")
    assert done.returncode == 1
    assert "REPLICA IDENTITY DEFAULT" in done.stdout
    assert "4 breaks." in done.stdout


@pytest.mark.postgres
def test_a_tier_that_changes_is_reported(table: Database, tmp_path: Path) -> None:
    """So is a name that becomes ambiguous only when the view is planned again."""
    table.execute("CREATE TABLE u (t_id int PRIMARY KEY)", "ALTER TABLE u REPLICA IDENTITY FULL")
    views = {**VIEWS, "joined": "SELECT id, name FROM t JOIN u ON t_id = id WHERE id = :id"}
    migration = "CREATE TABLE child () INHERITS (t)"
    found = predicted(migrate(table.url, tmp_path, migration, "--json", views={"names": VIEWS["names"]}))
    (view,) = found["views"]
    assert (view["effect"], view["tier"], view["tier_after"]) == ("tier changes", "incremental", "ttl")
    assert "has child tables" in view["reason"]
    found = predicted(migrate(table.url, tmp_path, "ALTER TABLE u ADD COLUMN name text", "--json", views=views))
    (view,) = (each for each in found["views"] if each["effect"] != "stays")
    assert (view["view"], view["effect"]) == ("joined", "breaks")
    assert "ambiguous" in view["reason"]
    assert "after its next start" in view["reason"]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("migration", "error"),
    [
        ("ALTER TABLE t ADD a int;\n\nALTER TABLE t ADDD b int;", "line 3: syntax error"),
        ("SELECT 1;\nCREATE INDEX CONCURRENTLY i ON t (nothing);", 'line 2: column "nothing" does not exist'),
        ("\\i other.sql\n", "Line 1 has a command of psql"),
        ("-- nothing", "no statements"),
    ],
)
def test_a_file_that_fails_is_a_usage_error(table: Database, tmp_path: Path, migration: str, error: str) -> None:
    before = state(table)
    done = migrate(table.url, tmp_path, migration, "--json")
    assert done.returncode == 2, done.stdout + done.stderr
    assert error in json.loads(done.stdout)["detail"]
    assert state(table) == before


@pytest.mark.postgres
def test_a_migration_runs_as_the_owner_of_the_tables(table: Database, tmp_path: Path) -> None:
    """A table swapped in by its owner lacks the right of the service's role to read it."""
    owner, reader = f"{table.name}_owner", f"{table.name}_reader"
    table.execute(f"CREATE ROLE {owner} NOLOGIN", f"CREATE ROLE {reader} LOGIN REPLICATION")
    try:
        table.execute(
            f"GRANT CREATE, USAGE ON SCHEMA public TO {owner}",
            f"ALTER TABLE t OWNER TO {owner}",
            f"GRANT SELECT ON t TO {reader}",
            "CREATE PUBLICATION upquery FOR ALL TABLES",
        )
        url = table.url.replace("postgres@", f"{reader}@")
        swap = f"CREATE TABLE t_next (LIKE t INCLUDING ALL); ALTER TABLE t_next REPLICA IDENTITY FULL; {SWAP}"
        found = predicted(migrate(url, tmp_path, swap, "--json"))
        assert effects(found) == {"breaks": set(VIEWS)}
        assert all("GRANT SELECT ON public.t" in view["reason"] for view in found["views"])
        granted = f"{swap} GRANT SELECT ON t TO {reader};"
        assert effects(predicted(migrate(url, tmp_path, granted, "--json"))) == {"replanned": set(VIEWS)}
    finally:
        table.execute(f"DROP OWNED BY {owner} CASCADE", f"DROP OWNED BY {reader} CASCADE")
        table.execute(f"DROP ROLE {owner}", f"DROP ROLE {reader}")


@pytest.mark.postgres
def test_a_copy_of_the_users_is_changed_instead(table: Database, tmp_path: Path) -> None:
    before = state(table)
    with empty_database(table.server) as copy:
        copy.execute(*TABLE)
        found = predicted(migrate(table.url, tmp_path, "ALTER TABLE t DROP extra", "--json", "--on-copy", copy.url))
        assert effects(found) == {"replanned": {"rows"}}
        with pytest.raises(psycopg.errors.UndefinedColumn):
            copy.query("SELECT extra FROM t")
    assert state(table) == before
    same = table.url.replace("127.0.0.1", "localhost")
    done = migrate(table.url, tmp_path, "ALTER TABLE t DROP extra", "--on-copy", same)
    assert done.returncode == 2
    assert "is the configured database" in done.stderr
    assert state(table) == before


@pytest.mark.postgres
def test_reads_of_a_running_service(table: Database, tmp_path: Path) -> None:
    """Views that were put over HTTP are checked, too."""
    with running_service(tmp_path / "service", table.url, VIEWS) as service:
        before = state(table)
        service.put("put", "SELECT name FROM t WHERE small = :small")
        done = migrate(table.url, tmp_path, "ALTER TABLE t DROP small", "--json", "--admin", service.admin)
        views = {view["view"]: view for view in predicted(done)["views"]}
        assert views["put"]["effect"] == "breaks"
        assert all(view["reads_per_second"] == 0 for view in views.values())
        assert state(table)[:2] == before[:2]
    done = migrate(table.url, tmp_path, "ALTER TABLE t DROP small", "--json", "--admin", service.admin)
    found = predicted(done)
    assert "No service answers" in found["notes"][0]
    assert all("reads_per_second" not in view for view in found["views"])


@pytest.mark.mariadb
def test_mariadb_needs_a_copy(mariadb: MariaDatabase, tmp_path: Path) -> None:
    create = "CREATE TABLE {}t (id int PRIMARY KEY, name varchar(40) NOT NULL, kind varchar(9), small int, extra text)"
    mariadb.execute(create.format(""))
    done = migrate(mariadb.url, tmp_path, "ALTER TABLE t DROP small", cold=True)
    assert done.returncode == 2
    assert "--on-copy" in done.stderr
    scratch = f"{mariadb.name}_copy"
    mariadb.execute(f"CREATE DATABASE {scratch}", create.format(f"{scratch}."))
    url = mariadb.url.replace(f"/{mariadb.name}", f"/{scratch}")
    try:
        found = predicted(
            migrate(mariadb.url, tmp_path, "ALTER TABLE t DROP small; SELECT 1;", "--json", "--on-copy", url)
        )
        assert "smalls" in effects(found)["breaks"]
        assert mariadb.query("SELECT small FROM t") == []
        named = migrate(mariadb.url, tmp_path, f"ALTER TABLE {mariadb.name}.t DROP small", "--on-copy", url)
        assert (named.returncode, "names the database" in named.stderr) == (2, True)
        same = migrate(mariadb.url, tmp_path, "ALTER TABLE t DROP small", "--on-copy", mariadb.url)
        assert (same.returncode, "is the configured database" in same.stderr) == (2, True)
        failed = migrate(mariadb.url, tmp_path, "SELECT 1;\nALTER TABLE t DROP nothing;", "--on-copy", url)
        assert (failed.returncode, "at line 2" in failed.stderr) == (2, True)
    finally:
        mariadb.execute(f"DROP DATABASE {scratch}")


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        (
            "-- a; b\nSELECT ';', \"x;\", $$;$$, $t$ ; $$ $t$, E'\\';' /* ; /* ; */ ; */;;",
            ["SELECT ';', \"x;\", $$;$$, $t$ ; $$ $t$, E'\\';' /* ; /* ; */ ; */"],
        ),
        (
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; SELECT 2;",
            ["CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END", "SELECT 2"],
        ),
        (
            "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); COMMIT",
            ["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "COMMIT"],
        ),
    ],
)
def test_statements_of_a_file(text: str, statements: list[str]) -> None:
    script = Script.parse(text, SYNTAXES["postgres"])
    assert [statement.text for statement in script.statements] == statements
    assert script.in_one_transaction == ("COMMIT" not in text)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("SELECT 1 \\gx", "postgres"),
        ("\\connect other", "postgres"),
        ("COPY t FROM stdin;\n1\n\\.", "postgres"),
        ("DELIMITER //\n", "mysql"),
    ],
)
def test_commands_of_a_client_are_refused(text: str, dialect: str) -> None:
    with pytest.raises(ScriptError, match="Line 1"):
        Script.parse(text, SYNTAXES[dialect])
