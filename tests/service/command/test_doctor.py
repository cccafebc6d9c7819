"""``upquery doctor`` on a PostgreSQL."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from service.command.diagnosis import Examination, examine
from service.engine.upstream.results import Finding
from service.settings.stack import load_settings
from tests.fixtures.postgres import Database
from tests.fixtures.service import until, upquery
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres

VIEW = '[[views]]\nname = "{name}"\nsql = "{sql}"\n'
STORIES = VIEW.format(name="story", sql="SELECT id, title FROM stories WHERE id = :id")
BY_TITLE = VIEW.format(name="by_title", sql="SELECT id FROM stories WHERE title = :title")
WRONG = VIEW.format(name="wrong", sql="SELECT nothing FROM stories")


def doctor(database: Database, directory: Path, views: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    config = str(configuration(database, directory, views))
    return upquery("doctor", "--config", config, *arguments)


def configuration(database: Database, directory: Path, views: str) -> Path:
    config = directory / "upquery.toml"
    config.write_text(f'[upstream]\nurl = "{database.url}"\n{views}')
    return config


def found(database: Database, directory: Path, views: str) -> Examination:
    """Return the findings without starting a process."""
    return run(examine(load_settings(configuration(database, directory, views))))


def identity_findings(database: Database, directory: Path, views: str) -> list[Finding]:
    """Return those about replica identities."""
    return [each for each in found(database, directory, views).findings if each.code == "replica_identity"]


def statements(finding: Finding) -> list[str]:
    """Return the statements of a remedy, one a line."""
    assert finding.fix is not None
    return finding.fix.splitlines()


@pytest.fixture
def stories(database: Database) -> Database:
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text)")
    return database


def test_findings_are_a_table_with_what_repairs_them(stories: Database, tmp_path: Path) -> None:
    stories.execute("ALTER TABLE stories REPLICA IDENTITY NOTHING")
    said = doctor(stories, tmp_path, STORIES + BY_TITLE)
    assert said.returncode == 1, said.stderr
    assert "REPLICA IDENTITY DEFAULT" in said.stdout
    assert "1 problem prevents operation." in said.stdout


def test_json_has_all_of_it(stories: Database, tmp_path: Path) -> None:
    said = json.loads(doctor(stories, tmp_path, STORIES + BY_TITLE + WRONG, "--json").stdout)
    assert not said["healthy"], "one of the views is wrong"
    by_code = {finding["code"]: finding for finding in said["findings"]}
    assert by_code["replica_identity"]["table"] == "public.stories"
    assert "begins with title" in by_code["index"]["reason"]
    assert (by_code["index"]["table"], by_code["index"]["fatal"]) == ("public.stories", False)
    assert "nothing" in by_code["view"]["reason"]
    assert "within one heartbeat" in by_code["schema_changes"]["reason"]
    assert "CREATE EVENT TRIGGER" in by_code["schema_changes"]["fix"]
    assert not by_code["schema_changes"]["fatal"]


def test_an_identity_is_a_finding_where_views_need_more(stories: Database, tmp_path: Path) -> None:
    """The fix is the least identity; once it is set there is nothing to say."""
    stories.execute("ALTER TABLE stories ALTER title SET NOT NULL")
    assert identity_findings(stories, tmp_path, STORIES) == []
    (finding,) = identity_findings(stories, tmp_path, STORIES + BY_TITLE)
    assert not finding.fatal
    assert "For want of title, rows are materialized to find old ones: by_title." in finding.reason
    assert "CREATE INDEX CONCURRENTLY blocks no writes, and cannot run within a transaction." in finding.reason
    assert "An index limits title to 2,704 bytes." in finding.reason
    stories.execute(*statements(finding))
    assert identity_findings(stories, tmp_path, STORIES + BY_TITLE) == []


@pytest.mark.parametrize(
    ("table", "columns", "sqls"),
    [
        # One index for views that lack different columns.
        ("comments", ("id", "author", "post"), ("id FROM {t} WHERE author = :a", "id FROM {t} WHERE post = :p")),
        # Names that must be quoted, one of them with a comma and one too long for an index's name.
        ('"Odd, ""T"""', ("Id", "Author, name", "x" * 60), ('"Id" FROM {t} WHERE "Author, name" = :a',)),
        ("long", ("id", "x" * 63), ("id FROM {t} WHERE " + "x" * 63 + " = :a",)),
    ],
)
def test_the_index_that_is_recommended_can_be_made(
    database: Database, tmp_path: Path, table: str, columns: tuple[str, ...], sqls: tuple[str, ...]
) -> None:
    """An index of the simplest name does not prevent it: an earlier recommendation may have been followed."""
    first, *others = (f'"{column}" int NOT NULL' for column in columns)
    database.execute(f"CREATE TABLE {table} ({first} PRIMARY KEY, {', '.join(others)})")
    name = table.replace('"', "")
    database.execute(f'CREATE INDEX "{name}_identity" ON {table} ("{columns[0]}")')
    views = "".join(
        f"[[views]]\nname = 'v{i}'\nsql = '''SELECT {sql.format(t=table)}'''\n" for i, sql in enumerate(sqls)
    )
    (finding,) = identity_findings(database, tmp_path, views)
    assert "USING INDEX" in statements(finding)[-1]
    database.execute(*statements(finding))
    assert identity_findings(database, tmp_path, views) == []


