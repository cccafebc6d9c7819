"""Effects of a migration on views: the service's planner and its checks of the schema, on a copy of the database before
and after the migration.

*Theory*: a running service plans those views again that read what has changed (`service.engine.views.repair`); the
others go on with their state. All views are planned again at the next start, so a view that has no plan then, or
another tier, is reported even if the running service does not notice.

Not here: the copy (`schema_copy`), the migration's execution (`execution`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cdc.change import SchemaNotice
from dataflow.engine.explain import Explanation
from dataflow.plan.nodes import View
from dataflow.schema import Catalog, Table
from service.engine.upstream.constraints import broken, is_looser
from service.engine.upstream.results import Finding, UpstreamError
from service.engine.upstream.upstream import UpstreamSession
from service.engine.views.catalog_diff import CatalogDifference, Look
from service.engine.views.planner import Planning, TableChecks, reason_of
from service.engine.views.registry import Definition, Tier, ViewPlan
from service.engine.views.repair import uses
from service.engine.views.tables import FollowedTables, TableRefusedError
from service.ground.errors import ApiError
from service.settings.stack import Settings

_LATER = "The running service does not notice; it is so after its next start."


class Effect(StrEnum):
    """Effect of a migration on a view."""

    #: State and plan are unaffected.
    STAYS = "stays"
    #: Planned again in the same tier; state is lost, and the database answers reads meanwhile.
    REPLANNED = "replanned"
    TIER_CHANGES = "tier changes"
    BREAKS = "breaks"


@dataclass(frozen=True, slots=True)
class ViewEffect:
    """Effect on a view; `tier`: before and after, None without a plan."""

    view: str
    effect: Effect
    tier: str | None
    tier_after: str | None
    #: Reason of the effect, and its remedy.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TableReport:
    """Change of a table that views read, or a problem that it has since then."""

    table: str
    reason: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Effects of a migration."""

    views: list[ViewEffect]
    tables: list[TableReport]

    @property
    def is_harmless(self) -> bool:
        """True if no view breaks or changes its tier."""
        return all(view.effect in (Effect.STAYS, Effect.REPLANNED) for view in self.views)


@dataclass(slots=True)
class Planned:
    """All views planned at one state of the schema."""

    look: Look
    plans: dict[str, ViewPlan] = field(default_factory=dict)
    #: Reasons of views without a plan.
    problems: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def tier(self, view: str) -> str | None:
        """Returns a view's tier, with its materialization if that is full."""
        plan = self.plans.get(view)
        if plan is None or not isinstance(plan.view, View):
            return None if plan is None else plan.tier.value
        full = Explanation(plan.view, self.look.catalog, whole=plan.whole).materialization == "full"
        return f"{Tier.INCREMENTAL.value}, full" if full else Tier.INCREMENTAL.value

    @property
    def tables(self) -> set[str]:
        """Tables that the plans read."""
        return {table for plan in self.plans.values() for table in plan.tables}


