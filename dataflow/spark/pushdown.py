"""Which of Spark's filters the upstream decides exactly as Spark would, on the same texts.

To Spark every column is text, so that a filter compares what is printed. That is the upstream's own ``=`` where equal
values print alike and the text is how such a value prints: integers, and text whose collation tells all texts apart.

Not here: reading (`snapshot_source`).
"""

from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import EqualTo, Filter, In, IsNotNull, IsNull

from dataflow.plan.render import quote, render
from dataflow.scalar import Literal
from dataflow.schema import SqlType
from dataflow.values import INTEGERS, TEXTS

_INT8 = SqlType("int8", "int8")
_TEXT = SqlType("text", "text")


def condition(wanted: Filter, columns: Mapping[str, SqlType]) -> str | None:
    """The filter as SQL over a table ``t`` with these columns; None if only Spark decides it exactly."""
    match wanted:
        case IsNull(attribute=(name,)) if name in columns:
            return f"t.{quote(name)} IS NULL"
        case IsNotNull(attribute=(name,)) if name in columns:
            return f"t.{quote(name)} IS NOT NULL"
        case EqualTo(attribute=(name,), value=value) if name in columns:
            return _one_of(name, columns[name], [value])
        case In(attribute=(name,), value=values) if name in columns:
            return _one_of(name, columns[name], values)
    return None


def _one_of(name: str, sql_type: SqlType, values: Sequence[object]) -> str | None:
    literals = [_literal(sql_type, value) for value in values]
    if not literals or any(literal is None for literal in literals):
        return None
    return f"t.{quote(name)} IN ({', '.join(str(literal) for literal in literals)})"


def _literal(sql_type: SqlType, value: object) -> str | None:
    if not isinstance(value, str) or "\0" in value or sql_type.kind != "base":
        return None
    if sql_type.name in TEXTS and sql_type.collation != "nondeterministic":
        return render(Literal(value, _TEXT), str)
    if sql_type.name in INTEGERS and _is_printed_integer(value):
        return render(Literal(value, _INT8), str)
    return None


def _is_printed_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text and -(2**63) <= int(text) < 2**63


__all__ = ["condition"]
