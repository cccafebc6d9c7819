"""Semijoins' statements: keys are taken from columns of other types, too, as those of lookups are."""

from dataflow.lookups.mysql.lookup import semijoin_statements
from dataflow.plan.nodes import Chain
from dataflow.plan.parts import Lookup, Semijoin
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.types import Key, LookupId, NodeId

INT = SqlType("int4", "int(11)")
CATALOG = Catalog(
    {name: Table(name, (Column("id", INT, True), Column("place", INT)), keys=((0,),)) for name in ("d.s", "d.b")},
    dialect="mariadb",
)


def statements(keys: tuple[Key, ...]) -> tuple[str, str]:
    """Return those for the rows of b whose place is the id of a row of s that has one of `keys` as its place."""
    shelves, books = (Chain(name, None, (ColumnRef(0, INT), ColumnRef(1, INT))) for name in ("d.s", "d.b"))
    semijoin = Semijoin(Lookup(LookupId(1), NodeId(1), shelves, (1,), keys), (0,))
    return semijoin_statements(Lookup(LookupId(2), NodeId(2), books, (1,), ()), semijoin, CATALOG)


def test_a_number_that_no_integer_is_matches_nothing() -> None:
    assert statements((("7",), ("1.5",))) == statements((("7",),))
    assert [sql.endswith(end) for sql, end in zip(statements((("1.5",),)), ("FALSE", "FALSE)"), strict=True)] == [
        True
    ] * 2
