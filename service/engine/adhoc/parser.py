"""Parser and planner of clients' SQL texts; long ones run one at a time.

Not here: limits on texts (`dataflow.sql.spelling`, `dataflow.sql.syntax.parse`).
"""

import asyncio
from dataclasses import dataclass, field

from dataflow.plan.nodes import View
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.sql.spelling import Spelling, spelling_of
from dataflow.sql.statement import Statement, statement_of
from service.engine.views.tables import FollowedTables
from service.ground.long_texts import beside


@dataclass(slots=True)
class AdhocParser:
    """Parses and plans in the upstream's dialect."""

    following: FollowedTables
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def spelling(self, sql: str) -> Spelling:
        """Like `spelling_of`."""
        async with self._one:
            return await beside(sql, spelling_of, sql, self.following.catalog.dialect)

    async def statement(self, sql: str) -> Statement:
        """Like `statement_of`."""
        async with self._one:
            return await beside(sql, statement_of, sql, self.following.catalog.dialect)

    async def plan(self, sql: str, catalog: Catalog) -> View:
        """Like `plan_view`, for a view without a name."""
        async with self._one:
            return await beside(sql, plan_view, "", sql, catalog)
