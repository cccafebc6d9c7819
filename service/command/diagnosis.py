"""``upquery doctor``: what must be true of the upstream and its change stream, looked at before anything is served.

Not here: the checks themselves (`service.engine.databases`, `cdc.debezium.checks`), how findings are shown
(`service.command.cli`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dataflow.engine.explain import Explanation
from dataflow.plan.nodes import View
from dataflow.plan.table_access import chain_of
from dataflow.schema import Catalog
from service.command.identity_advice import identity_findings, repaired, with_cost
from service.engine.builds.requirements import missing_requirement
from service.engine.databases.drivers import open_upstream, stream_findings
from service.engine.upstream.results import Finding, UpstreamError
from service.engine.upstream.upstream import UpstreamSession
from service.engine.views.planner import Planning, TableChecks, reason_of
from service.engine.views.registry import Definition, Origin, Tier, ViewOptions, ViewPlan
from service.engine.views.tables import TableRefusedError
from service.ground.errors import ApiError
from service.settings.sections import ViewSettings
from service.settings.stack import Settings
from service.settings.transport import UPSTREAM_URL, transports

#: Findings whose fix changes how much is written into the log, and nothing else.
SAFE = frozenset({"replica_identity"})


@dataclass(slots=True)
class Examination:
    """Findings, and those of them that were repaired."""

    findings: list[Finding] = field(default_factory=list)
    fixed: list[Finding] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """True if no finding prevents operation."""
        return not any(finding.fatal for finding in self.findings)


async def examine(settings: Settings, *, fix: bool = False) -> Examination:
    """Looks at the server, the tables that the configured views read, and the stream. Raises `SettingsError`.

    `fix`: repairs what is `SAFE` to.
    """
    found = Examination(_spark(settings))
    upstream = open_upstream(settings)
    try:
        async with upstream.session() as session:
            found.findings += await session.check_server()
            found.findings += transport_findings(settings, await session.encryption())
            found.findings += await session.check_slots()
            await _marks(session, found, fix=fix)
            if settings.shard.of > 1:
                found.findings += await session.check_streams(settings.shard.of)
            catalog = await session.load_catalog(view.sql for view in settings.views)
            identities = await session.load_identities(catalog.tables)
            catalog = repaired(catalog, identities)
            plans = await _plans(session, catalog, settings.views, found)
            tables = sorted(frozenset[str]().union(*(plan.tables for plan in plans)))
            await _tables(session, tables, found, fix=fix)
            found.findings = [with_cost(finding, catalog, identities) for finding in found.findings]
            found.findings += identity_findings(plans, catalog, identities)
            found.findings += _slow_lookups(plans, catalog)
            layouts = await session.load_layouts(tables)
        found.findings += await stream_findings(settings, layouts, catalog.dialect)
    except UpstreamError as error:
        found.findings.append(Finding(error.code, error.detail, error.hint))
    finally:
        await upstream.close()
    return found


def transport_findings(settings: Settings, encryption: str) -> list[Finding]:
    """Connections to other machines whose server is not verified. `encryption` is of the lookups' connections, as
    `UpstreamSession.encryption` has it."""
    findings = []
    for each in transports(settings.upstream, settings.cdc):
        of_lookups = each.setting == UPSTREAM_URL
        # Kerberos authenticates the server, too.
        if not each.host or each.verified or (of_lookups and encryption == "Kerberos"):
            continue
        mode = f"{each.parameter} is {each.mode}" + ("" if each.chosen else " by default")
        if of_lookups and not encryption:
            problem = f"is not encrypted ({mode}): anyone who can intercept it can read and change queries and rows."
        else:
            problem = f"does not verify the server ({mode}): anyone who can intercept it can impersonate the server."
        findings.append(
            Finding("tls", f"The connection of {each.setting} to {each.host} {problem}", each.remedy, fatal=False)
        )
    return findings


def _spark(settings: Settings) -> list[Finding]:
    """Findings about Spark, if it is configured; without it large initial state is read directly."""
    missing = None if settings.spark is None else missing_requirement()
    return [] if missing is None else [Finding("spark", missing.detail, missing.hint or None, fatal=False)]


async def _plans(
    session: UpstreamSession, catalog: Catalog, views: Iterable[ViewSettings], found: Examination
) -> list[ViewPlan]:
    """The plans of the views that have one; the others are findings, and so are tables for which views expire.

    Other problems of tables do not change plans: they are assumed to be repaired.
    """
    not_streamed: dict[str, Finding] = {}

    async def not_followed(session: UpstreamSession, tables: Iterable[str]) -> dict[str, TableRefusedError]:
        checked = await session.check_tables(tables)
        new = {f.table: f for f in checked if f.code == "not_streamed" and f.fatal and f.table is not None}
        not_streamed.update(new)
        return {table: TableRefusedError(f.reason, f.fix, streamed=False) for table, f in new.items()}

    checks = TableChecks(not_followed)
    registered = {view.name: view.sql for view in views}
    plans = []
    for view in views:
        others = {name: sql for name, sql in registered.items() if name != view.name}
        options = ViewOptions(view.tier, view.ttl, view.materialization)
        definition = Definition(view.name, view.sql, Origin.CONFIG, options)
        known = Catalog(catalog.tables, catalog.search_path, catalog.views, others, catalog.text, catalog.dialect)
        try:
            plans.append(await Planning(known, checks).plan(session, definition))
        except ApiError as error:
            found.findings.append(Finding("view", f"View {view.name}: {reason_of(error)}"))
        except TableRefusedError as error:
            found.findings.append(Finding("view", f"View {view.name}: {error.reason}", error.hint))
    for table, finding in not_streamed.items():
        expiring = sorted(plan.view.name for plan in plans if plan.tier == Tier.TTL and table in plan.described)
        if expiring:
            reason = f"{finding.reason} Views of the tier ttl, whose answers expire: {', '.join(expiring)}."
            found.findings.append(replace(finding, reason=reason, fatal=False))
    return plans


async def _marks(session: UpstreamSession, found: Examination, *, fix: bool) -> None:
    """Check that the stream contains changes of the schema. A role without the right to create the marks is told the
    SQL."""
    for finding in await session.check_marks():
        try:
            if fix:
                await session.make_marks()
                found.fixed.append(finding)
                continue
        except UpstreamError as error:
            finding = replace(finding, reason=f"{finding.reason} {error.detail}")
        found.findings.append(finding)


async def _tables(session: UpstreamSession, tables: Iterable[str], found: Examination, *, fix: bool) -> None:
    for finding in await session.check_tables(tables):
        if fix and finding.fatal and finding.code in SAFE:
            await session.repair_identity(finding)
            found.fixed.append(finding)
        else:
            found.findings.append(finding)


def _slow_lookups(plans: Iterable[ViewPlan], catalog: Catalog) -> list[Finding]:
    """Lookups that no index supports, each reported once."""
    warnings: dict[str, str] = {}
    for plan in plans:
        if isinstance(plan.view, View):
            explanation = Explanation(plan.view, catalog, whole=plan.whole)
            lookups = (*explanation.lookups(), *explanation.part_lookups())
            warnings.update({each.warning: chain_of(each.relation).table for each in lookups if each.warning})
    return [
        Finding("index", f"{text[0].upper()}{text[1:]}.", table=table, fatal=False) for text, table in warnings.items()
    ]
