"""Cost of PostgreSQL's change stream: changes decoded per second of CPU, from the socket to transactions.

An embedded PostgreSQL of its own writes a phase first: single-row transactions, transactions of 1,000 inserts or of
1,000 updates. Then this process reads it, which alone is measured; the server decodes meanwhile in its own time.

``python -m load.micro.pgoutput_decoder [--changes 20000] [--rounds 3]`` prints one JSON line, ``--profile`` where the
time goes.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import time
from typing import Any

import psycopg

from cdc.change import TableLayout
from cdc.postgres.position import parse_lsn
from cdc.postgres.stream import PostgresStream, create_publication_sql

_TABLE = (
    "DROP TABLE IF EXISTS votes",
    "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL, voter text, at timestamptz NOT NULL,"
    " weight numeric(10,2))",
    "ALTER TABLE votes REPLICA IDENTITY FULL",
    "ALTER PUBLICATION bench ADD TABLE votes",
)
_ROWS = (
    "INSERT INTO votes SELECT i, i % 997, 'voter ' || i, '2024-02-29'::timestamptz + i * interval '1 second',"
    " i % 7 - 3.5 FROM generate_series({first}, {last}) i"
)
_COLUMNS = ("id", "story", "voter", "at", "weight")
#: What is written before, and not measured, in one transaction; changes of a transaction; the statement.
_UPDATE = "UPDATE votes SET story = story + 1 WHERE id BETWEEN {first} AND {last}"
PHASES = {
    "single_row_transactions": (False, 1, _ROWS),
    "inserts_of_1000": (False, 1000, _ROWS),
    "updates_of_1000": (True, 1000, _UPDATE),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    from tests.fixtures.postgres import discard_server, start_server

    server = start_server()
    try:
        bench = Bench(server.url, arguments.changes)
        if arguments.profile:
            bench.profile()
        else:
            print(json.dumps(bench.measure(arguments.rounds)))  # noqa: T201 - the result
    finally:
        discard_server(server)


class Bench:
    """Writes phases and reads them."""

    def __init__(self, url: str, changes: int) -> None:
        self._url = url
        self._changes = changes
        self._execute(create_publication_sql("bench"))

    def measure(self, rounds: int) -> dict[str, Any]:
        """Changes per second of CPU, the best round of each."""
        best: dict[str, float] = {}
        for _ in range(rounds):
            for phase in PHASES:
                best[phase] = max(best.get(phase, 0.0), self._changes / asyncio.run(self._read(phase)))
        return {f"stream_{phase}_per_s": round(rate) for phase, rate in best.items()}

    def profile(self) -> None:
        for phase in PHASES:
            print(f"── {phase}")  # noqa: T201 - the result
            profile = cProfile.Profile()
            asyncio.run(self._read(phase, profile))
            pstats.Stats(profile).sort_stats("tottime").print_stats(14)

    def _execute(self, *statements: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _prepare(self, phase: str) -> None:
        self._execute("SET client_min_messages = warning", *_TABLE)
        if PHASES[phase][0]:
            self._execute(_ROWS.format(first=0, last=self._changes - 1))

    def _write(self, phase: str) -> int:
        """Writes what is measured; returns where it ends."""
        _, size, statement = PHASES[phase]
        self._execute(
            "SET synchronous_commit = off",
            *(statement.format(first=i, last=i + size - 1) for i in range(0, self._changes, size)),
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
            row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    async def _read(self, phase: str, profile: cProfile.Profile | None = None) -> float:
        """CPU seconds of the change stream."""
        self._prepare(phase)
        source = PostgresStream(self._url, "bench", lambda: {"public.votes": TableLayout(_COLUMNS)})
        await source.start()
        end = await asyncio.to_thread(self._write, phase)
        found = position = 0
        started = time.process_time()
        if profile is not None:
            profile.enable()
        while position < end:
            batch = await source.next_batch()
            position = batch.position
            for transaction in batch.transactions:
                change = transaction.tables["public.votes"]
                found += max(len(change.added), len(change.removed))
            if found == self._changes:
                source.request_position()
        if profile is not None:
            profile.disable()
        seconds = time.process_time() - started
        await source.close()
        assert found == self._changes, found
        return seconds


if __name__ == "__main__":
    main()