class Forecast:
    """Plans made before a migration, and the prediction after it.

    *State*: `before`, and the tables that a service would follow then.
    """

    def __init__(self, settings: Settings, definitions: Iterable[Definition], *, extends: bool) -> None:
        """`extends`: the service's engine can extend a table's rows, so that other views of it go on."""
        self._settings = settings
        self._extends = extends
        self._definitions = list(definitions)
        self._following = FollowedTables(settings.cdc)
        self.before = Planned(Look(None, {}, Catalog()))

    async def begin(self, session: UpstreamSession) -> None:
        """Plans all views and follows their tables. Raises `UpstreamError`, `TableRefusedError`."""
        self.before = await self._planned(session)
        tables = sorted(self.before.tables)
        self._following.restart(self.before.look.catalog)
        await self._following.follow(session, tables, self.before.look.catalog)
        self.before.findings = await session.check_tables(tables)

    async def predict(self, session: UpstreamSession) -> Prediction:
        """Compares with `begin`, after the migration. Raises `UpstreamError`."""
        fresh = await session.load_catalog(definition.sql for definition in self._definitions)
        notices = await session.check_schema(self._following.layouts, self._following.catalog.tables, fresh)
        after = await self._planned(session)
        after.look.notices.extend(notices)
        after.findings = await session.check_tables(sorted(after.tables))
        causes = self._causes(after)
        views = [self._effect(definition.name, after, causes) for definition in self._definitions]
        return Prediction(views, _table_effects(self.before, after))

    async def _planned(self, session: UpstreamSession) -> Planned:
        texts = [definition.sql for definition in self._definitions]
        look = Look(None, await session.load_code(), await session.load_catalog(texts))
        planned = Planned(look)
        checks = TableChecks(self._following.refusals)
        for definition in self._definitions:
            others = {d.name: d.sql for d in self._definitions if d is not definition}
            planning = Planning(replace(look.catalog, registered=others), checks, self._settings.auth is not None)
            try:
                plan = await planning.plan(session, definition)
                await self._following.publish(session, plan.tables)
                planned.plans[definition.name] = plan
            except ApiError as error:
                planned.problems[definition.name] = reason_of(error)
            except TableRefusedError as refused:
                planned.problems[definition.name] = str(refused)
            except UpstreamError as error:
                if error.code != "denied":
                    raise
                planned.problems[definition.name] = str(error)
        return planned

    def _causes(self, after: Planned) -> dict[str, str]:
        """Returns the views that the service plans again, with the reason."""
        before = self.before
        difference = CatalogDifference.between(before.look, after.look)
        causes: dict[str, str] = {}
        for name, plan in before.plans.items():
            spared = self._spared(name, after)
            for notice in after.look.notices:
                if notice.table not in spared and uses(plan, notice, before.look.catalog.tables):
                    causes.setdefault(name, notice.reason)
            if (reason := difference.concerns(plan)) is not None:
                causes.setdefault(name, reason)
        return causes if self._extends else self._of_whole_tables(causes, after.look.notices)

    def _spared(self, name: str, after: Planned) -> set[str]:
        """Returns tables whose columns have only lost NOT NULL, which the view's plan does not rely on."""
        before, now = self.before.plans[name], after.plans.get(name)
        if now is None or not isinstance(now.view, View) or now.view != before.view:
            return set()
        former, found = self.before.look.catalog.tables, after.look.catalog.tables
        notices = after.look.notices
        return {t for t in before.tables & former.keys() & found.keys() if _is_looser(former[t], found[t], notices)}

    def _of_whole_tables(self, causes: dict[str, str], notices: list[SchemaNotice]) -> dict[str, str]:
        """Adds the views of altered tables that a view in `causes` reads."""
        altered = {notice.table for notice in notices}
        found = dict(causes)
        while True:
            lost = {table for name in found for table in self.before.plans[name].tables & altered}
            new = {name for name, plan in self.before.plans.items() if name not in found and lost & plan.tables}
            if not new:
                return found
            for name in new:
                table = min(lost & self.before.plans[name].tables)
                found[name] = f"The columns of {table} have changed; a view that reads them is planned again."

    def _effect(self, view: str, after: Planned, causes: Mapping[str, str]) -> ViewEffect:
        tiers = self.before.tier(view), after.tier(view)
        problem, cause = after.problems.get(view), causes.get(view)
        was_broken = self.before.problems.get(view)
        if was_broken is not None:
            effect = Effect.STAYS if problem is not None else Effect.REPLANNED
            return ViewEffect(view, effect, *tiers, f"It was broken before the migration: {was_broken}")
        if problem is not None:
            return ViewEffect(view, Effect.BREAKS, *tiers, f"{problem} {_LATER if cause is None else cause}")
        if tiers[0] != tiers[1]:
            reason = _reason(after.plans[view]) or cause
            return ViewEffect(
                view, Effect.TIER_CHANGES, *tiers, f"{reason or ''} {_LATER}" if cause is None else reason
            )
        return ViewEffect(view, Effect.STAYS if cause is None else Effect.REPLANNED, *tiers, cause)


def _reason(plan: ViewPlan) -> str | None:
    """Returns why a view is not maintained incrementally."""
    return None if isinstance(plan.view, View) else plan.view.reason


def _is_looser(former: Table, found: Table, notices: list[SchemaNotice]) -> bool:
    """True if columns of a table lost NOT NULL, and nothing else has changed."""
    # Other notices are about the layout of its rows, or about keys.
    return is_looser(former, found) and [n for n in notices if n.table == former.name] == [*broken(former, found)]


def _table_effects(before: Planned, after: Planned) -> list[TableReport]:
    """Returns what the checks of the schema report, and new problems of the tables that are read then."""
    known = {(finding.code, finding.table) for finding in before.findings}
    found = {notice.table: TableReport(notice.table, notice.reason) for notice in after.look.notices}
    for finding in after.findings:
        if finding.table is not None and (finding.code, finding.table) not in known:
            found.setdefault(finding.table, TableReport(finding.table, finding.reason, finding.fix))
    return list(found.values())
