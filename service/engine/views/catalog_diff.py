"""The upstream's catalog as it was found, and how one look differs from the one before.

Not here: when it is looked at (`schema_watch`), what is done about it (`repair`).
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
    """The catalog as it was found; `notices` are about the tables of `layouts`, which were followed then."""

    token: SchemaToken | None
    code: Mapping[tuple[str, str], str]
    catalog: Catalog
    layouts: Mapping[str, TableLayout] = field(default_factory=dict)
    notices: list[SchemaNotice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CatalogDifference:
    """How one look differs from the one before."""

    #: Views of the upstream, with their definitions, as they are now.
    views: frozenset[tuple[str, str]]
    #: Relations that were not there.
    names: frozenset[str]
    #: Tables that have other columns, or are gone.
    tables: frozenset[str]
    #: Those, and tables that have other keys.
    unpromised: frozenset[str]
    #: Functions, types, policies … that are others, by their names in lower case.
    code: frozenset[str]
    #: Whether a plan may be another one.
    any: bool

    @classmethod
    def between(cls, last: Look, found: Look) -> Self:
        """`found` is the later one."""
        before, now = last.catalog, found.catalog
        names = (now.tables.keys() | now.views.keys()) - before.tables.keys() - before.views.keys()
        tables = {name for name, t in before.tables.items() if _columns(now.tables.get(name)) != t.columns}
        code = {at for at in last.code.keys() | found.code.keys() if last.code.get(at) != found.code.get(at)}
        if any(kind == "type" for kind, _ in code):
            # One type may be part of another, which is all that SQL names.
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
        """Whether an incremental plan of the look before is the one that would be made now."""
        return self.concerns(plan) is None and self.unpromised.isdisjoint(plan.tables)

    def concerns(self, plan: ViewPlan) -> str | None:
        """Why the plan may be another one now, beside what is noticed of the tables that it reads."""
        changed = plan.upstream_views - self.views
        if changed:
            return f"The database's view {min(changed)[0]} is another one now."
        read = plan.tables | {name for name, _ in plan.upstream_views}
        # What the upstream has comes before registered views.
        bare = {_bare(name) for name in read} | plan.reads_views
        hiding = [name for name in self.names - read if _bare(name) in bare]
        if hiding:
            return f"There is a new {min(hiding)} that its SQL may mean."
        if not isinstance(plan.view, RefreshView) or plan.view.ttl_ms is not None:
            return None
        text = " ".join((plan.sql, *(sql for _, sql in plan.upstream_views))).lower()
        used = [name for name in self.code if name in text]
        if used:
            return f"{min(used) or 'An operator, a collation or the like'} of the database is another one now."
        altered = self.tables & plan.tables
        return f"{min(altered)} has other columns now." if altered else None


def _bare(name: str) -> str:
    return name.rpartition(".")[2].strip('"`')


def _columns(table: Table | None) -> object:
    return None if table is None else table.columns


def _promises(table: Table | None) -> object:
    return None if table is None else (table.columns, table.keys)
