"""Planner: from a view's definition to its tier and plan, or to the problem with its reason and place.

Every query that the upstream runs can be a view: maintained incrementally if a plan exists, else refreshed when one of
its tables changes, else, if its result depends on more than tables, cached for a while.

Not here: plans (`dataflow.sql`), the server's description of a statement (`service.engine.upstream.upstream`).
"""

import re
from collections.abc import Awaitable, Callable, Container, Iterable
from dataclasses import dataclass, field

from dataflow.engine.explain import Explanation
from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.plan.nodes import View, column_types
from dataflow.plan.refresh import RefreshView, TableRead
from dataflow.plan.table_access import tables_read
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.sql.clock import clock_read
from dataflow.sql.dialects import dialect_of
from dataflow.sql.effects import check_effects
from dataflow.sql.listed_members import with_lists
from dataflow.sql.reads import table_reads
from dataflow.sql.registered_views import Expanded, expanded, upstream_views
from dataflow.sql.statement import statement_of
from dataflow.sql.templates import template
from service.engine.upstream.results import Described
from service.engine.upstream.upstream import UpstreamSession
from service.engine.views.registry import Definition, Tier, ViewPlan
from service.engine.views.tables import TableRefusedError
from service.ground.errors import ApiError
from service.ground.long_texts import beside
from service.leaf_store.catalog import CLAIMS

#: Characters of SQL quoted in a problem.
EXCERPT = 80
#: Default time to live of answers that only expire.
TTL_S = 10.0
#: Directives of Cache-Control that let a cache reuse the answer to a request with a token (RFC 9111, 3.5).
_SHARED = re.compile(r"\b(?:public|s-maxage|must-revalidate)\b", re.IGNORECASE)
#: Checks which tables cannot be followed, and why.
Refusals = Callable[[UpstreamSession, Iterable[str]], Awaitable[dict[str, TableRefusedError]]]


@dataclass(slots=True)
class TableChecks:
    """Results of table checks; each table is checked once. *Maintains* `_found`: the results so far."""

    ask: Refusals
    #: Tables that are already followed.
    followed: Container[str] = ()
    _found: dict[str, TableRefusedError | None] = field(default_factory=dict)

    async def refusal(self, session: UpstreamSession, tables: Iterable[str]) -> TableRefusedError | None:
        """Why one of these cannot be followed; one whose changes cannot be read at all comes first."""
        new = sorted(t for t in tables if t not in self.followed and t not in self._found)
        if new:
            said = await self.ask(session, new)
            self._found.update((table, said.get(table)) for table in new)
        found = [refused for table in sorted(tables) if (refused := self._found.get(table)) is not None]
        return min(found, key=lambda refused: refused.streamed, default=None)


