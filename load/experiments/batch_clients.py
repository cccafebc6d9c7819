"""Clients of the batch experiment: closed-loop requests with many keys, in processes of their own on one core.

Each side is read at two levels: the cheapest that Python has (a socket, httptools and orjson; a connection of redis-py
with hiredis, without its pool and retries), and what is in everybody's hands (the standard library's HTTP client;
redis-py's ``mget``). All do the same: write a request with other keys than the last, take the answer, and if it is to
be used make Python objects of it. One process waits for each answer; several keep the server busy.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from load.driver.connection import Broken, SingleConnection
from load.driver.visit import read_keys
from load.workloads.vote import VIEW

#: Different batches that a client asks for in turns.
_BATCHES = 200
_TIMEOUT_S = 60.0


class BatchClient(Protocol):
    def ask(self, ids: Sequence[int]) -> Any:
        """Read these stories; the answer as it comes."""
        ...

    def rows(self, answer: Any) -> list[Any]:
        """The rows of each key, as Python objects."""
        ...


class _Service:
    def rows(self, answer: Any) -> list[Any]:
        return [result["rows"] for result in orjson.loads(answer)["results"]]


class ServiceSocket(_Service):
    def __init__(self, url: str) -> None:
        self._connection = SingleConnection(url, url)

    def ask(self, ids: Sequence[int]) -> Any:
        reply = self._connection.ask(read_keys(VIEW, [{"id": story} for story in ids]))
        if reply.status != 200:
            raise Broken(f"{reply.status} {reply.body[:200]!r}")
        return reply.body


class ServiceLibrary(_Service):
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)

    def ask(self, ids: Sequence[int]) -> Any:
        body = orjson.dumps({"keys": [{"id": story} for story in ids]})
        self._connection.request("POST", f"/v1/views/{VIEW}/query", body, {"content-type": "application/json"})
        reply = self._connection.getresponse()
        answer = reply.read()
        if reply.status != 200:
            raise Broken(f"{reply.status} {answer[:200]!r}")
        return answer


class _Redis:
    """Base of clients of a Redis that has the same rows under ``story:ID``."""

    def rows(self, answer: Any) -> list[Any]:
        return [orjson.loads(value) for value in answer]


class RedisConnection(_Redis):
    def __init__(self, address: tuple[str, int]) -> None:
        from redis.connection import Connection

        self._connection = Connection(host=address[0], port=address[1])

    def ask(self, ids: Sequence[int]) -> Any:
        self._connection.send_command("MGET", *[f"story:{story}" for story in ids])
        return self._connection.read_response()


class RedisLibrary(_Redis):
    def __init__(self, address: tuple[str, int]) -> None:
        from redis import Redis

        self._client = Redis(host=address[0], port=address[1])

    def ask(self, ids: Sequence[int]) -> Any:
        return self._client.mget([f"story:{story}" for story in ids])


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Task of a client process. `used`: answers are decoded into Python objects."""

    stories: int
    keys: int
    processes: int
    used: bool
    seconds: float
    core: int | None


@dataclass(frozen=True, slots=True)
class BatchRate:
    keys_per_s: float
    #: CPU time of the clients a key.
    client_cpu_us: float
    keys: int


#: Makes a client, in its process.
Connect = Callable[[], BatchClient]


def measure(connect: Connect, run: BatchRun) -> BatchRate:
    """Run clients until the time is over. Raises OSError if one fails."""
    spawn = multiprocessing.get_context("spawn")
    clients: list[tuple[BaseProcess, Any]] = []
    try:
        for number in range(run.processes):
            ours, theirs = spawn.Pipe()
            process: BaseProcess = spawn.Process(target=_client, args=(connect, run, number, theirs), daemon=True)
            process.start()
            theirs.close()
            clients.append((process, ours))
        for _, pipe in clients:
            _told(pipe)
        for _, pipe in clients:
            pipe.send(True)
        done = [_told(pipe, run.seconds) for _, pipe in clients]
    finally:
        for process, _ in clients:
            process.terminate()
            process.join()
    keys = sum(keys for keys, _, _ in done)
    rate = sum(keys / seconds for keys, seconds, _ in done)
    return BatchRate(rate, sum(cpu_s for _, _, cpu_s in done) / keys * 1e6, keys)


def _told(pipe: Any, seconds: float = 0.0) -> Any:
    if not pipe.poll(seconds + _TIMEOUT_S):
        raise TimeoutError("a client of the batch experiment does not end")
    try:
        said = pipe.recv()
    except EOFError as error:
        raise OSError("a client of the batch experiment died") from error
    if isinstance(said, str):
        raise OSError(said)
    return said


def _client(connect: Connect, run: BatchRun, number: int, pipe: Pipe) -> None:
    if run.core is not None:
        os.sched_setaffinity(0, {run.core})
    random = Random(number)
    batches = [[random.randint(1, run.stories) for _ in range(run.keys)] for _ in range(_BATCHES)]
    try:
        client = connect()
        client.rows(client.ask(batches[0]))
        pipe.send(None)
        pipe.recv()
        pipe.send(_loop(client, batches, run))
    except Exception as error:
        # Every library has its own errors; the experiment reports them all.
        pipe.send(f"{type(error).__name__}: {error}")


def _loop(client: BatchClient, batches: Sequence[Sequence[int]], run: BatchRun) -> tuple[int, float, float]:
    """Keys, seconds, CPU seconds."""
    started, cpu = time.perf_counter(), time.process_time()
    end = started + run.seconds
    done = 0
    while (now := time.perf_counter()) < end:
        answer = client.ask(batches[done % _BATCHES])
        if run.used:
            client.rows(answer)
        done += 1
    return done * run.keys, now - started, time.process_time() - cpu
