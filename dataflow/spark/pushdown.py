"""Which of Spark's filters the upstream decides exactly as Spark would, on the same texts.

To Spark every column is text, so that a filter compares what is printed. That is the upstream's own ``=`` where equal
values print alike and the text is how such a value prints: integers, and text whose collation tells all texts apart.

Not here: reading (`snapshot_source`).
"""

from collections.abc import Sequence

from pyspark.sql.datasource import EqualTo, Filter, In, IsNotNull, IsNull

from dataflow.plan.expressions import BOOL
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType, Table

_INT8 = SqlType("int8", "int8")
_TEXT = SqlType("text", "text")


def condition(wanted: Filter, table: Table, compares_texts: bool) -> Scalar | None:
    """The filter over a table's columns; None if only Spark decides it exactly."""
    match wanted:
        case IsNull(attribute=(name,)):
            return _of_null("is null", table, name)
        case IsNotNull(attribute=(name,)):
            return _of_null("is not null", table, name)
        case EqualTo(attribute=(name,), value=value):
            return _one_of(table, name, [value], compares_texts)
        case In(attribute=(name,), value=values):
            return _one_of(table, name, values, compares_texts)
        case _:
            return None


def _column(table: Table, name: str) -> ColumnRef | None:
    try:
        ordinal = table.ordinal(name)
    except KeyError:
        return None
    return ColumnRef(ordinal, table.columns[ordinal].type)


def _of_null(function: str, table: Table, name: str) -> Scalar | None:
    column = _column(table, name)
    return None if column is None else Call(function, (column,), BOOL)


def _one_of(table: Table, name: str, values: Sequence[object], compares_texts: bool) -> Scalar | None:
    column = _column(table, name)
    literals = [] if column is None else [_literal(column.type, value, compares_texts) for value in values]
    known = [literal for literal in literals if literal is not None]
    if column is None or not known or len(known) < len(literals):
        return None
    return Call("in", (column, *known), BOOL)


def _literal(sql_type: SqlType, value: object, compares_texts: bool) -> Literal | None:
    if not isinstance(value, str) or "\0" in value or sql_type.kind != "base":
        return None
    if sql_type.is_text and sql_type.collation != "nondeterministic" and compares_texts:
        return Literal(value, _TEXT)
    # (To MariaDB and MySQL the constant 50 is the year 2050.)
    if sql_type.is_integer and _is_printed_integer(value) and not sql_type.sql.startswith("year"):
        return Literal(value, _INT8)
    return None


def _is_printed_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text and -(2**63) <= int(text) < 2**63


__all__ = ["condition"]
