"""Compares what the service answers with what the database answers to the same SQL, at the same version.

The write load goes on between the rounds. For a round it is paused: the database then stands at one version, which
the service is asked to have reached (``Upquery-Min-Version``) before it answers. Both answers are then of one version,
and must be the same rows in the same order.
"""

import random as randomness
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from psycopg import AsyncConnection, IsolationLevel

from service.demo.client import Client, JsonRow
from service.demo.dataset import DatasetSize
from service.demo.views import VIEWS, DemoView
from service.demo.write_load import WriteLoad


@dataclass(frozen=True, slots=True)
class DemoDifference:
    """A read that the service and the database answer differently."""

    view: str
    parameters: dict[str, str]
    version: str
    service: list[JsonRow]
    database: list[JsonRow]

    def __str__(self) -> str:
        where = next(
            (i for i, (a, b) in enumerate(zip(self.service, self.database, strict=False)) if a != b),
            min(len(self.service), len(self.database)),
        )
        here, there = self.service[where : where + 1], self.database[where : where + 1]
        return (
            f"{self.view} {self.parameters} at {self.version}: {len(self.service)} rows against {len(self.database)};"
            f" row {where} is {here} from the service and {there} from the database"
        )


@dataclass(slots=True)
class DemoComparison:
    """Answers of one view compared so far."""

    reads: int = 0
    rows: int = 0
    hits: int = 0
    differences: list[DemoDifference] = field(default_factory=list)


class Checker:
    """Compares the demo's views, round after round."""

    def __init__(self, client: Client, connection: AsyncConnection, load: WriteLoad | None, size: DatasetSize) -> None:
        self._client = client
        self._connection = connection
        self._load = load
        self._size = size
        self._random = randomness.Random(7)
        self._reads: list[tuple[DemoView, dict[str, str]]] = [(view, view.example_parameters) for view in VIEWS]
        self.comparisons = {view.name: DemoComparison() for view in VIEWS}

    @property
    def differences(self) -> list[DemoDifference]:
        """All that were found."""
        return [d for comparison in self.comparisons.values() for d in comparison.differences]

    async def compare_round(self, new_keys: int) -> None:
        """Compare every key that was read before, and `new_keys` more of each view."""
        for view in VIEWS:
            drawn = (view.parameters(self._random, self._size) for _ in range(new_keys))
            self._reads += [(view, parameters) for parameters in drawn if (view, parameters) not in self._reads]
        if self._load:
            await self._load.pause()
        try:
            await self._compare_now()
        finally:
            if self._load:
                self._load.resume()

    async def _compare_now(self) -> None:
        version = await self._version()
        for view, parameters in self._reads:
            expected = await self._query(view, parameters)
            answer = await self._client.read(view.name, parameters, at_least=version)
            comparison = self.comparisons[view.name]
            comparison.reads += 1
            comparison.rows += len(expected)
            comparison.hits += answer.hit
            if not same_rows(answer.rows, expected):
                difference = DemoDifference(view.name, parameters, answer.version, answer.rows, expected)
                comparison.differences.append(difference)

    async def _version(self) -> str:
        cursor = await self._connection.execute("SELECT pg_current_wal_insert_lsn()::text")
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0])

    async def _query(self, view: DemoView, parameters: dict[str, str]) -> list[JsonRow]:
        # :name becomes psycopg's placeholder; the demo's SQL has no other colon.
        query = re.sub(r":(\w+)", r"%(\1)s", view.sql)
        await self._connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        cursor = await self._connection.execute(query.encode(), parameters)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]


def same_rows(service: Sequence[JsonRow], database: Sequence[JsonRow]) -> bool:
    """Return whether the JSON rows are the database's: columns in the same order, and the same values."""
    return len(service) == len(database) and all(
        list(here) == list(there) and all(_same(here[name], there[name]) for name in here)
        for here, there in zip(service, database, strict=True)
    )


def _same(json: Any, value: Any) -> bool:
    """Return whether a JSON value stands for a value of the database."""
    match value:
        case datetime() | date():
            return isinstance(json, str) and type(value).fromisoformat(json) == value
        case Decimal():
            return isinstance(json, str) and Decimal(json) == value
        case bool() | int() | str() | None:
            return type(json) is type(value) and bool(json == value)
        case _:
            raise TypeError(f"the demo has no column of type {type(value).__name__}")