@dataclass(frozen=True, slots=True)
class Planning:
    """Plans made with one catalog."""

    catalog: Catalog
    checks: TableChecks
    #: True if readers have tokens, whose claims a view may take as parameters.
    guarded: bool = False

    async def plan(self, session: UpstreamSession, definition: Definition, made: ViewPlan | None = None) -> ViewPlan:
        """Plans a definition. `made`: its incremental plan, if known.

        Raises ApiError(view_unsupported), ApiError(view_invalid), `TableRefusedError`, `UpstreamError`.
        """
        try:
            plan = await self._plan(session, definition, made)
            self._check_claims(plan, definition)
        except UnsupportedQuery as error:
            raise ApiError("view_unsupported", error.reason, members=place(definition.sql, error.span)) from None
        except InvalidQuery as error:
            raise ApiError(
                "view_invalid", error.reason, error.hint, members=place(definition.sql, error.span)
            ) from None
        return plan

    def _check_claims(self, plan: ViewPlan, definition: Definition) -> None:
        claims = [name for name in parameter_names(plan.view) if name.startswith(CLAIMS)]
        if claims and not self.guarded:
            raise UnsupportedQuery(f"The parameter :{claims[0]} is a claim of tokens, and [auth] is not configured.")
        kept = _SHARED.search(definition.options.cache_control or "")
        if claims and kept:
            raise UnsupportedQuery(
                f"Answers that depend on :{claims[0]} are private to one client, but {kept[0]!r} in "
                "cache_control lets proxies share them."
            )

    async def _plan(self, session: UpstreamSession, definition: Definition, made: ViewPlan | None) -> ViewPlan:
        if made is not None and await self.checks.refusal(session, made.tables) is None:
            return made
        wanted = definition.options.tier
        found, view = await beside(definition.sql, _analysed, definition, self.catalog)
        if isinstance(view, UnsupportedQuery):
            if wanted == Tier.INCREMENTAL:
                raise view
            return await self._refreshed(session, definition, found, view.reason)
        if isinstance(view, InvalidQuery):
            return await self._doubted(session, definition, found, view)
        plan = await beside(definition.sql, _incremental, definition, found, view, self.catalog)
        refused = await self.checks.refusal(session, plan.tables)
        if refused is None:
            lost = (
                None
                if wanted == Tier.INCREMENTAL or plan.whole
                else await beside(found.sql, _often_lost, view, self.catalog)
            )
            return plan if lost is None else await self._refreshed(session, definition, found, lost)
        if refused.streamed or wanted == Tier.INCREMENTAL:
            raise refused
        return await self._refreshed(session, definition, found, refused.reason, expires=refused.reason)

    async def _doubted(
        self, session: UpstreamSession, definition: Definition, found: Expanded, error: InvalidQuery
    ) -> ViewPlan:
        """Handles SQL that cannot be analyzed: the server decides whether it is valid."""
        try:
            return await self._refreshed(session, definition, found, f"The SQL cannot be analyzed: {error.reason}")
        except InvalidQuery as confirmed:
            raise (confirmed if "syntax error" in error.reason or error.span is None else error) from None

    # Views that are not maintained incrementally

    async def _refreshed(
        self,
        session: UpstreamSession,
        definition: Definition,
        found: Expanded,
        reason: str,
        expires: str | None = None,
    ) -> ViewPlan:
        """Plans a refreshed or expiring view. `expires`: why no change of a table makes an answer stale."""
        options = definition.options
        if options.materialization == "full":
            raise UnsupportedQuery(f"Only a view that is maintained incrementally can be fully materialized: {reason}")
        statement = await beside(found.sql, statement_of, found.sql, self.catalog.dialect)
        try:
            described = await session.describe(statement)
        except InvalidQuery as error:
            raise found.placed(error) from None
        expires = expires or described.volatile or await beside(found.sql, _clock_read, found, described, self.catalog)
        if options.tier != Tier.TTL:
            expires = expires or await self._not_streamed(session, described)
        if options.tier == Tier.REFRESH and expires is not None:
            raise UnsupportedQuery(f"The view cannot be refreshed on changes of its tables: {expires}")
        ttl_ms = None
        if expires is not None or options.tier == Tier.TTL:
            ttl_ms = max(1, round((options.ttl_s or TTL_S) * 1000))
        refresh = RefreshView(
            definition.name,
            definition.sql,
            described.parameters,
            described.output,
            () if ttl_ms is not None else await beside(found.sql, _reads, found, described, self.catalog),
            reason if expires in (None, reason) else f"{expires} {reason}",
            ttl_ms,
        )
        return ViewPlan(
            refresh,
            described.text,
            reads_views=found.views,
            upstream_views=await beside(found.sql, upstream_views, found.sql, self.catalog),
            columns=described.columns,
            described=frozenset(described.tables),
        )

    async def _not_streamed(self, session: UpstreamSession, described: Described) -> str | None:
        """Returns why the change stream does not cover everything that the query reads."""
        unknown = sorted(described.tables - self.catalog.tables.keys())
        if unknown:
            return f"Table {unknown[0]} is not in the catalog."
        # A view of the upstream reads with its owner's rights.
        refused = await self.checks.refusal(session, described.tables)
        if refused is None:
            return None
        if refused.streamed:
            raise refused
        return refused.reason


