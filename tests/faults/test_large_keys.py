"""Keys of very many rows: no lookup and no read takes all of them into memory, and others are answered meanwhile."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, PATIENT, RunningService, process_named, running_service, until

#: Of the large key, as texts alone almost 30 MB; of one that is not stored and may be answered; of all others one each.
MANY, SOME, KEYS = 600_000, 4_000, 200
UPSTREAM = {"limit_rows": 1_000, "answer_bytes": "4MiB"}
#: What the engine may take at most beyond what it took before: several times what may be held of an answer.
GROWTH_BYTES = 48 << 20
VIEWS = {
    "rows": "SELECT filler FROM items WHERE k = :k",
    "named": "SELECT n.name, i.filler FROM names n JOIN items i ON i.k = n.id WHERE n.name = :name",
    "counted": "SELECT k, COUNT(*) AS n FROM items WHERE k = :k GROUP BY k",
    "name": "SELECT id, name FROM names WHERE id = :id",
}
TABLES = (
    "CREATE TABLE names (id int PRIMARY KEY, name varchar(20) NOT NULL UNIQUE)",
    "CREATE TABLE items (id int PRIMARY KEY, k int NOT NULL, filler varchar(60) NOT NULL)",
    "CREATE INDEX items_k ON items (k)",
)


def filled(numbers: str) -> tuple[str, ...]:
    """Statements that insert the rows; `numbers` is an expression for the numbers from 1 to {n}, as i."""
    keys = f"CASE WHEN i <= {MANY} THEN 1 WHEN i <= {MANY + SOME} THEN 2 ELSE i - {MANY + SOME} + 2 END"
    return (
        f"INSERT INTO names SELECT i, concat('name', i) FROM {numbers.format(n=KEYS)}",
        f"INSERT INTO items SELECT i, {keys}, concat('some text that takes room ', i)"
        f" FROM {numbers.format(n=MANY + SOME + KEYS)}",
    )


@pytest.fixture(params=["postgres", "mariadb"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningService]:
    database: Database | MariaDatabase
    if request.param == "postgres":
        database = request.getfixturevalue("database")
        numbers = "generate_series(1, {n}) i"
    else:
        database = request.getfixturevalue("mariadb")
        numbers = "(SELECT seq AS i FROM seq_1_to_{n}) numbers"
    database.execute(
        *TABLES, *filled(numbers), "ANALYZE TABLE items" if request.param == "mariadb" else "ANALYZE items"
    )
    cdc = {"set_replica_identity": True}
    with running_service(tmp_path, database.url, VIEWS, upstream=UPSTREAM, cdc=cdc) as service:
        until(lambda: service.hits("name", id=1))
        yield service


def peak_bytes(service: RunningService, process: str = "engine") -> int:
    """The most that a process has taken so far."""
    status = Path(f"/proc/{process_named(process, service.pid)}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


def code(service: RunningService, view: str, **parameters: object) -> str:
    """Return the code of a refusal."""
    return str(service.read(view, PATIENT, **parameters).json()["code"])


@pytest.mark.postgres
@pytest.mark.mariadb
def test_a_key_is_refused_that_no_answer_has_room_for(service: RunningService) -> None:
    before_bytes = peak_bytes(service)
    refused = service.read("rows", PATIENT, k=1)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert "answer_bytes" in refused.json()["detail"]
    # An inner node's key, too.
    assert code(service, "named", name="name1") == "too_large"
    # At once from now on.
    asked = service.stats()["counters"]["lookups"]
    assert [code(service, "rows", k=1) for _ in range(20)] == ["too_large"] * 20
    assert service.stats()["counters"]["lookups"] == asked
    # What is not stored is answered all the same, and what is computed of it is stored.
    assert len(service.rows("rows", k=2)) == SOME
    until(lambda: service.hits("counted", k=1))
    assert service.rows("counted", k=1) == [{"k": 1, "n": MANY}]
    for number in range(3, KEYS):
        assert service.rows("rows", k=number) == [{"filler": f"some text that takes room {MANY + SOME + number - 2}"}]
    assert peak_bytes(service) - before_bytes < GROWTH_BYTES
    counters = service.stats()["counters"]
    assert counters["lookups_too_large"] >= 2
    assert counters["engine_failures"] == counters["lookup_failures"] == 0


#: What the database runs for this service that is not a question of its own.
RUNNING = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT filler%%' AND state = 'active'",
    "mysql": "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT filler%%'",
}
STREAMED = {"sql": VIEWS["rows"], "large_answers": "stream"}
#: Of far more bytes than sockets hold.
COLUMNS = ", ".join(["filler", *(f"filler AS c{number}" for number in range(9))])
WIDE = STREAMED | {"sql": VIEWS["rows"].replace("filler", COLUMNS)}


def running(request: pytest.FixtureRequest) -> list[int]:
    """The connections that send the rows of a large answer."""
    name = request.node.callspec.params["service"]
    database = request.getfixturevalue("database" if name == "postgres" else "mariadb")
    return [pid for (pid,) in database.query(RUNNING["postgresql" if name == "postgres" else "mysql"])]


@pytest.mark.postgres
@pytest.mark.mariadb
def test_a_view_may_have_its_large_answers_sent_in_parts(
    service: RunningService, request: pytest.FixtureRequest
) -> None:
    service.call("PUT", "/v1/catalog/views/parts", json=STREAMED).raise_for_status()
    until(lambda: service.hits("parts", k=3))
    url, large = f"{service.http}/v1/views/parts?k=1", "some text that takes room "
    before = {name: peak_bytes(service, name) for name in ("engine", "worker-0")}
    for _ in range(2):
        with HTTP.stream("GET", url, headers=PATIENT) as answer:
            assert (answer.status_code, answer.headers["cache-status"]) == (200, "upquery; fwd=stale")
            assert not {"upquery-version", "etag", "content-length"} & answer.headers.keys()
            body = b"".join(answer.iter_bytes())
        told = json.loads(body)
        assert (len(told["rows"]), told["version"], told["next"]) == (MANY, None, None)
        assert {row["filler"] for row in told["rows"]} == {f"{large}{i}" for i in range(1, MANY + 1)}
    assert all(peak_bytes(service, name) - peak < GROWTH_BYTES for name, peak in before.items())
    # What is not too large is answered as ever.
    assert len(service.rows("parts", k=2)) == SOME
    head = HTTP.head(url, headers=PATIENT)
    assert (head.status_code, head.content) == (200, b"")
    assert service.stats()["counters"]["reads_streamed"] == 3
    until(lambda: not running(request))


@pytest.mark.postgres
@pytest.mark.mariadb
def test_a_large_answer_ends_with_its_client_or_its_database(
    service: RunningService, request: pytest.FixtureRequest
) -> None:
    service.call("PUT", "/v1/catalog/views/parts", json=WIDE).raise_for_status()
    until(lambda: service.hits("parts", k=3))
    url = f"{service.http}/v1/views/parts?k=1"
    with HTTP.stream("GET", url, headers=PATIENT) as answer:
        parts = answer.iter_bytes(1 << 16)
        assert next(parts).startswith(b'{"rows":[{"filler":')
        assert len(running(request)) == 1
    until(lambda: not running(request))
    with HTTP.stream("GET", url, headers=PATIENT) as answer:
        parts = answer.iter_bytes(1 << 16)
        next(parts)
        (connection,) = running(request)
        database = request.getfixturevalue(request.node.callspec.params["service"].replace("postgres", "database"))
        kill = "SELECT pg_terminate_backend(%s)" if database.url.startswith("postgres") else "KILL %s"
        database.execute(kill.replace("%s", str(connection)))
        with pytest.raises(httpx.RemoteProtocolError):
            list(parts)
    until(lambda: "a large answer was aborted" in service.log.read_text())
    # No more of them than the database has connections for; each ends with its client.
    with ExitStack() as readers:
        answers = [readers.enter_context(HTTP.stream("GET", url, headers=PATIENT)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert code(service, "parts", k=1) == "overloaded"
        assert service.hits("name", id=1)
    until(lambda: not running(request))
    with HTTP.stream("GET", url, headers=PATIENT) as answer:
        assert answer.status_code == 200


@pytest.mark.postgres
@pytest.mark.mariadb
def test_keys_that_are_looked_up_together_are_told_apart(service: RunningService) -> None:
    """Together they are more than one key may have; none of them is refused."""
    keys = [{"k": number} for number in (*range(3, 150), 2)]
    reply = HTTP.post(f"{service.http}/v1/views/rows/query", json={"keys": keys}, headers=PATIENT)
    assert [len(each["rows"]) for each in reply.json()["results"]] == [1] * 147 + [SOME]
    until(lambda: all(service.hits("rows", k=number) for number in range(3, 150)))
    assert not service.hits("rows", k=2)
    assert service.stats()["counters"]["lookups_too_large"] >= 2
