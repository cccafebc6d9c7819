"""Catalog snapshots and the difference between two of them.

Not here: when the catalog is read (`schema_watch`), the consequences (`repair`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from cdc.change import SchemaNotice, TableLayout
from dataflow.plan.refresh import RefreshView
from dataflow.schema import Catalog, Table
from service.engine.upstream.results import SchemaToken
from service.engine.views.registry import ViewPlan


@dataclass(frozen=True, slots=True)
class Look:
    """Catalog at one time; `notices` concern the tables of `layouts`, which were followed then."""

    token: SchemaToken | None
    code: Mapping[tuple[str, str], str]
    catalog: Catalog
    layouts: Mapping[str, TableLayout] = field(default_factory=dict)
    notices: list[SchemaNotice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CatalogDifference:
    """Difference between two reads of the catalog."""

    #: Upstream views that were redefined, with their current definitions.
    views: frozenset[tuple[str, str]]
    #: New relations.
    names: frozenset[str]
    #: Tables whose columns differ, or that were dropped.
    tables: frozenset[str]
    #: Those, and tables whose keys differ.
    unpromised: frozenset[str]
    #: Functions, types, policies … that differ, by lower-case name.
    code: frozenset[str]
    #: True if any plan may differ.
    any: bool

    @classmethod
    def between(cls, last: Look, found: Look) -> Self:
        """Compares two reads of the catalog; `found` is the later one."""
        before, now = last.catalog, found.catalog
        names = (now.tables.keys() | now.views.keys()) - before.tables.keys() - before.views.keys()
        tables = {name for name, t in before.tables.items() if _columns(now.tables.get(name)) != t.columns}
        code = {at for at in last.code.keys() | found.code.keys() if last.code.get(at) != found.code.get(at)}
        if any(kind == "type" for kind, _ in code):
            # A changed type may be part of another type, and only that one is named in SQL.
            code |= {(kind, name) for kind, name in found.code if kind == "type"}
        unpromised = {name for name, t in before.tables.items() if _promises(t) != _promises(now.tables.get(name))}
        views = frozenset((view.name, view.sql) for view in now.views.values())
        return cls(
            views,
            frozenset(names),
            frozenset(tables),
            frozenset(unpromised),
            frozenset(name.lower() for _, name in code),
            bool(code or names or unpromised or before.views != now.views),
        )

    def spares(self, plan: ViewPlan) -> bool:
        """True if an earlier incremental plan would be made again now."""
        return self.concerns(plan) is None and self.unpromised.isdisjoint(plan.tables)

    def concerns(self, plan: ViewPlan) -> str | None:
        """Returns why the plan may differ now, apart from changes noticed of its tables."""
        changed = plan.upstream_views - self.views
        if changed:
            return f"The database's view {min(changed)[0]} was redefined."
        read = plan.tables | {name for name, _ in plan.upstream_views}
        # Relations of the upstream take precedence over registered views.
        bare = {_bare(name) for name in read} | plan.reads_views
        hiding = [name for name in self.names - read if _bare(name) in bare]
        if hiding:
            return f"The view's SQL may refer to the new relation {min(hiding)}."
        if not isinstance(plan.view, RefreshView) or plan.view.ttl_ms is not None:
            return None
        text = " ".join((plan.sql, *(sql for _, sql in plan.upstream_views))).lower()
        used = [name for name in self.code if name in text]
        if used:
            return f"{min(used) or 'An operator, a collation or the like'} of the database was redefined."
        altered = self.tables & plan.tables
        return f"The columns of {min(altered)} have changed." if altered else None


def _bare(name: str) -> str:
    return name.rpartition(".")[2].strip('"`')


def _columns(table: Table | None) -> object:
    return None if table is None else table.columns


def _promises(table: Table | None) -> object:
    return None if table is None else (table.columns, table.keys)
