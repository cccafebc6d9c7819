"""Promotion: frequent ad-hoc queries become views, which are dropped when they are no longer read.

*Invariants*: their number is limited by the settings; none outlives the process; a view that a user puts under the same
name belongs to the user.

Not here: planning and installing (`service.engine.views`).
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic

import structlog

from dataflow.plan.nodes import View
from dataflow.sql.spelling import Site, SiteKind, Spelling
from dataflow.types import ViewId
from service.engine.adhoc.match import fits, is_planned
from service.engine.views.changes import Changes
from service.engine.views.registry import Definition, Origin, Tier, ViewOptions, ViewPlan, ViewRegistry
from service.engine.views.stand_in import stand_in
from service.engine.views.tables import FollowedTables
from service.ground.errors import ApiError
from service.leaf_store.catalog import ParameterInfo, describe
from service.protocol.adhoc import HASH_DIGITS, PREFIX
from service.protocol.counters import ReadCounters
from service.settings.adhoc import AdhocSettings

log = structlog.get_logger()

_MAX_SEEN = 10_000
#: Reads of a view reported by all workers.
ReadsOf = Callable[[str], ReadCounters]


@dataclass(slots=True)
class _Installed:
    """Promoted view. `reads`: the count at the last check; `since_s`: when the count last changed."""

    reads: ReadCounters
    since_s: float


@dataclass(slots=True)
class Promoter:
    """Promotes and drops views. *State*: `_seen`, counts of queries, most recent last; `_made`, promoted views by
    name."""

    changes: Changes
    registry: ViewRegistry
    settings: AdhocSettings
    following: FollowedTables
    reads_of: ReadsOf
    installed: int = 0
    dropped: int = 0
    _seen: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _made: dict[str, _Installed] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def count(self, spelling: Spelling) -> None:
        """Counts a query that was run upstream."""
        name = name_of(spelling)
        times = self._seen.pop(name, 0) + 1
        self._seen[name] = times
        if len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)
        wanted = is_planned(spelling) and self.settings.install_after and times >= self.settings.install_after
        if wanted and len(self._made) < self.settings.max_views and self._task is None:
            # Serialized: queries that remain frequent are promoted later.
            self._task = asyncio.get_running_loop().create_task(self._install(name, spelling))

    async def close(self) -> None:
        """Cancels a running promotion."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _install(self, name: str, spelling: Spelling) -> None:
        try:
            sql = await self._best(name, spelling)
            if sql is None or name in self.registry.views:
                # Restart the count, so that a failed promotion is not retried at once.
                self._seen[name] = -self.settings.install_after * 9
                return
            await self.changes.install(Definition(name, sql, Origin.ADHOC))
            self._made[name] = _Installed(ReadCounters(), monotonic())
            self._seen.pop(name, None)
            self.installed += 1
            log.info("frequent query promoted to a view", view=name)
        except ApiError as error:
            self._seen[name] = -self.settings.install_after * 9
            log.info("frequent query cannot be a view", view=name, reason=str(error))
        except Exception:
            log.exception("frequent query could not be promoted to a view", view=name)
        finally:
            self._task = None

    async def _best(self, name: str, spelling: Spelling) -> str | None:
        """Returns the SQL of a view that answers this query: incremental if possible, with as many constants as
        possible turned into parameters. Raises the last `ApiError` if no form can be a view."""
        refreshed: str | None = None
        failed: ApiError | None = None
        for sql, names in _texts(spelling):
            try:
                plan, _ = await self.changes.plan(name, sql, ViewOptions())
            except ApiError as error:
                failed = error
                continue
            if plan.tier is Tier.TTL or not self._takes(plan, names):
                continue
            if plan.tier is Tier.INCREMENTAL:
                return sql
            refreshed = refreshed or sql
        if refreshed is None and failed is not None:
            raise failed
        return refreshed

    def _takes(self, plan: ViewPlan, names: Mapping[Site, str]) -> bool:
        """True if the query's own constants are possible values of the view's parameters."""
        types = {p.name: p for p in reversed(_parameters(plan))}
        return all(
            site.kind is SiteKind.PARAMETER or fits(site, types[name].type, self.following.catalog.dialect)
            for site, name in names.items()
        )

    async def tidy(self) -> None:
        """Drops views that were not read for long, and forgets views that users have taken over."""
        now = monotonic()
        for name, made in list(self._made.items()):
            registered = self.registry.views.get(name)
            if registered is None or registered.definition.origin is not Origin.ADHOC:
                del self._made[name]
                continue
            reads = self.reads_of(name)
            if reads != made.reads:
                made.reads, made.since_s = reads, now
            elif now - made.since_s > self.settings.unused_s:
                await self._drop(name)

    async def _drop(self, name: str) -> None:
        try:
            await self.changes.drop(name)
        except ApiError as error:
            log.info("unused view cannot be dropped", view=name, reason=str(error))
            return
        del self._made[name]
        self.dropped += 1
        log.info("unused view dropped", view=name)


def name_of(spelling: Spelling) -> str:
    """Returns the name of the view for all queries of this spelling, with any values at their sites; names of
    parameters do not matter, but which of them are equal does."""
    numbers = {name: str(n) for n, name in enumerate(spelling.parameters)}
    kinds = [numbers[site.name] if site.kind is SiteKind.PARAMETER else site.kind.value for site in spelling.sites]
    text = "\n".join([spelling.words, *kinds])
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def _parameters(plan: ViewPlan) -> tuple[ParameterInfo, ...]:
    view = plan.view if isinstance(plan.view, View) else stand_in(plan.view)
    return describe(ViewId(0), view, None, "ready", listed=False).given


def _texts(spelling: Spelling) -> Iterator[tuple[str, dict[Site, str]]]:
    """Yields the SQL with all constants at sites as parameters, with those outside of LIMIT and OFFSET, and with
    none."""
    own = {name: f"p{n + 1}" for n, name in enumerate(spelling.parameters)}
    tried: set[str] = set()
    parameters = tuple(site for site in spelling.sites if site.kind is SiteKind.PARAMETER)
    for sites in (spelling.open_sites(outer=False), spelling.open_sites(outer=True), parameters):
        names = {
            site: own[site.name] if site.kind is SiteKind.PARAMETER else f"c{n + 1}" for n, site in enumerate(sites)
        }
        sql = spelling.with_names(names)
        if sql not in tried:
            tried.add(sql)
            yield sql, names