def _analysed(definition: Definition, catalog: Catalog) -> tuple[Expanded, View | UnsupportedQuery | InvalidQuery]:
    """Expands registered views and returns the SQL with its incremental plan, or the reason why none exists."""
    check_effects(definition.sql, catalog.dialect)
    found = expanded(definition.sql, catalog)
    wanted = definition.options.tier
    if wanted in (Tier.REFRESH, Tier.TTL):
        return found, UnsupportedQuery(f"The view asks for the tier {wanted}.")
    try:
        return found, plan_view(definition.name, definition.sql, catalog)
    except (UnsupportedQuery, InvalidQuery) as error:
        return found, error


def _incremental(definition: Definition, found: Expanded, view: View, catalog: Catalog) -> ViewPlan:
    is_template = dialect_of(catalog.dialect).fills_templates
    lists = [p.members for p in (*view.parameters, *view.within) if p.members is not None]
    sql = with_lists(found.sql, catalog.dialect, lists) if lists else found.sql
    return ViewPlan(
        view,
        template_of(view, sql, catalog) if is_template else sql,
        whole=definition.options.materialization == "full",
        reads_views=found.views,
        upstream_views=upstream_views(found.sql, catalog),
        template=is_template,
    )


def _often_lost(view: View, catalog: Catalog) -> str | None:
    """Returns why a view's full materializations would be loaded again and again."""
    if not any(catalog.tables[table].cascades for table in tables_read(view)):
        return None
    whole = Explanation(view, catalog).fully_materialized_tables
    lost = min((table for table in whole if catalog.tables[table].cascades), default=None)
    return lost and (
        f"Foreign keys change rows of {lost}, which would be fully materialized, and loaded again after each deletion "
        "of a row that it references."
    )


def _reads(found: Expanded, described: Described, catalog: Catalog) -> tuple[TableRead, ...]:
    return table_reads([found.sql, *described.views], described.tables, catalog, described.parameters)


def _clock_read(found: Expanded, described: Described, catalog: Catalog) -> str | None:
    types = {parameter.name: parameter.type for parameter in described.parameters}
    return clock_read([found.sql, *described.views], described.tables, catalog, types)


def parameter_names(view: View | RefreshView) -> list[str]:
    """Returns the names of all parameters of a plan."""
    if isinstance(view, RefreshView):
        return [parameter.name for parameter in view.parameters]
    names = [name for p in (*view.parameters, *view.within) for name in p.names] + [bound.name for bound in view.ranges]
    cuts = (view.answer.limit_parameter, view.answer.offset_parameter)
    return names + [name for name in cuts if name is not None]


def template_of(view: View, sql: str, catalog: Catalog) -> str:
    """The view's SQL as a template that its parameters' values are filled into (`dataflow.sql.templates`)."""
    types = column_types(view.relation)
    known = {p.name: types[p.column].element or types[p.column] for p in (*view.parameters, *view.within)}
    known |= {r.name: types[r.column] for r in view.ranges}
    return template(statement_of(sql, catalog.dialect), known)


def place(sql: str, span: Span | None) -> dict[str, object]:
    """Returns the 1-based line and column of a span, and its text."""
    if span is None:
        span = Span(0, len(sql))
    start = min(span.start, len(sql))
    line = sql.count("\n", 0, start) + 1
    column = start - (sql.rfind("\n", 0, start) + 1) + 1
    excerpt = sql[start : max(span.end, start + 1)]
    if len(excerpt) > EXCERPT:
        excerpt = excerpt[: EXCERPT - 1] + "…"
    return {"line": line, "column": column, "excerpt": excerpt, "span": {"start": span.start, "end": span.end}}


def reason_of(error: ApiError) -> str:
    """Formats a problem on one line: reason, place, remedy."""
    where = ""
    if "line" in error.members:
        where = f" (line {error.members['line']}, column {error.members['column']}: {error.members['excerpt']})"
    return f"{error.detail}{where}{f' {error.hint}' if error.hint else ''}"
