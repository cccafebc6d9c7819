"""Two shards on one machine under writers: every answer is the database's, at one version, whoever is asked.

See `consistency` for what is compared.
"""

import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.demo.postgres_server import EmbeddedPostgres
from service.leaf_store.layout import key_part
from service.sharding.homes import Homes
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.service import HTTP, RunningService, alive, process_named, processes_of, running_service, until
from tests.integration.consistency import Load
from tests.integration.news_setups import (
    Setup,
    mariadb_direct,
    postgres_direct,
    postgres_kafka,
    serving,
)

pytestmark = pytest.mark.postgres
__all__ = ["mariadb_direct", "postgres_direct", "postgres_kafka"]

SHARDS = {"engine": {"shards": 2}, "http": {"workers": 2}}
STORY = "SELECT id, title FROM stories WHERE id = :id"
#: As many as make it sure that each shard is the home of one of them.
WHOLE = {f"whole_{n}": f"SELECT count(*) + {n} AS n FROM stories" for n in range(4)}


@pytest.mark.parametrize("upstream", ["postgres_direct", "mariadb_direct", "postgres_kafka"])
def test_every_answer_is_the_databases(upstream: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    setup: Setup = request.getfixturevalue(upstream)
    setup.sections |= SHARDS
    with serving(tmp_path / "service", setup) as service, Load(setup.news, service) as load:
        # Lookups of both raced with transactions.
        load.compare_until(lambda: all(shard["engine"].get("redo", 0) for shard in shards_of(service)), rounds=2)
        load.spare()
        victim = shards_of(service)[1]["pid"]
        load.disturb(lambda: os.kill(victim, signal.SIGKILL))
        load.compare()
        assert shards_of(service)[1]["pid"] != victim
        # The other one did not lose its stream; with who reads it, all do.
        assert counted(service, "streams") == [1, 1]
        load.disturb(lambda: os.kill(process_named("stream", service.pid), signal.SIGKILL))
        load.compare()
        assert counted(service, "streams") == [2, 2]
        sys.stdout.write(f"{load.summary()} {outcomes(service)}\n")
        assert outcomes(service)["met"], "no answers of two shards were ever of one version"


@pytest.fixture(scope="module")
def shared_database(postgres_server: EmbeddedPostgres) -> Iterator[Database]:
    with empty_database(postgres_server) as database:
        database.execute(
            "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
            "ALTER TABLE stories REPLICA IDENTITY FULL",
        )
        yield database


@pytest.fixture(scope="module")
def shared_service(shared_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    directory = tmp_path_factory.mktemp("shards")
    sections: dict[str, Any] = {**SHARDS, "adhoc": {"enabled": True}, "access_log": {"path": str(directory / "reads")}}
    views = {"story": STORY} | WHOLE
    with running_service(directory / "service", shared_database.url, views, cold=True, **sections) as running:
        until(lambda: all(view["status"] == "ready" for view in views_of(running)))
        yield running


@pytest.fixture
def stories(shared_database: Database) -> Database:
    """Forty stories."""
    shared_database.execute(
        "TRUNCATE stories", "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 40) i"
    )
    return shared_database


@pytest.fixture
def service(shared_service: RunningService, stories: Database) -> RunningService:
    """With those in it, and no key of a view in memory."""
    ((version,),) = stories.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": version, "Prefer": "wait=30"}
    until(lambda: all(shared_service.read(name, headers=headers).status_code == 200 for name in WHOLE), 90)
    shared_service.forget()
    return shared_service


def views_of(service: RunningService) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.call("GET", "/v1/catalog/views").json()["views"]
    return found


def shards_of(service: RunningService) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.stats()["shards"]
    return found


def counted(service: RunningService, counter: str) -> list[int]:
    """Return a counter of each shard."""
    return [shard["counters"][counter] for shard in shards_of(service)]


def has_titles(service: RunningService, stories: Database, title: str) -> None:
    """The first ten stories have this title by now."""
    ((version,),) = stories.query("SELECT pg_current_wal_insert_lsn()::text")
    for n in range(1, 11):
        answer = service.read("story", id=n, headers={"Upquery-Min-Version": version})
        assert answer.json()["rows"] == [{"id": n, "title": title}]


def outcomes(service: RunningService) -> Counter[str]:
    """How requests came to one version, at all workers."""
    workers = service.stats()["worker_processes"].values()
    return sum((Counter(worker["outcomes"]) for worker in workers), Counter())


def query(service: RunningService, keys: list[dict[str, Any]], **headers: str) -> httpx.Response:
    return HTTP.post(f"{service.http}/v1/views/story/query", json={"keys": keys}, headers=headers)


def test_keys_live_at_their_homes(service: RunningService) -> None:
    homes = Homes(2)
    ids = range(1, 41)
    before = service.view("story")["counters"]
    for _ in range(2):
        for number in ids:
            assert service.rows("story", id=number) == [{"id": number, "title": f"title {number}"}]
    expected = [sum(homes.of_key("story", key_part((str(n),))) == shard for n in ids) for shard in (0, 1)]
    assert all(expected)
    assert [shard["views"]["story"]["covered_keys"] for shard in shards_of(service)] == expected
    assert service.view("story")["counters"]["covered_keys"] == 40
    until(lambda: service.view("story")["counters"]["hits"] - before["hits"] == 40)
    assert service.view("story")["counters"]["misses"] - before["misses"] == 40
    metrics = service.call("GET", "/metrics").text
    for shard, keys in enumerate(expected):
        assert f'upquery_view_covered_keys{{shard="{shard}",view="story"}} {keys}.0' in metrics


def test_whole_views_are_kept_once(service: RunningService) -> None:
    assert {Homes(2).of_view(name) for name in WHOLE} == {0, 1}
    for name in WHOLE:
        first = service.read(name)
        assert first.json()["rows"] == [{"n": 40 + int(name[-1])}]
        assert "hit" in service.read(name).headers["cache-status"]
        kept = [shard["views"][name]["covered_keys"] for shard in shards_of(service)]
        assert sorted(kept) == [0, 1]
        assert kept[Homes(2).of_view(name)] == 1
        plan = service.call("GET", f"/v1/catalog/views/{name}/plan").json()
        assert plan["materialization"] == "full"
    document = HTTP.get(f"{service.http}/openapi.json").json()
    assert {f"/v1/views/{name}" for name in WHOLE} <= document["paths"].keys()


def test_batches_of_all_shards(service: RunningService, stories: Database) -> None:
    keys = [{"id": n} for n in (3, 1, 2, 99, 3, 7, 4)]
    rows = [[] if k["id"] == 99 else [{"id": k["id"], "title": f"title {k['id']}"}] for k in keys]
    cold, warm = query(service, keys), query(service, keys)
    for answer in (cold, warm):
        assert answer.status_code == 200, answer.text
        assert [result["rows"] for result in answer.json()["results"]] == rows
    assert "hit" in warm.headers["cache-status"]
    stories.execute("UPDATE stories SET title = 'new' WHERE id IN (1, 2, 3, 4)")
    ((version,),) = stories.query("SELECT pg_current_wal_insert_lsn()::text")
    reads: list[dict[str, Any]] = [{"view": "story", "params": {"id": n}} for n in (1, 2, 3, 4)]
    reads += [{"view": name} for name in WHOLE]
    answer = HTTP.post(f"{service.http}/v1/read", json={"reads": reads}, headers={"Upquery-Min-Version": version})
    assert answer.status_code == 200, answer.text
    found = [result["rows"][0] for result in answer.json()["results"]]
    assert found == [*({"id": n, "title": "new"} for n in (1, 2, 3, 4)), *({"n": 40 + n} for n in range(4))]
    wrong = query(service, [{"id": 1}, {"id": "x"}])
    assert (wrong.status_code, wrong.json()["code"]) == (422, "parameter_type")
    assert query(service, [{"id": 1}, {"nr": 1}]).json()["code"] == "parameter_unknown"


def test_views_are_put_at_all_shards_or_none(service: RunningService) -> None:
    sql = "SELECT title FROM stories WHERE id = :id"
    assert service.put("title", sql).status_code == 201
    assert service.put("title", sql).status_code == 200
    assert [service.rows("title", id=n) for n in range(1, 9)] == [[{"title": f"title {n}"}] for n in range(1, 9)]
    assert service.put("title", f"{sql} AND title > ''").status_code == 200
    assert service.rows("title", id=3) == [{"title": "title 3"}]
    assert service.put("wrong", "SELECT nothing FROM stories").status_code == 422
    assert service.put("everything", "SELECT count(*) AS n FROM stories WHERE id > 3").status_code in (201, 202)
    until(lambda: service.view("everything")["status"] == "ready")
    assert service.rows("everything") == [{"n": 37}]
    assert service.call("DELETE", "/v1/catalog/views/title").status_code == 204
    assert service.read("title", id=1).status_code == 404
    names = {view["name"] for view in views_of(service)}
    assert names == {"story", "everything", *WHOLE}
    os.kill(shards_of(service)[1]["pid"], signal.SIGKILL)
    refused = service.put("later", sql)
    assert refused.status_code in (201, 503)
    until(lambda: service.put("later", sql).status_code == 200, 60)
    assert [service.rows("later", id=n) for n in range(1, 5)] == [[{"title": f"title {n}"}] for n in range(1, 5)]
    assert all("later" in shard["views"] for shard in shards_of(service))


def test_a_shard_that_dies_leaves_the_others_serving(service: RunningService, stories: Database) -> None:
    homes = Homes(2)
    at: dict[int, list[int]] = {0: [], 1: []}
    for n in range(1, 41):
        at[homes.of_key("story", key_part((str(n),)))].append(n)
    warm, cold = at[1][0], at[1][1]
    service.rows("story", id=warm)
    victim = shards_of(service)[1]["pid"]
    os.kill(victim, signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)
    assert "hit" in service.read("story", id=warm).headers["cache-status"]
    for n in at[0]:
        assert service.rows("story", id=n) == [{"id": n, "title": f"title {n}"}]
    assert service.read("story", id=cold).status_code in (200, 503)
    stories.execute(f"UPDATE stories SET title = 'new' WHERE id = {warm}")
    ((version,),) = stories.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": version}
    until(lambda: service.read("story", id=warm, headers=headers).status_code == 200, 90)
    assert service.read("story", id=warm, headers=headers).json()["rows"] == [{"id": warm, "title": "new"}]
    assert service.rows("story", id=cold) == [{"id": cold, "title": f"title {cold}"}]
    metrics = service.call("GET", "/metrics").text
    assert re.search(r'upquery_process_restarts_total\{process="engine-1"\} [1-9]', metrics)
    assert 'upquery_process_restarts_total{process="engine-0"} 0.0' in metrics


def test_subscriptions_follow_the_home(service: RunningService, stories: Database) -> None:
    for n in (1, 2, 3, 4):
        path = f"{service.http}/v1/views/story/subscribe"
        with HTTP.stream("GET", path, params={"id": n}) as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("data: ")).startswith('data: {"rows":[{"id":')
            stories.execute(f"UPDATE stories SET title = 'followed' WHERE id = {n}")
            changed = next(line for line in lines if line.startswith("data: ") and "added" in line)
            assert '"title":"followed"' in changed


def test_queries_that_name_no_view(service: RunningService) -> None:
    for n in (1, 2, 3):
        sql = f"SELECT id, title FROM stories WHERE id = {n}"
        answer = HTTP.post(f"{service.http}/v1/query", json={"sql": sql})
        assert answer.status_code == 200, answer.text
        assert answer.headers["upquery-view"] == "story"
        assert answer.json()["rows"] == [{"id": n, "title": f"title {n}"}]
    answer = HTTP.post(f"{service.http}/v1/query", json={"sql": "SELECT max(id) AS last FROM stories"})
    assert answer.json()["rows"] == [{"last": 40}]


def test_evicting_at_all_shards(service: RunningService) -> None:
    before = service.view("story")["counters"]["covered_keys"]
    for n in range(11, 21):
        service.rows("story", id=n)
    body = {"view": "story", "keys": [{"id": "11"}, {"id": "12"}]}
    assert service.call("POST", "/v1/evict", json=body).json() == {"views": 1, "keys": 2}
    assert service.view("story")["counters"]["covered_keys"] == before + 8
    assert service.call("POST", "/v1/evict", json={"view": "story"}).json() == {"views": 1, "keys": before + 8}
    assert service.call("POST", "/v1/evict", json={"view": "none"}).status_code == 404
    assert service.call("GET", "/v1/graph", params={"shard": 1}).status_code == 200
    assert service.call("GET", "/v1/graph", params={"shard": 2}).status_code == 400
    for n in range(1, 9):
        service.rows("story", id=n)
    told = service.call("GET", "/v1/footprints").json()
    assert sorted(texts for texts, *_ in told["views"]["story"]["keys"]) == [[str(n)] for n in range(1, 9)]
    needed = [place for _, _, reads, _ in told["views"]["story"]["keys"] for place in reads]
    assert set(needed) <= set(range(len(told["inner"])))
    nodes = service.stats()["nodes"]
    assert {node["shard"] for node in nodes} == {0, 1}
    assert nodes[0]["id"] == shards_of(service)[0]["nodes"][0]["id"]


def test_one_stream_is_read(service: RunningService, stories: Database) -> None:
    assert stories.query(
        "SELECT count(*) FROM pg_replication_slots WHERE active AND database = current_database()"
    ) == [(1,)]
    for n in range(1, 11):
        service.rows("story", id=n)
    before = counted(service, "rows")
    stories.execute("UPDATE stories SET title = 'new' WHERE id < 11")
    has_titles(service, stories, "new")
    until(lambda: [rows - b for rows, b in zip(counted(service, "rows"), before, strict=True)] == [20, 20])


def test_an_altered_table(service: RunningService, stories: Database) -> None:
    """The shards look at it anew at different times, and share what is decoded again."""
    service.rows("story", id=1)
    stories.execute("ALTER TABLE stories ALTER title TYPE varchar(99)", "UPDATE stories SET title = 'x' WHERE id = 1")
    # They break, and are mended, each at its time: then there is an answer of each.
    ((version,),) = stories.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": version}
    until(lambda: all(service.read("story", id=n, headers=headers).status_code == 200 for n in range(1, 11)), 60)
    assert service.rows("story", id=1) == [{"id": 1, "title": "x"}]
    stories.execute("UPDATE stories SET title = 'y'")
    has_titles(service, stories, "y")


def test_nothing_is_left(service: RunningService) -> None:
    children = processes_of(service.pid)
    assert len(children) == 5
    service.stop(signal.SIGKILL)
    until(lambda: not any(map(alive, children)))
    assert not any((path / "0").exists() for path in service.run.iterdir())
