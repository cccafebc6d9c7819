"""Replica identities: tables of which the stream carries old rows in part.

A change of such a table has the old values of the identity's columns, and of a new row everything but some values that
did not change (PostgreSQL: TOASTed ones). The tables and their identities are drawn for a run, and may be altered in it
(`alterations`); some transactions carry whole rows all the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from dataflow.engine.events import TableDelta
from dataflow.schema import Catalog, Table
from dataflow.types import UNKNOWN, Columns, PartialChange, Row, columns_of

#: Columns of the identity by table; a table that is missing has whole old rows.
Identities = Mapping[str, Columns]

#: Identities that a table can have: its primary key, or an index that begins with it.
CHOICES: dict[str, tuple[Columns, ...]] = {
    "public.users": ((0,), (0, 1)),
    "public.stories": ((0,), (0,), (0, 1)),
    "public.comments": ((0,), (0,), (0, 1)),
    "public.tags": ((0, 1),),
}
#: Identities that a table may be altered to have, among them such without its primary key.
ALTERED: dict[str, tuple[Columns, ...]] = {
    "public.users": ((0,), (0, 1), (1,)),
    "public.stories": ((0,), (0, 1), (1, 2)),
    "public.comments": ((0,), (0, 1), (1, 2)),
    "public.tags": ((0, 1), (1,)),
}
#: Views by all columns of an identity: a partial change has all rows of their keys.
BY_IDENTITY = ("stories_by_0", "stories_by_0_1", "karma_by_0_1", "tags_by_0_1")


def any_identities(rng: Random) -> dict[str, Columns]:
    """The identities of one run; none in most."""
    if rng.random() < 0.6:
        return {}
    return {table: rng.choice(choices) for table, choices in CHOICES.items() if rng.random() < 0.8}


def with_identities(catalog: Catalog, identities: Identities) -> Catalog:
    """The catalog, with the identities of its tables."""
    return replace(catalog, tables={name: with_identity(table, identities) for name, table in catalog.tables.items()})


def with_identity(table: Table, identities: Identities) -> Table:
    """The table, with its identity of these."""
    return replace(table, identity=tuple(identities[table.name]) if table.name in identities else None)


def streamed(delta: TableDelta, identity: Columns, key: Columns, rng: Random) -> TableDelta:
    """A transaction's net change of a table, with this primary key, as the stream carries it."""
    if delta.overflow or not delta.removed or rng.random() < 0.1:
        return delta
    unique = identity if set(key) <= set(identity) else key
    by_key = {columns_of(row, unique): row for row in delta.added}
    pairs = [(row, by_key.pop(columns_of(row, unique), None)) for row in delta.removed]
    added = list(by_key.values())
    partial: list[PartialChange] = []
    for old, new in pairs:
        if new is None and added and rng.random() < 0.5:
            # An update of the identity itself.
            new = added.pop(rng.randrange(len(added)))
        image = None if new is None else _sent(old, new, identity, rng)
        if image is not None and UNKNOWN in image and rng.random() < 0.2:
            # A REPLACE, which MySQL logs without the values that it resets to defaults.
            partial += [(_known(old, identity), None), (None, image)]
        else:
            partial.append((_known(old, identity), image))
    if added and rng.random() < 0.2:
        # Values that are the column's default, which MySQL may omit.
        partial.append((None, _sent(added[-1], added.pop(), identity, rng)))
    rng.shuffle(partial)
    return TableDelta([], added, partial=partial, implied=delta.implied)


def _known(row: Row, identity: Columns) -> Row:
    """The part of an old row that the stream carries."""
    return tuple([value if column in identity else UNKNOWN for column, value in enumerate(row)])


def _sent(old: Row, new: Row, identity: Columns, rng: Random) -> Row:
    """A new row without some of the values that did not change."""
    omitted = rng.choice((0, 0, 0.5, 1))
    return tuple(
        [
            UNKNOWN if value == old[column] and column not in identity and rng.random() < omitted else value
            for column, value in enumerate(new)
        ]
    )
