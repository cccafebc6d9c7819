"""Clients of a rendered release: one writes to the database, others read through the Service and judge each answer.

*Theory*: items `2p` and `2p + 1` are a pair, and each transaction adds one to both. Whatever is read at one version
has the same `n` in both; what is read twice never goes back; no `n` is more than was begun to be written.

Not here: when pods come and go (`test_gateway_process`).
"""

import threading
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from typing import Any

import httpx
import psycopg

from tests.fixtures.service import PATIENT

PAIRS = 8
ITEMS = range(2 * PAIRS)
TABLE = (
    "CREATE TABLE items (id int PRIMARY KEY, pair int NOT NULL, n int NOT NULL)",
    f"INSERT INTO items SELECT i, i / 2, 0 FROM generate_series(0, {2 * PAIRS - 1}) i",
)
VIEWS = {
    "item": {"sql": "SELECT id, n FROM items WHERE id = :id"},
    "pair": {"sql": "SELECT pair, COUNT(*) AS items, SUM(n) AS n FROM items WHERE pair = :pair GROUP BY pair"},
    # Kept whole, by one of the shards.
    "front": {"sql": "SELECT id, n FROM items ORDER BY n DESC, id LIMIT 4"},
}
#: Of a reader that rests: so it still reads all items several times a second.
REST_S = 0.02


class Service:
    """Service of Kubernetes: new connections go to pods that are ready. *State*: `url`, of one of them."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {token}"}


class Client(threading.Thread):
    """Does something again and again, until it is told to end. *State*: `failure`, what should not have happened."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.failure: BaseException | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        """Until `end`, or until something is wrong."""
        try:
            self.work(self._ended.is_set)
        except BaseException as error:
            self.failure = error

    def work(self, is_over: Callable[[], bool]) -> None:
        raise NotImplementedError

    def end(self, limit_s: float) -> None:
        """Stop it, and raise its failure."""
        self._ended.set()
        self.join(limit_s)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


class Writer(Client):
    """*State*: `begun`, how often a pair's transaction was begun."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.begun = [0] * PAIRS
        self.written = 0

    def work(self, is_over: Callable[[], bool]) -> None:
        """Adds to one pair after the other."""
        pause = threading.Event()
        with psycopg.connect(self._url, autocommit=True) as connection:
            for pair in cycle(range(PAIRS)):
                if is_over():
                    return
                self.begun[pair] += 1
                connection.execute("UPDATE items SET n = n + 1 WHERE pair = %s", (pair,))
                self.written += 1
                # A few hundred a second: the machine has others to serve.
                pause.wait(0.004)


class Reader(Client):
    """Reads items, batches of pairs, and the front. `fresh`: over a new connection each time, none of which may be
    lost; else over one that is kept, at whichever pod it is, until that closes it.

    *State*: how often each item was `answered`, or `refused` (503); `closed`, how often a kept connection was closed in
    the moment in which it was used; `rests`, whether it leaves the processor to others after each item.
    """

    def __init__(self, service: Service, writer: Writer, *, fresh: bool) -> None:
        super().__init__()
        self._service = service
        self._writer = writer
        self._fresh = fresh
        self._last = [0] * len(ITEMS)
        self._url = service.url
        self.closed = 0
        self.rests = False
        self.answered: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()

    def work(self, is_over: Callable[[], bool]) -> None:
        """Reads."""
        limits = httpx.Limits(max_keepalive_connections=0 if self._fresh else 1)
        headers = {**self._service.headers, **PATIENT}
        with httpx.Client(headers=headers, timeout=60, limits=limits) as client:
            for item in cycle(ITEMS):
                if is_over():
                    return
                self._read_item(client, item)
                self._read_batch(client, item // 2)
                if item == 0:
                    self._read_front(client)
                if self.rests:
                    self._ended.wait(REST_S)

    def _read_item(self, client: httpx.Client, item: int) -> None:
        rows = self._rows(client, "GET", "/v1/views/item", item, params={"id": item})
        if rows is None:
            self.refused[item] += 1
            return
        self.answered[item] += 1
        ((_, n),) = (row.values() for row in rows["rows"])
        assert self._last[item] <= n <= self._writer.begun[item // 2], (item, n, self._last[item])
        self._last[item] = n

    def _read_batch(self, client: httpx.Client, pair: int) -> None:
        """Both of a pair and their sum: three keys, and one version."""
        reads = [{"view": "item", "params": {"id": 2 * pair + each}} for each in (0, 1)]
        reads.append({"view": "pair", "params": {"pair": pair}})
        answer = self._rows(client, "POST", "/v1/read", pair, json={"reads": reads})
        if answer is None:
            return
        one, other, both = (result["rows"][0] for result in answer["results"])
        assert one["n"] == other["n"] <= self._writer.begun[pair], answer
        assert (both["items"], int(both["n"])) == (2, 2 * one["n"]), answer

    def _read_front(self, client: httpx.Client) -> None:
        answer = self._rows(client, "GET", "/v1/views/front", -1)
        if answer is not None:
            found = [row["n"] for row in answer["rows"]]
            assert found == sorted(found, reverse=True), found

    def _rows(self, client: httpx.Client, method: str, path: str, what: int, **given: Any) -> Any:
        response = self._response(client, method, path, **given)
        if response.status_code == 503:
            # It was not accepted, and may be sent again.
            assert response.json()["code"] in REFUSALS, response.text
            return None
        assert response.status_code == 200, (what, response.status_code, response.text)
        return response.json()

    def _response(self, client: httpx.Client, method: str, path: str, **given: Any) -> httpx.Response:
        if self._fresh:
            return client.request(method, self._service.url + path, **given)
        try:
            return client.request(method, self._url + path, **given)
        except httpx.ConnectError:
            # It was closed before; a new one is made to a pod that is ready.
            self._url = self._service.url
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            self._url = self._service.url
            self.closed += 1
        return client.request(method, self._url + path, **given)


#: Of a shard that is away, or has just begun.
REFUSALS = frozenset({"engine_unavailable", "view_building", "versions_apart", "unavailable"})
