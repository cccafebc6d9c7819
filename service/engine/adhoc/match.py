"""Matching of ad-hoc queries with registered views and values of their parameters.

*Theory*: two criteria. Equal tokens, with constants or parameters at the same places, are equivalent in any database
(`dataflow.sql.spelling`). And equal plans are equal relations: if all constants that can be parameters are replaced by
parameters, in the query and in the view, equal plans mean that both belong to one family of queries, so equal values
have equal results. A constant of the view must then equal the query's constant, and a constant of the query that
becomes a parameter's value must compare as the parameter does.

*Invariants*: views whose answers may differ from the upstream's current result for any reader never match: those with
claims, that expire, or that are served stale or in another form.

Not here: queries without a matching view (`execution`, `promotion`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.nodes import View
from dataflow.schema import Catalog, SqlType
from dataflow.sql.dialects import dialect_of
from dataflow.sql.spelling import Site, SiteKind, Spelling, spelling_of
from dataflow.types import ViewId
from service.engine.adhoc.parser import AdhocParser
from service.engine.views.registry import InstalledView, Status, Tier, ViewRegistry
from service.leaf_store.catalog import ParameterRole, ViewInfo
from service.protocol.adhoc import Match

_MAX_PLANS = 1000
#: Maximum size of queries that are planned: tokens (`Spelling.size`), characters.
_MOST_WORDS, _MOST_CHARACTERS = 400, 4000


@dataclass(frozen=True, slots=True)
class _Candidate:
    """View that queries may match."""

    installed: InstalledView
    info: ViewInfo
    spelling: Spelling


@dataclass(slots=True)
class Matcher:
    """Matches queries. *Maintains*: `_by_words` and `_by_plan` index the views of `_seen`, planned with `_catalog`."""

    registry: ViewRegistry
    info: Callable[[ViewId], ViewInfo]
    parsing: AdhocParser
    #: Serializes queries, since the loop runs other tasks between the steps.
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _seen: frozenset[ViewId] = frozenset()
    _catalog: Catalog = field(default_factory=Catalog)
    _by_words: dict[str, list[_Candidate]] = field(default_factory=dict)
    _by_plan: dict[tuple[bool, View], list[_Candidate]] = field(default_factory=dict)
    #: Plans of queries, by the part common to all of their spellings.
    _plans: OrderedDict[Any, View | None] = field(default_factory=OrderedDict)

    async def match(self, spelling: Spelling, catalog: Catalog) -> Match | None:
        """Returns the view that matches a query, for the tables of `catalog`."""
        async with self._one:
            await self._follow(catalog)
            return await self._match(spelling, catalog)

    async def _match(self, spelling: Spelling, catalog: Catalog) -> Match | None:
        for candidate in self._by_words.get(spelling.words, ()):
            found = _bound(spelling.sites, candidate, candidate.spelling.sites, catalog.dialect)
            if found is not None:
                return found
        return await self._by_plans(spelling, catalog)

    async def _by_plans(self, spelling: Spelling, catalog: Catalog) -> Match | None:
        # The plan does not contain the effect of a cast on a value.
        if not is_planned(spelling) or any(site.cast for site in spelling.sites):
            return None
        for outer in (False, True):
            plan = await self._plan(spelling, outer=outer)
            for candidate in self._by_plan.get((outer, plan), ()) if plan is not None else ():
                found = _bound(
                    spelling.open_sites(outer=outer),
                    candidate,
                    candidate.spelling.open_sites(outer=outer),
                    catalog.dialect,
                )
                if found is not None:
                    return found
        return None

    async def _follow(self, catalog: Catalog) -> None:
        """Updates the index after changes of views or catalog."""
        candidates = list(self._candidates())
        seen = frozenset(installed.id for installed in candidates)
        if seen == self._seen and catalog == self._catalog:
            return
        if catalog != self._catalog:
            self._plans.clear()
        self._seen, self._catalog = seen, catalog
        self._by_words, self._by_plan = {}, {}
        for installed in candidates:
            candidate = self._candidate(installed, catalog.dialect)
            if candidate is not None:
                await self._add(candidate)

    def _candidates(self) -> Iterable[InstalledView]:
        for registered in self.registry.views.values():
            installed = registered.installed
            if installed is not None and _is_plain(installed) and not self.info(installed.id).claims:
                yield installed

    def _candidate(self, installed: InstalledView, dialect: str) -> _Candidate | None:
        try:
            spelling = spelling_of(installed.definition.sql, dialect)
        except (InvalidQuery, UnsupportedQuery):
            return None
        info = self.info(installed.id)
        named = {parameter.name for parameter in info.given} == set(spelling.parameters)
        return _Candidate(installed, info, spelling) if named else None

    async def _add(self, candidate: _Candidate) -> None:
        self._by_words.setdefault(candidate.spelling.words, []).append(candidate)
        if candidate.installed.plan.tier is not Tier.INCREMENTAL:
            return
        names = [column.name for column in candidate.info.columns]
        for outer in (False, True):
            plan = await self._plan(candidate.spelling, outer=outer)
            if plan is not None and [output.name for output in plan.answer.output] == names:
                self._by_plan.setdefault((outer, plan), []).append(candidate)

    async def _plan(self, spelling: Spelling, *, outer: bool) -> View | None:
        """Returns the plan of the family of queries that differ only in the values at the open sites, which are named
        by their order. None if it has none."""
        sites = spelling.open_sites(outer=outer)
        others = tuple((site.kind, site.values) for site in spelling.sites if site not in sites)
        same = (spelling.words, others, outer)
        if same not in self._plans:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.popitem(last=False)
            names = {site: f"upquery_{n}" for n, site in enumerate(sites)}
            try:
                plan = await self.parsing.plan(spelling.with_names(names), self._catalog)
                self._plans[same] = replace(plan, sql="")
            except (UnsupportedQuery, InvalidQuery):
                self._plans[same] = None
        return self._plans[same]


def is_planned(spelling: Spelling) -> bool:
    """True if the query is small enough to be planned."""
    return spelling.size <= _MOST_WORDS and len(spelling.sql) <= _MOST_CHARACTERS


def _is_plain(installed: InstalledView) -> bool:
    """True if the view's answers equal the upstream's results."""
    serving = installed.definition.options.serving
    return (
        installed.status is Status.READY
        and not installed.tombstone
        and installed.plan.tier is not Tier.TTL
        and not installed.plan.reads_views
        and not serving.bigint_text
        and not serving.stale_ms
    )


# --- values ---------------------------------------------------------------------------------------------------------


def _bound(asked: Sequence[Site], candidate: _Candidate, known: Sequence[Site], dialect: str) -> Match | None:
    """Returns the values of a view's parameters at its sites, taken from the query; None if they do not fit."""
    if len(asked) != len(known):
        return None
    types = {p.name: p for p in reversed(candidate.info.given)}
    constants: dict[str, str | list[str]] = {}
    given: dict[str, str] = {}
    kinds: dict[str, SqlType] = {}
    for mine, its in zip(asked, known, strict=True):
        if mine.listed != its.listed:
            return None
        if its.kind is not SiteKind.PARAMETER:
            if (mine.kind, mine.values) != (its.kind, its.values):
                return None
        elif mine.kind is SiteKind.PARAMETER:
            kind = types[its.name].type
            if given.setdefault(its.name, mine.name) != mine.name or kinds.setdefault(mine.name, kind) != kind:
                return None
        else:
            value: str | list[str] = list(mine.values) if mine.listed else mine.values[0]
            if constants.setdefault(its.name, value) != value or not fits(mine, types[its.name].type, dialect):
                return None
            if (types[its.name].role is ParameterRole.LIST) != mine.listed:
                return None
    if constants.keys() & given.keys():
        return None
    return Match(candidate.installed.definition.name, candidate.installed.id, constants, given)


def fits(site: Site, kind: SqlType, dialect: str) -> bool:
    """True if constants at the site compare like parameters of the type."""
    if kind.kind not in ("base", "enum") or not kind.takes_parameters:
        return False
    if not dialect_of(dialect).constant_fits(kind, site.kind is not SiteKind.TEXT):
        return False
    try:
        for value in site.values:
            kind.parse(value)
    except ValueError:
        return False
    return True
