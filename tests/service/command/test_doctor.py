"""``upquery doctor`` on a PostgreSQL."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from service.command.diagnosis import Examination, examine
from service.settings.stack import load_settings
from tests.fixtures.postgres import Database
from tests.fixtures.service import command, environment
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres

VIEW = '[[views]]\nname = "{name}"\nsql = "{sql}"\n'
STORIES = VIEW.format(name="story", sql="SELECT id, title FROM stories WHERE id = :id")
BY_TITLE = VIEW.format(name="by_title", sql="SELECT id FROM stories WHERE title = :title")
WRONG = VIEW.format(name="wrong", sql="SELECT nothing FROM stories")


def doctor(database: Database, directory: Path, views: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    config = str(configuration(database, directory, views))
    return subprocess.run(
        command("doctor", "--config", config, *arguments), capture_output=True, text=True, env=environment()
    )


def configuration(database: Database, directory: Path, views: str) -> Path:
    config = directory / "upquery.toml"
    config.write_text(f'[upstream]\nurl = "{database.url}"\n{views}')
    return config


def examined(database: Database, directory: Path, views: str) -> Examination:
    """Return the findings without starting a process."""
    return run(examine(load_settings(configuration(database, directory, views))))


@pytest.fixture
def stories(database: Database) -> Database:
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text)")
    return database


def test_findings_are_a_table_with_what_repairs_them(stories: Database, tmp_path: Path) -> None:
    stories.execute("ALTER TABLE stories REPLICA IDENTITY NOTHING")
    said = doctor(stories, tmp_path, STORIES + BY_TITLE)
    assert said.returncode == 1, said.stderr
    assert "REPLICA IDENTITY FULL" in said.stdout
    assert "1 problem prevents operation." in said.stdout


def test_json_has_all_of_it(stories: Database, tmp_path: Path) -> None:
    said = json.loads(doctor(stories, tmp_path, STORIES + BY_TITLE + WRONG, "--json").stdout)
    assert not said["healthy"], "one of the views is wrong"
    found = {finding["code"]: finding for finding in said["findings"]}
    assert found["replica_identity"]["table"] == "public.stories"
    assert "begins with title" in found["index"]["reason"]
    assert (found["index"]["table"], found["index"]["fatal"]) == ("public.stories", False)
    assert "nothing" in found["view"]["reason"]
    assert "within one heartbeat" in found["schema_changes"]["reason"]
    assert "CREATE EVENT TRIGGER" in found["schema_changes"]["fix"]
    assert not found["schema_changes"]["fatal"]


def test_an_identity_is_a_finding_where_views_need_more(stories: Database, tmp_path: Path) -> None:
    """The fix is the least identity; once it is set there is nothing to say."""
    stories.execute("ALTER TABLE stories ALTER title SET NOT NULL")
    said = json.loads(doctor(stories, tmp_path, STORIES, "--json").stdout)["findings"]
    assert [finding for finding in said if finding["code"] == "replica_identity"] == []
    said = json.loads(doctor(stories, tmp_path, STORIES + BY_TITLE, "--json").stdout)["findings"]
    (finding,) = [finding for finding in said if finding["code"] == "replica_identity"]
    assert not finding["fatal"]
    assert " (for want of title)." in finding["reason"]
    stories.execute(finding["fix"])
    said = json.loads(doctor(stories, tmp_path, STORIES + BY_TITLE, "--json").stdout)["findings"]
    assert [finding for finding in said if finding["code"] == "replica_identity"] == []


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
    said = json.loads(doctor(database, tmp_path, views, "--json").stdout)["findings"]
    (finding,) = [finding for finding in said if finding["code"] == "replica_identity"]
    assert "USING INDEX" in finding["fix"], finding
    database.execute(finding["fix"])
    said = json.loads(doctor(database, tmp_path, views, "--json").stdout)["findings"]
    assert [finding for finding in said if finding["code"] == "replica_identity"] == []


def test_views_of_tables_that_are_not_streamed_expire(database: Database, tmp_path: Path) -> None:
    """The finding is a warning, unless a view requires another tier."""
    database.execute("CREATE TABLE days (id int PRIMARY KEY, day date) PARTITION BY RANGE (id)")
    view = VIEW.format(name="day", sql="SELECT day FROM days WHERE id = :id")
    said = examined(database, tmp_path, view)
    assert said.healthy
    (finding,) = [each for each in said.findings if each.code == "not_streamed"]
    assert (finding.table, finding.fatal) == ("public.days", False)
    assert "public.days is a partitioned table" in finding.reason
    assert finding.reason.endswith(" Views of the tier ttl, whose answers expire: day.")
    for tier in ("incremental", "refresh"):
        (finding,) = [each for each in examined(database, tmp_path, f'{view}tier = "{tier}"\n').findings if each.fatal]
        assert finding.code == "view"
        assert "public.days is a partitioned table" in finding.reason


def test_what_is_safe_is_fixed_when_asked(stories: Database, tmp_path: Path) -> None:
    stories.execute("ALTER TABLE stories REPLICA IDENTITY NOTHING")
    said = doctor(stories, tmp_path, STORIES, "--fix")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "fixed" in said.stdout
    again = doctor(stories, tmp_path, STORIES, "--json")
    assert (again.returncode, json.loads(again.stdout)["findings"]) == (0, [])


def test_a_server_elsewhere_that_is_not_verified_is_a_warning(stories: Database, tmp_path: Path) -> None:
    """libpq connects to `hostaddr`; who has to answer is `host`."""
    stories.execute("ALTER TABLE stories REPLICA IDENTITY FULL")
    url = f"{stories.url.replace('127.0.0.1', 'db.internal')}?hostaddr=127.0.0.1"
    said = doctor(replace(stories, url=url), tmp_path, STORIES)
    assert said.returncode == 0, said.stdout + said.stderr
    found = json.loads(doctor(replace(stories, url=url), tmp_path, STORIES, "--json").stdout)["findings"]
    (finding,) = (each for each in found if each["code"] == "tls")
    assert "to db.internal is not encrypted (sslmode is prefer by default)" in finding["reason"]
    assert "sslmode=verify-full&sslrootcert=" in finding["fix"]
    assert not finding["fatal"]


def test_a_database_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    config = tmp_path / "upquery.toml"
    config.write_text('[upstream]\nurl = "postgresql://u:hushhush@127.0.0.1:1/x"\n')
    said = subprocess.run(command("doctor", "--config", str(config)), capture_output=True, text=True, env=environment())
    assert said.returncode == 1
    assert "hushhush" not in said.stdout + said.stderr
    assert "fatal" in said.stdout
