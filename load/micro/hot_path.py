"""Cost of a hit next to an empty response: one worker's hot route against an ASGI application that only sends.

Both run on the same server, one after the other on the same core, in rounds; the empty response has the hit's headers
and length. What sampling the keys costs of that is measured by itself. Needs wrk.
``python -m load.micro.hot_path [--keys 10000] [--seconds 3] [--rounds 3]`` prints one JSON line. With ``--access-log
jsonl`` a third server is measured, whose hits are in the access log; so is one with ``--traces 0.01``.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

Send = Callable[[dict[str, Any]], Awaitable[None]]
_LUA = (
    'local n = {keys}\nrequest = function() return wrk.format("GET", "/v1/views/story?id=" .. math.random(1, n)) end\n'
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--access-log", choices=("jsonl", "parquet"))
    parser.add_argument("--traces", type=float, help="the share of requests that is traced")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: apt-get install wrk")
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as directory:
        print(json.dumps(_measure(Path(directory), arguments)))  # noqa: T201 - the result


def _measure(directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    store = directory / "leaf"
    spawn = multiprocessing.get_context("spawn")
    filler = spawn.Process(target=_fill, args=(store, arguments.keys))
    filler.start()
    filler.join()
    hit_port, hit = _start(spawn, _serve_hit, store)
    sample = urllib.request.urlopen(f"http://127.0.0.1:{hit_port}/v1/views/story?id=7")
    empty_port, empty = _start(spawn, _serve_empty, (sample.headers.items(), len(sample.read())))
    servers = {"empty": (empty_port, empty), "hit": (hit_port, hit)}
    if arguments.access_log is not None or arguments.traces is not None:
        more = (store, directory / "log", arguments.access_log, arguments.traces)
        servers["observed"] = _start(spawn, _serve_observed, more)
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    script = directory / "load.lua"
    script.write_text(_LUA.replace("{keys}", str(arguments.keys)))
    try:
        for _ in range(arguments.rounds):
            for name, (port, server) in servers.items():
                rounds[name].append(_load(port, server.pid or 0, script, arguments))
    finally:
        for _, server in servers.values():
            server.terminate()
            server.join()
    summary = _summary(rounds)
    sampling_us = min(_sampling_us(arguments.keys) for _ in range(5))
    logging = {}
    if arguments.access_log is not None:
        logging["logging_us"] = round(asyncio.run(_logging_us(store, directory, arguments)), 3)
        logging["logging_share"] = round(logging["logging_us"] / summary["hit_cpu_us"], 4)
    return {
        **summary,
        **logging,
        "sampling_us": round(sampling_us, 3),
        "sampling_share": round(sampling_us / summary["hit_cpu_us"], 4),
    }


def _sampling_us(keys: int) -> float:
    """CPU microseconds a hit for counting which keys are read, with a report of them every 20,000 hits."""
    from random import Random

    from service.leaf_store.layout import key_in, view_of
    from service.worker.reads.touches import Touches

    random, touches = Random(7), Touches()
    names = [b"v\0\0\0\1\0%d\0" % random.randint(1, keys) for _ in range(20_000)]
    spent = 0
    for _ in range(5):
        # As a request makes them: objects of their own.
        read = [bytes(bytearray(name)) for name in names]
        started = time.process_time_ns()
        for name in read:
            touches.note(name)
        json.dumps([(view_of(name), key_in(name), times) for name, times in touches.take() if isinstance(name, bytes)])
        spent += time.process_time_ns() - started
    return spent / (5 * len(names)) / 1000


async def _logging_us(store: Path, directory: Path, arguments: argparse.Namespace) -> float:
    """CPU microseconds a hit for putting it into the access log, and writing it; its key was seen before."""
    from random import Random

    from service.leaf_store.reader import LeafReader
    from service.protocol.engine_client import EngineClient
    from service.settings.sections import HttpSettings
    from service.settings.telemetry import AccessLogSettings
    from service.worker.access_log.keys import KeyTexts
    from service.worker.access_log.log import AccessLog
    from service.worker.routes.app import build_app

    app = build_app(LeafReader.open(store), EngineClient(store / "no-engine"), HttpSettings())
    app.reads.refresh()
    settings = AccessLogSettings(path=directory / "alone", format=arguments.access_log, rotate_s=0.001)
    log = AccessLog(settings, app.reads, KeyTexts(None), 0)
    random = Random(7)
    queries = [b"id=%d" % random.randint(1, arguments.keys) for _ in range(20_000)]
    spent = []
    for _ in range(6):
        started = time.process_time_ns()
        for query in queries:
            log.hit(time.time_ns(), 1000, b"/v1/views/story", query, 200, 80)
        # The file is finished, too.
        await log.write()
        spent.append((time.process_time_ns() - started) / len(queries) / 1000)
    return min(spent)


def _summary(rounds: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    best_cpu = {name: min(cpu for _, cpu in values) for name, values in rounds.items()}
    pairs = list(zip(rounds["hit"], rounds["empty"], strict=True))
    observed = {}
    if "observed" in rounds:
        both = list(zip(rounds["observed"], rounds["hit"], strict=True))
        observed = {
            "observed_cpu_us": round(median(cpu for _, cpu in rounds["observed"]), 1),
            "ratio_cpu_observed": round(median(more[1] / hit[1] for more, hit in both), 3),
            "ratio_cpu_observed_best": round(best_cpu["observed"] / best_cpu["hit"], 3),
        }
    return {
        **observed,
        "hit_per_s": round(median(rate for rate, _ in rounds["hit"])),
        "empty_per_s": round(median(rate for rate, _ in rounds["empty"])),
        "hit_cpu_us": round(median(cpu for _, cpu in rounds["hit"]), 1),
        "empty_cpu_us": round(median(cpu for _, cpu in rounds["empty"]), 1),
        "ratio_throughput": round(median(hit[0] / empty[0] for hit, empty in pairs), 3),
        "ratio_cpu": round(median(empty[1] / hit[1] for hit, empty in pairs), 3),
        # The least disturbed round of each: what counts on a machine that does other work.
        "ratio_cpu_best": round(best_cpu["empty"] / best_cpu["hit"], 3),
    }


def _load(port: int, pid: int, script: Path, arguments: argparse.Namespace) -> tuple[float, float]:
    """Requests per second, and the server's CPU microseconds per request."""
    command = ["wrk", "-t1", f"-c{arguments.connections}", f"-d{arguments.seconds}s", "-s", str(script)]
    before = _cpu_s(pid)
    output = subprocess.run(
        [*_on_core(1), *command, f"http://127.0.0.1:{port}"], check=True, capture_output=True, text=True
    ).stdout
    used = _cpu_s(pid) - before
    if "Non-2xx" in output:
        raise SystemExit(output)
    requests = int(re.findall(r"(\d+) requests in", output)[0])
    return float(re.findall(r"Requests/sec:\s*([\d.]+)", output)[0]), used / requests * 1e6


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _on_core(core: int) -> list[str]:
    return ["taskset", "-c", str(core)] if shutil.which("taskset") and (os.cpu_count() or 1) > core else []


