"""Headers of a running service's answers: the same tag from every worker, after a refill and after a restart; the
source; no view is missing while the service begins anew."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import LIMIT_S, RunningService, processes_of, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {
    "story": "SELECT id, title, author FROM stories WHERE id = :id",
    "by_author": "SELECT id, title FROM stories WHERE author = :author ORDER BY id DESC",
    "latest": "SELECT id, title FROM stories WHERE author = :author ORDER BY id DESC LIMIT 3",
    "how_many": "SELECT author, count(*) AS n FROM stories WHERE author = :author GROUP BY author",
    "all_of_them": "SELECT author, count(*) AS n FROM stories GROUP BY author",
    "matching": "SELECT id, title FROM stories WHERE title ~ :pattern ORDER BY id",
}
#: Reads, of every way in which answers are kept.
READS = [
    "story?id=7",
    "story?id=99",
    "by_author?author=author+1",
    "by_author?author=author+1&limit=2",
    "latest?author=author+1",
    "how_many?author=author+2",
    "how_many?author=nobody",
    "all_of_them",
    "matching?pattern=title+1",
]


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL, author text)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i, 'author ' || i % 3 FROM generate_series(1, 30) i",
    )
    with running_service(
        tmp_path / "service", database.url, VIEWS, http={"port": 0, "admin_port": 0, "workers": 2}
    ) as s:
        yield s


def workers_of(service: RunningService, engine: int) -> list[int]:
    """The processes that answer reads."""
    return [pid for pid in processes_of(service.pid) if pid != engine]


def tags(service: RunningService) -> list[str]:
    """The tags of all reads, each asked for until it is there."""
    found = []
    for read in READS:
        answer = until(lambda read=read: answered(service, read))
        found.append(answer.headers["etag"])
        assert answer.headers["etag"].startswith('W/"')
    return found


def answered(service: RunningService, read: str, **headers: str) -> httpx.Response | None:
    """The answer, if there is one: a full view is built first."""
    answer = httpx.get(f"{service.http}/v1/views/{read}", headers=headers, timeout=LIMIT_S)
    return answer if answer.status_code in (200, 304) else None


def test_the_same_answer_has_the_same_tag_everywhere_and_always(service: RunningService, database: Database) -> None:
    first = tags(service)
    # One worker answers while the other is stopped.
    workers = workers_of(service, service.stats()["pid"])
    assert len(workers) == 2
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
        try:
            assert tags(service) == first
        finally:
            os.kill(worker, signal.SIGCONT)
    for view in VIEWS:
        assert service.call("POST", "/v1/evict", json={"view": view}).status_code == 200
    assert "fwd=miss; stored" in service.read("story", id=7).headers["cache-status"]
    assert tags(service) == first
    # Changed, and changed back.
    database.execute("UPDATE stories SET title = 'other'", "UPDATE stories SET title = 'title ' || id")
    assert current_tags(service, database) == first
    service.stop()
    service.start()
    assert tags(service) == first
    for read, tag in zip(READS, first, strict=True):
        unchanged = answered(service, read, **{"If-None-Match": tag})
        assert unchanged is not None
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["upquery-version"]
    database.execute("UPDATE stories SET title = 'other', author = 'author 1' WHERE id = 7")
    changed = current_tags(service, database)
    different = [read for read, old, new in zip(READS, first, changed, strict=True) if old != new]
    assert different == ["story?id=7", "by_author?author=author+1"]


def current_tags(service: RunningService, database: Database) -> list[str]:
    """Return `tags` of answers that include everything committed."""
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": position, "Prefer": "wait=25"}
    return [until(lambda read=read: answered(service, read, **headers)).headers["etag"] for read in READS]


def test_no_view_is_missing_while_the_engine_or_a_worker_begins_anew(service: RunningService) -> None:
    """Readers go on asking while the engine is killed, twice, and while all of the service begins anew."""
    tags(service)

    async def ask(stop: asyncio.Event) -> set[int]:
        seen = set()
        while not stop.is_set():
            async with httpx.AsyncClient(timeout=LIMIT_S) as http:
                for read in READS[:2]:
                    try:
                        answer = await http.get(f"{service.http}/v1/views/{read}")
                    except httpx.TransportError:
                        # Of the worker that was killed.
                        continue
                    seen.add(answer.status_code)
                    assert answer.status_code in (200, 503), answer.text
        return seen

    async def main() -> set[int]:
        stop = asyncio.Event()
        asking = [asyncio.create_task(ask(stop)) for _ in range(2)]
        for _ in range(2):
            engine = service.stats()["pid"]
            # A worker that begins anew as well knows nothing.
            for process in (engine, workers_of(service, engine)[0]):
                os.kill(process, signal.SIGKILL)
            await asyncio.to_thread(until, lambda old=engine: pid_of_engine(service) not in (None, old))
        stop.set()
        return set().union(*await asyncio.gather(*asking))

    assert 200 in asyncio.run(main())


def pid_of_engine(service: RunningService) -> int | None:
    """None while there is none."""
    answer = service.call("GET", "/v1/stats")
    pid: int | None = answer.json()["pid"] if answer.status_code == 200 else None
    return pid


def test_large_answers_are_compressed_for_who_takes_it(service: RunningService, database: Database) -> None:
    database.execute("UPDATE stories SET title = repeat('long ', 1000) || id")
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": position, "Prefer": "wait=25"}
    plain = service.read("by_author", {"Accept-Encoding": "identity", **headers}, author="author 1")
    packed = service.read("by_author", {"Accept-Encoding": "gzip"}, author="author 1")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json()["rows"] == plain.json()["rows"]
    assert packed.headers["etag"] == plain.headers["etag"]
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) < len(plain.content) / 5
