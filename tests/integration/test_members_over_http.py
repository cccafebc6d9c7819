"""IN with several parameters of one value each, through every way to read a view."""

from collections.abc import Iterator

import psycopg
import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until
from tests.fuzz_api.site import demo_database

pytestmark = pytest.mark.postgres
SQL = "SELECT id, title FROM stories WHERE id IN (:a, 3, :b) ORDER BY id"


@pytest.fixture(scope="module")
def database(postgres_server: EmbeddedPostgres) -> Iterator[Database]:
    with demo_database(postgres_server) as site:
        yield site


@pytest.fixture(scope="module")
def service(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    views = {"some": SQL, "marks": SQL.replace(":a", "?").replace(":b", "?").replace(" ORDER", " AND id > ? ORDER")}
    with running_service(
        tmp_path_factory.mktemp("members"), database.url, views, adhoc={"enabled": True}, engine={"shards": 2}
    ) as running:
        yield running


def ids(rows: list[dict[str, int]]) -> list[int]:
    return [row["id"] for row in rows]


def test_reads_take_one_value_of_each_parameter(service: RunningService) -> None:
    for a, b, expected in ((7, 2, [2, 3, 7]), (2, 2, [2, 3]), (3, -1, [3])):
        assert ids(service.rows("some", a=a, b=b)) == expected
        until(lambda a=a, b=b: service.hits("some", a=a, b=b))
    assert ids(HTTP.get(f"{service.http}/v1/views/some?a:null&b=7").json()["rows"]) == [3, 7]
    assert ids(service.rows("marks", p1=7, p2=2, p3=2)) == [3, 7]
    assert service.read("some", a=1).json()["code"] == "parameter_missing"
    assert HTTP.get(f"{service.http}/v1/views/some?a=1&a=2&b=3").json()["code"] == "parameter_type"


def test_batches_take_them_by_name(service: RunningService) -> None:
    keys = [{"a": 7, "b": 2}, {"a": None, "b": "7"}]
    answers = HTTP.post(f"{service.http}/v1/views/some/query", json={"keys": keys}).json()["results"]
    assert [ids(answer["rows"]) for answer in answers] == [[2, 3, 7], [3, 7]]


def test_queries_with_these_words_are_answered_by_the_view(service: RunningService) -> None:
    sql = SQL.replace(":a", ":x").replace(":b", ":y")
    reply = HTTP.post(f"{service.http}/v1/query", json={"sql": sql, "params": {"x": 7, "y": 2}}).json()
    assert ids(reply["rows"]) == [2, 3, 7]


def test_their_document_has_each_of_them(service: RunningService) -> None:
    document = HTTP.get(f"{service.http}/openapi.json").json()
    parameters = {p["name"]: p for p in document["paths"]["/v1/views/some"]["get"]["parameters"] if "name" in p}
    assert [parameters[name]["schema"]["type"] for name in ("a", "b")] == ["integer", "integer"]
    assert [(p["name"], p["type"]) for p in service.view("some")["parameters"]] == [("a", "int8"), ("b", "int8")]


def test_changes_of_each_member_are_seen(service: RunningService, database: Database) -> None:
    service.rows("some", a=7, b=2)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("UPDATE stories SET title = 'new ' || id WHERE id IN (2, 3, 7)")
    until(lambda: {row["title"] for row in service.rows("some", a=7, b=2)} == {"new 2", "new 3", "new 7"})


def test_subscribers_follow_the_rows_of_their_members(service: RunningService, database: Database) -> None:
    url = f"{service.http}/v1/views/some/subscribe?a=8&b=5&live=poll"
    first = HTTP.get(url).json()
    assert ids(first["snapshot"]["rows"]) == [3, 5, 8]
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("UPDATE stories SET title = 'followed ' || id WHERE id IN (4, 8)")
    changed = HTTP.get(f"{url}&after={first['token']}", headers={"prefer": "wait=20"}).json()
    assert [row["title"] for change in changed["changes"] for row in change["added"]] == ["followed 8"]


def test_other_members_of_a_replaced_view_are_read_at_once_and_after_a_restart(service: RunningService) -> None:
    assert service.put("put", SQL).status_code == 201
    assert ids(service.rows("put", a=7, b=2)) == [2, 3, 7]
    assert service.put("put", SQL.replace("3", "4, 5").replace(":b", ":c")).status_code == 200
    until(lambda: service.read("put", a=7, c=2).status_code == 200)
    assert ids(service.rows("put", a=7, c=2)) == [2, 4, 5, 7]
    service.stop()
    service.start()
    assert ids(service.rows("put", a=7, c=2)) == [2, 4, 5, 7]
    assert service.read("put", a=7, b=2).json()["code"] == "parameter_unknown"