def _start(spawn: Any, target: Callable[..., None], argument: Any) -> tuple[int, Any]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    ready, started = spawn.Pipe(duplex=False)
    process = spawn.Process(target=target, args=(argument, listener, started))
    process.start()
    listener.close()
    return ready.recv(), process


def _fill(store: Path, keys: int) -> None:
    """The story-with-votes view, as the engine fills it: one row a key."""
    from dataflow.engine.effects import LeafFill
    from dataflow.plan.nodes import Chain, OutputColumn, Parameter, View
    from dataflow.scalar import ColumnRef
    from dataflow.schema import SqlType
    from dataflow.types import ViewId
    from service.leaf_store.writer import LeafWriter

    int8, text = SqlType("int8", "int8"), SqlType("text", "text")
    names = {"id": int8, "title": text, "author": text, "votes": int8}
    chain = Chain("public.stories", None, tuple(ColumnRef(i, kind) for i, kind in enumerate(names.values())))
    output = tuple(OutputColumn(name, i) for i, name in enumerate(names))
    writer = LeafWriter(store)
    writer.register(ViewId(1), View("story", "", chain, (Parameter("id", 0),), output), status="ready")
    rows = [
        (str(i), f"What nobody tells you about story {i}", f"author{i % 997}", str(i % 4000)) for i in range(keys + 1)
    ]
    writer.commit([LeafFill(ViewId(1), (row[0],), [row]) for row in rows], 0x16B3748, time.time_ns() // 1_000_000)
    writer.close()


def _run(app: Any, listener: socket.socket, started: Connection) -> None:
    from service.worker.process import server_of

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    gc.collect()
    gc.freeze()
    started.send(listener.getsockname()[1])
    server_of(app, 1.0).run(sockets=[listener])


def _serve_hit(store: Path, listener: socket.socket, started: Connection) -> None:

    from service.leaf_store.reader import LeafReader
    from service.protocol.engine_client import EngineClient
    from service.protocol.worker_config import WorkerConfig
    from service.settings.sections import HttpSettings
    from service.worker.process import wrapped
    from service.worker.routes.app import build_app

    http = HttpSettings()
    app = build_app(LeafReader.open(store), EngineClient(store / "no-engine"), http)
    _run(wrapped(app, WorkerConfig(0, store, store / "no-engine", http)), listener, started)


def _serve_observed(
    more: tuple[Path, Path, str | None, float | None], listener: socket.socket, started: Connection
) -> None:
    """Serves as a worker with an access log, or traces, does."""
    from service.protocol.worker_config import WorkerConfig
    from service.settings.telemetry import AccessLogSettings, TraceSettings
    from service.worker.process import run_worker

    store, log, form, share = more
    access_log = None if form is None else AccessLogSettings(path=log, format=form)  # type: ignore[arg-type]
    traces = None if share is None else TraceSettings(sample_rate=share)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    started.send(listener.getsockname()[1])
    run_worker(WorkerConfig(0, store, store / "no-engine", access_log=access_log, traces=traces), listener)


def _serve_empty(like: tuple[list[tuple[str, str]], int], listener: socket.socket, started: Connection) -> None:
    names, length = like
    headers = [(name.encode(), value.encode()) for name, value in names if name not in ("date", "connection")]
    body = b"x" * length

    async def app(_scope: dict[str, Any], _receive: object, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    _run(app, listener, started)


if __name__ == "__main__":
    main()
