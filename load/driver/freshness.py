"""Longest delay from a commit to the answer that shows it, sampled beside a run of load, also across interruptions."""

from bisect import bisect_left
from http.client import HTTPException
from time import monotonic

import psycopg

from load.driver.samplers import Samplers
from load.plain_http import PlainClient
from load.sides.side import Side, SideError, UpstreamDatabase
from load.site import SiteView

TABLE_SQL = "CREATE TABLE freshness (id int PRIMARY KEY, n int NOT NULL); INSERT INTO freshness VALUES (1, 0);\n"
VIEW = SiteView("freshness", "SELECT id, n FROM freshness WHERE id = :id", {"id": "integer"})

_WRITE_EVERY_S, _READ_EVERY_S = 0.05, 0.01


class FreshnessProbe(Samplers):
    """Counts up in `TABLE_SQL`'s row, and reads `VIEW`, while entered."""

    def __init__(self, side: Side, upstream: UpstreamDatabase) -> None:
        super().__init__(self._write, self._read)
        self._url, self._database = side.reads_url, upstream.url
        #: When the write to n = index + 1 was committed, and when an answer first had it.
        self._committed: list[float] = []
        self._seen: list[float] = []

    def longest_s(self, since: float, until: float) -> float:
        """Return the longest delay of a commit in a span of `monotonic()` time; one that was not seen counts until
        the end of the span."""
        first, end = bisect_left(self._committed, since), bisect_left(self._committed, until)
        seen = [*self._seen[first:end], *[until] * (end - max(first, len(self._seen)))]
        return max((at - self._committed[first + i] for i, at in enumerate(seen)), default=0.0)

    def _write(self) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            while not self._stop.wait(_WRITE_EVERY_S):
                connection.execute("UPDATE freshness SET n = n + 1")
                self._committed.append(monotonic())

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                with PlainClient(self._url) as client:
                    while not self._stop.wait(_READ_EVERY_S):
                        self._saw(client.read("/v1/views/freshness?id=1")[0]["n"])
            except (OSError, HTTPException, SideError):
                # The service is away, or has not got this key yet.
                self._stop.wait(_READ_EVERY_S)

    def _saw(self, n: int) -> None:
        now = monotonic()
        while len(self._seen) < n:
            self._seen.append(now)
