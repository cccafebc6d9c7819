"""A worker as a process of its own, over HTTP."""

import asyncio
import multiprocessing
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

from dataflow.engine.effects import LeafFill
from service.leaf_store.writer import LeafWriter
from service.protocol.counters import ReadCounters
from service.protocol.engine_server import EngineServer
from service.settings.sections import HttpSettings
from service.settings.telemetry import AccessLogSettings
from service.worker.process import WorkerConfig, run_worker
from tests.service.worker.conftest import ROWS, STORY_ID, Engine, register_all


def test_worker_waits_for_the_store_serves_and_stops(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    listener = socket.create_server(("127.0.0.1", 0))
    log = AccessLogSettings(path=tmp_path / "reads")
    config = WorkerConfig(
        3, tmp_path / "leaf", tmp_path / "engine.sock", HttpSettings(read_timeout_s=10), access_log=log
    )
    worker = spawn.Process(target=run_worker, args=(config, listener))
    worker.start()
    try:
        asyncio.run(serve_and_read(config, listener.getsockname()[1]))
    finally:
        os.kill(worker.pid or 0, signal.SIGTERM)
        worker.join(20)
        listener.close()
    # It ended by itself, after it had written what it had: the log's file is finished.
    assert worker.exitcode == 0
    (file,) = log.path.iterdir()
    assert file.name.startswith("access-3-")
    assert len(file.read_text().splitlines()) == 2


async def serve_and_read(config: WorkerConfig, port: int) -> None:
    writer = LeafWriter(config.leaf_path, map_bytes=1 << 22)
    engine = Engine(writer, dict(ROWS))
    register_all(writer)
    engine.commit(LeafFill(STORY_ID, ("7",), ROWS["story", ("7",)]))
    server = EngineServer(config.engine_socket, engine)
    await server.start()
    for path, status, cache in (("story?id=7", 200, "hit"), ("story?id=8", 200, "fwd=miss; stored"), ("no", 404, None)):
        answer = await asyncio.to_thread(get, f"http://127.0.0.1:{port}/v1/views/{path}")
        assert answer == (status, cache and f"upquery; {cache}")
    async with asyncio.timeout(20):
        while not engine.reports or engine.reports[-1].reads.get("story") != ReadCounters(hits=1, misses=1):
            await asyncio.sleep(0)
    assert engine.reports[-1].worker == config.number
    assert [touch for report in engine.reports for touch in report.touches] == [(STORY_ID, ("7",), 1)]
    await server.close()
    writer.close()


def get(url: str) -> tuple[int, str | None]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.headers["cache-status"]
    except urllib.error.HTTPError as error:
        return error.code, error.headers["cache-status"]
