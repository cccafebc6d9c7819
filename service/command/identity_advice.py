"""Replica identities that would spare the configured views something: the least for each table, and its cost.

Not here: uses of identities by plans (`dataflow.plan.identity_uses`), tables without any (`service.engine.databases`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from cdc.postgres.names import quote_identifier
from dataflow.plan.identity_uses import identity_uses
from dataflow.schema import Catalog, Table
from service.engine.upstream.identities import FULL, Identity, RowFigures, TableIdentity
from service.engine.upstream.results import Finding
from service.engine.views.registry import Tier, ViewPlan

#: Maximum length of a name in PostgreSQL (NAMEDATALEN).
_NAME_BYTES = 63
#: The last part of a qualified name: quoted or not.
_LAST_PART = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))$')
#: Maximum size of an index entry, in bytes (PostgreSQL manual, "B-Tree Indexes").
_ENTRY_BYTES = 2704
#: Bytes of log for an index entry beside the values (PostgreSQL 18).
_ENTRY_LOG_BYTES = 70


@dataclass(slots=True)
class _Need:
    """Columns that the identity of a table lacks, by the views that would be spared something by them."""

    materialized: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    evicted: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    @property
    def columns(self) -> set[str] | None:
        """All of these columns; None if a view needs whole rows."""
        lists = [*self.materialized, *self.evicted]
        return None if () in lists else {column for columns in lists for column in columns}


def repaired(catalog: Catalog, identities: Mapping[str, TableIdentity]) -> Catalog:
    """Returns the catalog with the least possible identity for each table that has none: plans follow tables only once
    they have one."""
    tables = dict(catalog.tables)
    for name, identity in identities.items():
        table = catalog.tables[name]
        columns = identity.least().columns
        if table.identity == ():
            ordinals = None if columns is None else tuple(sorted(map(table.ordinal, columns)))
            tables[name] = replace(table, identity=ordinals)
    return replace(catalog, tables=tables)


def identity_findings(
    plans: Iterable[ViewPlan], catalog: Catalog, identities: Mapping[str, TableIdentity]
) -> list[Finding]:
    """Returns a finding for each table whose identity costs these views memory or evictions."""
    needs: dict[str, _Need] = {}
    for plan in plans:
        for use in identity_uses(plan.view, catalog) if plan.tier != Tier.TTL else ():
            if use.missing is not None:
                need = needs.setdefault(use.table, _Need())
                views = (need.evicted if use.evicts else need.materialized).setdefault(use.missing, [])
                views.append(plan.view.name)
    return [
        _finding(catalog.tables[name], need, identities[name])
        for name, need in sorted(needs.items())
        if name in identities
    ]


def _finding(table: Table, need: _Need, identity: TableIdentity) -> Finding:
    known = [table.columns[i].name for i in table.identity or ()]
    wanted = [c for c in table.columns if need.columns is not None and c.name in need.columns]
    # The columns of lookups first, so that the index serves these, too.
    new = [c.name for c in wanted if c.name not in known]
    names = (*new, *known)
    nullable = [c.name for c in wanted if not c.not_null]
    chosen = FULL if need.columns is None else identity.least(names)
    sentences = [f"The replica identity of {table.name} is ({', '.join(known)}).", *_consequences(need)]
    sentences += writes(identity.figures)
    created: list[str] = []
    if identity.partitioned:
        chosen = FULL
        sentences.append("Partitions have an identity each, which later ones do not inherit.")
    elif chosen == FULL and nullable:
        sentences.append(f"An index cannot replace FULL, since {', '.join(nullable)} may be NULL.")
    elif chosen == FULL and need.columns is not None:
        name = _index_name(table.name, names)
        chosen = Identity(f"USING INDEX {quote_identifier(name)}", names)
        created = _creation(table.name, name, names, identity)
        long = [column for column in new if column in identity.figures.unbounded]
        sentences.append("CREATE INDEX CONCURRENTLY blocks no writes, and cannot run within a transaction.")
        sentences += [f"An index limits {', '.join(long)} to {_ENTRY_BYTES:,} bytes."] if long else []
    if chosen != FULL and need.materialized:
        sentences.append(
            "Without these rows, an update or delete evicts the keys of its row; with FULL it is applied in place."
        )
    sentences += _index_cost(chosen, known, identity.figures, new=bool(created))
    sentences.append(_cost_of_full(table, identity.figures))
    fix = "\n".join((*created, chosen.statement(table.name, partitioned=identity.partitioned)))
    return Finding("replica_identity", " ".join(sentences), fix, table.name, fatal=False)


def _consequences(need: _Need) -> Iterator[str]:
    """Yields a sentence for each group of views that lack the same columns."""
    for columns, views in need.materialized.items():
        lack = ", ".join(columns) or "other columns"
        yield f"For want of {lack}, rows are materialized to find old ones: {', '.join(sorted(views))}."
    for columns, views in need.evicted.items():
        yield (
            f"For want of {', '.join(columns)}, each update or delete evicts all cached keys that may be its row's, "
            f"not one: {', '.join(sorted(views))}."
        )


def writes(figures: RowFigures) -> list[str]:
    """Returns the sentence about how often the table is written to."""
    if figures.rate is not None:
        rate = f"{figures.rate:,.0f}" if figures.rate >= 100 or not figures.rate else f"{figures.rate:.2f}"
        return [f"pg_stat_user_tables counts {rate} updates and deletes a second."]
    return [f"pg_stat_user_tables counts {figures.updates_and_deletes:,} updates and deletes."]


def _creation(table: str, name: str, columns: Iterable[str], identity: TableIdentity) -> list[str]:
    """Returns the statements that create an index without blocking writes."""
    index, listed = quote_identifier(name), ", ".join(map(quote_identifier, columns))
    schema = table[: _last_part(table).start()]
    drop = [f"DROP INDEX CONCURRENTLY {schema}{index};"] if name in identity.invalid else []
    create = f"CREATE UNIQUE INDEX CONCURRENTLY {index} ON {table} ({listed});"
    return [*drop, create]


def _index_cost(chosen: Identity, known: list[str], figures: RowFigures, *, new: bool) -> Iterator[str]:
    """Yields an estimate of the log that an identity of some columns adds, if there is one."""
    if chosen.columns is None or not figures.widths.keys() >= set(chosen.columns):
        return
    of_index = sum(figures.widths[column] for column in chosen.columns)
    added = of_index - sum(figures.widths[column] for column in known)
    entry = f", and {of_index + _ENTRY_LOG_BYTES:,.0f} for each entry of the new index" if new else ""
    yield (
        f"{chosen.clause} adds about {added:,.0f} bytes to the log of a delete, {of_index:,.0f} to that of an update "
        f"of its columns{entry} (pg_stats)."
    )


def with_cost(finding: Finding, catalog: Catalog, identities: Mapping[str, TableIdentity]) -> Finding:
    """Returns a finding whose remedy is FULL with the cost of that."""
    table = finding.table
    if table is None or table not in identities or finding.fix != FULL.statement(table):
        return finding
    return replace(
        finding, reason=f"{finding.reason} {_cost_of_full(catalog.tables[table], identities[table].figures)}"
    )


def _cost_of_full(table: Table, figures: RowFigures) -> str:
    """Returns an estimate of the log that FULL adds, or the range that was measured."""
    widths, out_of_line = figures.widths, figures.out_of_line
    if out_of_line is None or not widths.keys() >= {column.name for column in table.columns}:
        return (
            "FULL writes 1 to 88 times the log of an update, by the size of the row (docs/replica-identity.md); after "
            f"ANALYZE {table.name} it can be estimated."
        )
    row = sum(widths.values()) + out_of_line
    rate = f", {figures.rate * row:,.0f} a second" if figures.rate else ""
    stored = f", {out_of_line:,.0f} of them for values stored out of line" if out_of_line else ""
    return f"FULL adds about {row:,.0f} bytes to the log of each update or delete{stored}{rate} (pg_stats, pg_class)."


def _last_part(table: str) -> re.Match[str]:
    found = _LAST_PART.search(table)
    assert found is not None, table
    return found


def _index_name(table: str, columns: Iterable[str]) -> str:
    """Returns a name that no index over other columns has been given here."""
    part = _last_part(table)
    name = "_".join(((part[1] or part[2]).replace('""', '"'), *columns, "identity"))
    if len(name.encode()) <= _NAME_BYTES:
        return name
    return f"{name[:12]}_{sha256(name.encode()).hexdigest()[:12]}_identity"
