"""Runs the subjects over hostile values of PostgreSQL. Values are stored on the server, by type, as it prints them."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

from dataflow.types import Row, Value
from tests.dataflow.functions.server import Connection, Failed
from tests.fuzz.hostile.comparison import MAX_ANSWER, Table
from tests.fuzz.hostile.postgres_values import PostgresValues
from tests.fuzz.hostile.subject import Subject

_CHUNK = 500
#: Of 10,000 values: those that are large, and those that are as large as any is.
_LARGE, _HUGE = 200, 10


class Stored:
    """The values of one type: small ones first, then large ones, then the largest."""

    def __init__(self, values: list[Value], large_from: int, huge_from: int) -> None:
        self.values = values
        self._large_from, self._huge_from = large_from, huge_from

    def draw(self, rng: Random) -> int:
        """The number of a value."""
        chance = rng.randrange(10_000)
        if chance < _HUGE and self._huge_from < len(self.values):
            return rng.randrange(self._huge_from, len(self.values))
        if chance < _LARGE and self._large_from < self._huge_from:
            return rng.randrange(self._large_from, self._huge_from)
        return rng.randrange(self._large_from)


class PostgresRun:
    """One run. `counts`: how many values of a type are made: small, large, largest."""

    def __init__(self, server: Connection, seed: int, counts: tuple[int, int, int], long: bool) -> None:
        self._server = server
        self._rng = Random(seed)
        self._draw = PostgresValues(self._rng, long)
        self._counts = counts
        self._stored: dict[str, Stored] = {}
        self.table = Table()

    def run(self, subjects: Iterable[Subject], values: int, progress: Callable[[str], None]) -> None:
        """Compares so many values of each name."""
        every = list(subjects)
        sharing = Counter(subject.name for subject in every)
        for number, subject in enumerate(every, 1):
            self._compare(subject, -(-values // sharing[subject.name]))
            if number == len(every) or every[number].name != subject.name:
                line = self.table.lines[subject.name]
                progress(f"{number}/{len(every)} {subject.name}: {line.different} different, {line.worst_ms:.0f} ms")
                for example in line.examples:
                    progress(f"  {example}")

    def _compare(self, subject: Subject, values: int) -> None:
        stored = [self._values(t) for t in subject.types]
        for start in range(0, values, _CHUNK):
            count = min(_CHUNK, values - start)
            places = [tuple(s.draw(self._rng) for s in stored) for _ in range(count)]
            expected = self._evaluate(subject, places)
            for place, (milliseconds, theirs) in zip(places, expected, strict=True):
                row: Row = tuple(s.values[p] for s, p in zip(stored, place, strict=True))
                self.table.compare(subject.name, subject.sql, subject.compute, row, theirs, lambda ms=milliseconds: ms)

    # --- the server ---------------------------------------------------------------------------------------------------

    def _values(self, type_name: str) -> Stored:
        if type_name not in self._stored:
            self._stored[type_name] = self._store(type_name)
        return self._stored[type_name]

    def _store(self, type_name: str) -> Stored:
        """Values that the server takes, and NULL."""
        table = _table(type_name)
        self._server.execute(f"CREATE TEMP TABLE {table} (n int, v {type_name})".encode())
        small, large, huge = self._counts
        draws: list[tuple[int, Callable[[str], str | None]]] = [
            (small, self._draw.small),
            (large, self._draw.large),
            (huge, self._draw.huge),
        ]
        values: list[Value] = [None]
        self._server.execute(f"INSERT INTO {table} VALUES (0, NULL)".encode())
        ends = []
        for count, draw in draws:
            for _ in range(count):
                text = draw(type_name)
                if text is not None and (printed := self._taken(type_name, table, len(values), text)) is not None:
                    values.append(printed)
            ends.append(len(values))
        self._server.execute(f"CREATE INDEX ON {table} (n); ANALYZE {table}".encode())
        return Stored(values, ends[0], ends[1])

    def _taken(self, type_name: str, table: str, number: int, text: str) -> str | None:
        from psycopg import Error

        if "\0" in text:
            return None
        insert = f"INSERT INTO {table} VALUES (%s, %s::{type_name}) RETURNING v::text"
        if type_name == "bool":
            insert = insert.replace("v::text", "CASE WHEN v THEN 't' ELSE 'f' END")
        if type_name == "bpchar":
            insert = insert.replace("v::text", "concat(v)")
        try:
            ((printed,),) = self._server.execute(insert.encode(), [number, text]).fetchall()
        except (Error, UnicodeEncodeError):
            return None
        return str(printed)

    def _evaluate(self, subject: Subject, places: list[tuple[int, ...]]) -> list[tuple[float, Value | Failed]]:
        """Milliseconds and the value, row by row."""
        width = len(subject.types)
        parameters = ", ".join(f"c{i} {t}" for i, t in enumerate(subject.types))
        self._server.execute(
            f"CREATE OR REPLACE FUNCTION pg_temp.hostile({parameters}) RETURNS text LANGUAGE plpgsql AS $body$"
            " DECLARE found text; began timestamptz; took text; BEGIN began := clock_timestamp();"
            " SELECT CASE WHEN (e) IS NULL THEN NULL ELSE concat('=', e) END INTO found"
            f" FROM (SELECT {subject.sql} AS e OFFSET 0) w;"
            " took := (extract(epoch FROM clock_timestamp() - began) * 1000)::text || ' ';"
            f" IF length(found) > {MAX_ANSWER + 1}"
            " THEN found := concat('=', md5(substr(found, 2)), ' ', length(found) - 1); END IF;"
            " RETURN took || coalesce(found, 'N'); EXCEPTION WHEN OTHERS THEN"
            " RETURN (extract(epoch FROM clock_timestamp() - began) * 1000)::text || ' !' || SQLERRM;"
            " END $body$".encode()
        )
        tables = " ".join(f"JOIN {_table(t)} t{i} ON t{i}.n = u.p{i}" for i, t in enumerate(subject.types))
        arrays = ", ".join(["%s::int[]"] * width)
        names = ", ".join(f"p{i}" for i in range(width))
        values = ", ".join(f"t{i}.v" for i in range(width))
        source = f"unnest({arrays}) WITH ORDINALITY AS u({names}, n) {tables}"
        query = f"SELECT pg_temp.hostile({values}) FROM {source} ORDER BY u.n"
        columns = [[place[i] for place in places] for i in range(width)]
        found = [_answer(text) for (text,) in self._server.execute(query.encode(), columns).fetchall()]
        self._server.execute(f"DROP FUNCTION pg_temp.hostile({', '.join(subject.types)})".encode())
        return found


def _table(type_name: str) -> str:
    return "hostile_" + "".join(c if c.isalnum() else "_" for c in type_name)


def _answer(text: str) -> tuple[float, Value | Failed]:
    milliseconds, _, answer = text.partition(" ")
    value = None if answer[0] == "N" else answer[1:] if answer[0] == "=" else Failed(answer[1:])
    return float(milliseconds), value
