"""Answers of ad-hoc queries in the engine process: a matching view, or the upstream's result.

Not here: the worker's side (`service.worker`).
"""

import asyncio
from time import monotonic
from typing import Any

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.schema import Catalog
from dataflow.types import Position
from service.engine.adhoc.execution import QueryRunner, invalid
from service.engine.adhoc.match import Matcher
from service.engine.adhoc.parser import AdhocParser
from service.engine.adhoc.promotion import Promoter, ReadsOf
from service.engine.loop.visibility import Visibility
from service.engine.reads.slots import Slots
from service.engine.upstream.problems import upstream_problem
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.engine.views.changes import Changes
from service.ground import long_texts
from service.ground.errors import ApiError
from service.leaf_store.catalog import CLAIMS
from service.leaf_store.writer import LeafWriter
from service.protocol.adhoc import Match
from service.protocol.reads import ReadReply
from service.settings.adhoc import AdhocSettings
from service.settings.sections import HttpSettings

#: Maximum age of the upstream's catalog.
_CATALOG_S = 5.0
_MAX_SQL = 20_000
#: Interval of checks, as a fraction of the time after which unused views are dropped.
_LOOKS = 4
_MAX_LOOK_S = 30.0


class AdhocAnswers:
    """Answers queries. *State*: `_catalog`, the upstream's as of `_loaded_s`."""

    def __init__(
        self,
        settings: AdhocSettings,
        upstream: Upstream,
        changes: Changes,
        leaf: LeafWriter,
        visible: Visibility,
        slots: Slots,
        reads_of: ReadsOf,
        http: HttpSettings,
    ) -> None:
        registry, following = changes.installer.registry, changes.installer.following
        self._settings = settings
        self._registry = registry
        self._upstream = upstream
        self._following = following
        self._parsing = AdhocParser(following)
        self._matcher = Matcher(registry, leaf.info, self._parsing)
        self._running = QueryRunner(upstream, settings, visible, slots, self._parsing, http.max_keys)
        self._installing = Promoter(changes, registry, settings, following, reads_of)
        self._catalog = Catalog()
        self._loaded_s = -_CATALOG_S
        self._tidying: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts dropping unused views, until `close`."""
        if self._settings.enabled:
            long_texts.begin()
            self._tidying = asyncio.get_running_loop().create_task(self._tidy())

    async def close(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await self._installing.close()

    async def ask(self, sql: str, given: dict[str, Any], minimum: Position | None, *, run: bool) -> Match | ReadReply:
        """Returns the view that matches a query; without one, or with `run`, the upstream's result at a snapshot that
        includes `minimum`. Raises `ApiError`."""
        if not self._settings.enabled:
            raise ApiError("forbidden", "Ad-hoc queries are disabled.", "Set [adhoc] enabled = true.")
        if len(sql) > _MAX_SQL:
            raise ApiError("too_large", f"The SQL has {len(sql)} characters.", f"The maximum is {_MAX_SQL}.")
        try:
            spelling = await self._parsing.spelling(sql)
        except (InvalidQuery, UnsupportedQuery) as error:
            raise invalid(sql, error) from None
        if any(name.startswith(CLAIMS) for name in spelling.parameters):
            raise ApiError("query_invalid", "Ad-hoc queries cannot use claims of the token.", "Name the view.")
        match = None if run else await self._matcher.match(spelling, await self._planning_catalog())
        if match is not None:
            return match
        reply = await self._running.run(spelling, given, minimum)
        if not run:
            self._installing.count(spelling)
        return reply

    def counters(self) -> dict[str, int]:
        """Counters since the start."""
        return {
            "adhoc_statements": self._running.statements,
            "adhoc_installed": self._installing.installed,
            "adhoc_dropped": self._installing.dropped,
        }

    async def _planning_catalog(self) -> Catalog:
        if monotonic() - self._loaded_s > _CATALOG_S:
            try:
                async with self._upstream.session() as session:
                    fresh = await session.load_catalog(self._registry.texts())
            except UpstreamError as error:
                if not self._catalog.tables:
                    raise upstream_problem(error) from None
                # Views remain readable while the upstream is unavailable, so matching continues with the old catalog.
                fresh = self._catalog
            self._loaded_s = monotonic()
            self._catalog = fresh
        return self._following.planning_catalog(self._catalog)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(min(_MAX_LOOK_S, self._settings.unused_s / _LOOKS))
            await self._installing.tidy()