def test_remains_of_the_recommended_index_are_dropped_first(stories: Database, tmp_path: Path) -> None:
    """CREATE INDEX CONCURRENTLY leaves them if it fails."""
    stories.execute("ALTER TABLE stories ALTER title SET NOT NULL")
    (first,) = identity_findings(stories, tmp_path, BY_TITLE)
    create, _ = statements(first)
    with psycopg.connect(stories.url) as holder, psycopg.connect(stories.url, autocommit=True) as creator:
        holder.execute("INSERT INTO stories VALUES (1, 'x')")
        creator.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            creator.execute(create)
    (finding,) = identity_findings(stories, tmp_path, BY_TITLE)
    drop, *others = statements(finding)
    assert drop.startswith("DROP INDEX CONCURRENTLY public.stories_title_id_identity;")
    assert others == statements(first)
    stories.execute(*statements(finding))
    assert identity_findings(stories, tmp_path, BY_TITLE) == []


def test_an_index_of_the_user_s_own_is_used(stories: Database, tmp_path: Path) -> None:
    """Whatever its name and the order of its columns; not one over fewer columns, or one that admits equal rows."""
    stories.execute("ALTER TABLE stories ALTER title SET NOT NULL", "CREATE INDEX other ON stories (id, title)")
    stories.execute('CREATE UNIQUE INDEX "My ""index""" ON stories (title, id)')
    (finding,) = identity_findings(stories, tmp_path, BY_TITLE)
    assert finding.fix == 'ALTER TABLE public.stories REPLICA IDENTITY USING INDEX "My ""index""";'
    stories.execute(*statements(finding))
    assert identity_findings(stories, tmp_path, BY_TITLE) == []


def test_costs_in_the_log_are_estimated_once_there_are_statistics(stories: Database, tmp_path: Path) -> None:
    """The database reports what it counted."""
    stories.execute("ALTER TABLE stories ALTER title SET NOT NULL")
    (finding,) = identity_findings(stories, tmp_path, BY_TITLE)
    assert "FULL writes 1 to 88 times the log of an update" in finding.reason
    stories.execute(
        "INSERT INTO stories SELECT i, repeat('x', 19) FROM generate_series(1, 100) i",
        "ANALYZE stories",
        "SELECT pg_stat_reset()",
        "UPDATE stories SET id = id + 1000",
    )
    (finding,) = until(
        lambda: [f for f in identity_findings(stories, tmp_path, BY_TITLE) if "counts 0 " not in f.reason]
    )
    assert re.search(r"pg_stat_user_tables counts [\d.,]+ updates and deletes a second\.", finding.reason)
    assert "adds about 20 bytes to the log of a delete, 24 to that of an update of its columns" in finding.reason
    assert "94 for each entry of the new index (pg_stats)." in finding.reason
    assert re.search(
        r"FULL adds about 24 bytes to the log of each update or delete, [\d,]+ a second \(pg_stats, pg_class\)\.",
        finding.reason,
    )


def test_views_of_tables_that_are_not_streamed_expire(database: Database, tmp_path: Path) -> None:
    """The finding is a warning, unless a view requires another tier."""
    database.execute("CREATE TABLE days (id int, day date) PARTITION BY RANGE (id)")
    view = VIEW.format(name="day", sql="SELECT day FROM days WHERE id = :id")
    said = found(database, tmp_path, view)
    assert said.healthy
    (finding,) = [each for each in said.findings if each.code == "not_streamed"]
    assert (finding.table, finding.fatal) == ("public.days", False)
    assert "public.days is partitioned and has no primary key" in finding.reason
    assert finding.reason.endswith(" Views of the tier ttl, whose answers expire: day.")
    for tier in ("incremental", "refresh"):
        (finding,) = [each for each in found(database, tmp_path, f'{view}tier = "{tier}"\n').findings if each.fatal]
        assert finding.code == "view"
        assert "public.days is partitioned and has no primary key" in finding.reason


def test_what_is_safe_is_fixed_when_asked(stories: Database, tmp_path: Path) -> None:
    stories.execute("ALTER TABLE stories REPLICA IDENTITY NOTHING")
    said = doctor(stories, tmp_path, STORIES, "--fix")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "fixed  ALTER TABLE public.stories REPLICA IDENTITY DEFAULT;" in said.stdout
    again = doctor(stories, tmp_path, STORIES, "--json")
    assert (again.returncode, json.loads(again.stdout)["findings"]) == (0, [])


def test_a_server_elsewhere_that_is_not_verified_is_a_warning(stories: Database, tmp_path: Path) -> None:
    """libpq connects to `hostaddr`; who has to answer is `host`."""
    stories.execute("ALTER TABLE stories REPLICA IDENTITY FULL")
    url = f"{stories.url.replace('127.0.0.1', 'db.internal')}?hostaddr=127.0.0.1"
    said = doctor(replace(stories, url=url), tmp_path, STORIES)
    assert said.returncode == 0, said.stdout + said.stderr
    findings = json.loads(doctor(replace(stories, url=url), tmp_path, STORIES, "--json").stdout)["findings"]
    (finding,) = (each for each in findings if each["code"] == "tls")
    assert "to db.internal is not encrypted (sslmode is prefer by default)" in finding["reason"]
    assert "sslmode=verify-full&sslrootcert=" in finding["fix"]
    assert not finding["fatal"]


def test_a_database_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    config = tmp_path / "upquery.toml"
    config.write_text('[upstream]\nurl = "postgresql://u:hushhush@127.0.0.1:1/x"\n')
    said = upquery("doctor", "--config", str(config), cold=True)
    assert said.returncode == 1
    assert "hushhush" not in said.stdout + said.stderr
    assert "fatal" in said.stdout
