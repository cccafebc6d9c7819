"""Reads of every kind have their lines, each with the key, how it was answered, and the size of its rows."""

import asyncio
import errno
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from dataflow.types import ViewId
from service.leaf_store.catalog import NamedType, ParameterInfo, ParameterRole, ViewInfo
from service.settings.sections import HttpSettings
from service.settings.telemetry import AccessLogSettings
from service.web.messages import Receive, Reply, Scope, Send
from service.web.principal import SCOPE_KEY, Principal, Right
from service.worker.access_log.files import JsonLines, Line
from service.worker.access_log.keys import KeyTexts, claims_key
from service.worker.access_log.keys import LoggedKey as KeysLogged
from service.worker.access_log.log import AccessLog
from service.worker.access_log.logged_app import LoggedApp
from service.worker.reads.notes import Outcome
from service.worker.routes.app import build_app
from tests.service.leaf_store.sample_views import INT8, TEXT, make_view
from tests.service.worker.conftest import Service, running
from tests.service.worker.test_direct_protocol import Client, serving

LIMITS = HttpSettings(read_timeout_s=5.0, max_body_bytes=1 << 16, max_keys=100)
Read = dict[str, Any]


def settings_of(directory: Path, **more: Any) -> AccessLogSettings:
    return AccessLogSettings(path=directory / "log", **more)


@asynccontextmanager
async def logging(directory: Path, **more: Any) -> AsyncIterator[tuple[Service, LoggedApp]]:
    settings = settings_of(directory, **more)
    share = settings.sample_rate if settings.sample == "keys" else 1.0
    async with running(directory, LIMITS) as service:
        app = build_app(service.engine.writer.reader, service.client, LIMITS)
        logged = LoggedApp(app, AccessLog(settings, app.reads, KeyTexts(b"k" * 32, share), 3))
        yield service, logged
        await logged.log.close()


def lines_of(directory: Path) -> list[Read]:
    """Return the reads in finished files, in order."""
    found = []
    for path in sorted((directory / "log").iterdir()):
        assert path.name.startswith("access-3-"), path
        if path.suffix == ".parquet":
            found += pq.read_table(path).to_pylist()
        else:
            found += [json.loads(line) for line in path.read_text().splitlines()]
    return found


def short(line: Read) -> tuple[Any, ...]:
    return line["view"], line["key"], line["outcome"], line["rows_bytes"], line["status"], line["reads"]


def post(path: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {len(content)}"
    return head.encode() + b"\r\n\r\n" + content


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: test", *headers, "", ""]).encode()


STORY = "/v1/views/story"


async def all_kinds(client: Client) -> list[tuple[Any, ...]]:
    """Reads of every kind; what their lines are."""

    async def ask(request: bytes, *expected: tuple[Any, ...]) -> None:
        client.writer.write(request)
        status, headers, body = await client.answer()
        seen["tag"] = headers.get("etag", "")
        size = len(json.dumps(json.loads(body).get("rows", ""), separators=(",", ":"))) if status == 200 else None
        lines.extend([(*line[:3], size if line[3] == "size" else line[3], *line[4:]) for line in expected])

    lines: list[tuple[Any, ...]] = []
    seen: dict[str, str] = {}
    await ask(get(f"{STORY}?id=7"), ("story", ["7"], "miss", "size", 200, 1))
    await ask(get(f"{STORY}?id=7"), ("story", ["7"], "hit", "size", 200, 1))
    await ask(get(f"{STORY}?id=07"), ("story", ["7"], "hit", "size", 200, 1))
    await ask(get(f"{STORY}?id=07"), ("story", ["7"], "hit", "size", 200, 1))
    await ask(get(f"{STORY}?id=7", f"if-none-match: {seen['tag']}"), ("story", ["7"], "hit", None, 304, 1))
    one = len('[{"id":7,"title":"Seven","author":"ann","votes":3}]')
    two = len('[{"id":8,"title":"Eight","author":"bob","votes":5}]')
    keys = {"keys": [{"id": 7}, {"id": 8}]}
    await ask(post(f"{STORY}/query", keys), ("story", ["7"], "hit", one, 200, 2), ("story", ["8"], "miss", two, 200, 2))
    await ask(post(f"{STORY}/query", keys), ("story", ["7"], "hit", one, 200, 2), ("story", ["8"], "hit", two, 200, 2))
    reads = {"reads": [{"view": "story", "params": {"id": 8}}, {"view": "story", "params": {"id": None}}]}
    await ask(post("/v1/read", reads), ("story", ["8"], "hit", two, 200, 2), ("story", [None], "hit", 2, 200, 2))
    await ask(
        get("/v1/views/of_authors?authors=bob&authors=ann"), ("of_authors", ['["ann","bob"]'], "miss", "size", 200, 1)
    )
    await ask(get("/v1/views/stories_of?author=ann&limit=2"), ("stories_of", ["ann"], "miss", "size", 200, 1))
    await ask(get("/v1/views/stale?id=7"), ("stale", ["7"], "miss", "size", 200, 1))
    # These read nothing.
    await ask(get(f"{STORY}?id=x"))
    await ask(get("/v1/views/nothing?id=7"))
    await ask(get("/openapi.json"))
    client.engine.failure = RuntimeError("a bug")
    await ask(get(f"{STORY}?id=9"), ("story", ["9"], "failed", None, 500, 1))
    return lines


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_every_read_has_its_line(tmp_path: Path, form: str) -> None:
    expected: list[tuple[Any, ...]] = []

    async def main() -> None:
        async with logging(tmp_path, format=form) as (service, logged), serving(service, logged) as client:
            expected.extend(await all_kinds(client))

    asyncio.run(main())
    lines = lines_of(tmp_path)
    assert [short(line) for line in lines] == expected
    for line in lines:
        assert (line["worker"], line["sample_rate"]) == (3, 1.0)
        assert 0 < line["duration_us"] < 60_000_000
        assert line["time_us"] > 1_700_000_000_000_000
    # Which parameters make the key that is kept: a limit does not; of a list, each value is one.
    kept = {line["view"]: (line["kept"], line["lists"]) for line in lines}
    assert kept == {"story": ([0], []), "of_authors": ([0], [0]), "stories_of": ([0], []), "stale": ([0], [])}


class Answering:
    """A hit for whoever asks."""

    def reads_body(self, scope: Scope) -> bool:  # noqa: ARG002
        return False

    def answer(self, scope: Scope, body: bytes | None) -> Reply | None:  # noqa: ARG002
        return Reply(200, [], b'{"rows":[],"version":"pg:0/1","next":null}')

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


def hits(logged: LoggedApp, keys: range) -> None:
    wrapper = LoggedApp(Answering(), logged.log)
    for key in keys:
        scope = {"raw_path": STORY.encode(), "query_string": b"id=%d" % key, "type": "http", "method": "GET"}
        wrapper.answer(scope, None)


def logged_keys(directory: Path, hit: Callable[[LoggedApp], None], **more: Any) -> tuple[list[str], AccessLog]:
    """The keys in the log."""
    logs = []

    async def main() -> None:
        async with logging(directory, **more) as (service, logged):
            app = httpx.ASGITransport(logged)
            async with httpx.AsyncClient(transport=app, base_url="http://test") as http:
                # The catalog is known.
                await http.get("/v1/views/nothing")
            assert service.engine.reads == []
            hit(logged)
            logs.append(logged.log)

    asyncio.run(main())
    return [line["key"][0] for line in lines_of(directory)], logs[0]


def test_what_there_is_no_room_for_is_counted(tmp_path: Path) -> None:
    keys, log = logged_keys(tmp_path, lambda logged: hits(logged, range(150)), buffer_reads=100)
    assert keys == [str(n) for n in range(100)]
    assert (log.lines, log.dropped) == (100, 50)


def test_a_sample_of_keys_has_all_of_a_keys_reads_or_none(tmp_path: Path) -> None:
    def twice(logged: LoggedApp) -> None:
        hits(logged, range(1000))
        hits(logged, range(1000))

    keys, log = logged_keys(tmp_path, twice, sample_rate=0.2)
    assert {keys.count(key) for key in keys} == {2}
    assert 140 <= len(set(keys)) <= 260
    assert log.dropped == 0


def test_a_sample_of_reads_falls_anywhere(tmp_path: Path) -> None:
    keys, _ = logged_keys(tmp_path, lambda logged: hits(logged, range(2000)), sample_rate=0.2, sample="reads")
    assert 280 <= len(keys) <= 520


def test_files_are_finished_when_they_are_large_and_the_oldest_go(tmp_path: Path) -> None:
    settings = {"rotate_bytes": 2000, "keep_files": 2}

    async def main() -> None:
        async with logging(tmp_path, **settings) as (_, logged):
            logged.log._reads.refresh()
            for n in range(5):
                hits(logged, range(100 * n, 100 * n + 20))
                await logged.log.write()

    asyncio.run(main())
    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert len(names) == 2
    assert [line["key"] for line in lines_of(tmp_path)] == [[str(n)] for n in [*range(300, 320), *range(400, 420)]]


def test_what_a_dead_worker_left_is_finished(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    for name in ("_access-3-a.jsonl", "_access-3-a.parquet", "_access-30-a.jsonl"):
        (folder / name).write_text("")

    async def main() -> None:
        async with logging(tmp_path) as (_, logged):
            await asyncio.to_thread(logged.log._files.finish_left)

    asyncio.run(main())
    assert sorted(path.name for path in folder.iterdir()) == ["_access-30-a.jsonl", "access-3-a.jsonl"]


def test_a_log_that_cannot_be_written_stops_no_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file, where a folder should be")

    async def main() -> None:
        async with logging(tmp_path) as (_, logged):
            logged.log._reads.refresh()
            hits(logged, range(3))
            await logged.log.close()
            assert (logged.log.lines, logged.log.dropped) == (0, 3)

    asyncio.run(main())


class FullDisk(io.FileIO):
    """A file that takes ten bytes more, some at a time."""

    room = 10

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(data[: min(7, self.room)])
        self.room -= written
        return written


def test_a_line_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    line = Line(1, KeysLogged("story", ["7"], b'"view":"story","key":["7"]'), Outcome.HIT, 2, 3, 200, 1)
    file = JsonLines(tmp_path / "a", b"}\n")
    file.write([line])
    size = (tmp_path / "a").stat().st_size
    file._file.close()
    disk = FullDisk(tmp_path / "a", "r+")
    disk.seek(size)
    file._file = disk
    with pytest.raises(OSError, match="No space"):
        file.write([line])
    assert (tmp_path / "a").stat().st_size == file.size_bytes == size
    disk.room = 1 << 20
    file.write([line])
    file.close()
    assert (tmp_path / "a").read_bytes().count(b"\n") == 2


def test_it_writes_until_it_is_told_to_stop(tmp_path: Path) -> None:
    async def main() -> None:
        async with logging(tmp_path) as (_, logged):
            running = asyncio.create_task(logged.log.run())
            logged.log._reads.refresh()
            hits(logged, range(3))
            while not logged.log.lines:
                await asyncio.sleep(0.01)
            hits(logged, range(3, 5))
            logged.log.stop()
            await running
            assert logged.log.lines == 5

    asyncio.run(main())
    assert [line["key"] for line in lines_of(tmp_path)] == [[str(n)] for n in range(5)]


def test_whose_rows_were_read_is_not_said(tmp_path: Path) -> None:
    mine = make_view("mine", {"claims.sub": 2, "id": 0})

    async def main() -> None:
        async with logging(tmp_path) as (service, logged):
            service.engine.writer.register(ViewId(99), mine, status="ready")
            service.engine.rows["mine", ("ann-the-owner", "7")] = [("7", "Seven", "ann-the-owner", "3")]
            service.engine.commit()

            async def asked_by_ann(scope: Scope, receive: Receive, send: Send) -> None:
                reads = frozenset({Right.READ})
                scope[SCOPE_KEY] = Principal("token-of-ann", reads, claims={"sub": "ann-the-owner"})
                await logged(scope, receive, send)

            transport = httpx.ASGITransport(asked_by_ann)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                for _ in range(2):
                    assert (await http.get("/v1/views/mine?id=7")).json()["rows"] != []
                body = {"keys": [{"id": 7}]}
                (await http.post("/v1/views/mine/query", json=body)).raise_for_status()

    asyncio.run(main())
    lines = lines_of(tmp_path)
    assert [line["outcome"] for line in lines] == ["miss", "hit", "hit"]
    assert {line["key"][1] for line in lines} == {"7"}
    assert {line["key"][0] for line in lines} == {lines[0]["key"][0]}
    assert "ann" not in str(lines)


def test_claims_are_hashed_or_left_out(tmp_path: Path) -> None:
    parameters = (ParameterInfo("claims.sub", TEXT), ParameterInfo("ids", INT8, ParameterRole.LIST))
    info = ViewInfo(ViewId(1), "mine", "", parameters, (NamedType("id", INT8),), False, None, 0, None, "ready")
    key = claims_key(tmp_path / "state")
    assert key == claims_key(tmp_path / "state")
    assert (tmp_path / "state" / "access_log.key").stat().st_mode & 0o777 == 0o600
    logged = [KeyTexts(key).of(info, (who, ("7",))) for who in ("ann", "bob", "ann")]
    assert all(one is not None and b"ann" not in one.json and one.key[1] == '["7"]' for one in logged)
    assert len({one.key[0] for one in logged if one is not None}) == 2
    hidden = KeyTexts(None).of(info, ("ann", ("7",)))
    assert hidden is not None
    assert hidden.key == [None, '["7"]']
    other = KeyTexts(b"x" * 32).of(info, ("ann", ("7",)))
    assert other is not None
    assert logged[0] is not None
    assert other.key != logged[0].key
