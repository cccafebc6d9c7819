"""SQL types by the names that casts have, and those of constants."""

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import BOOL, INT4, INT8, NUMERIC
from dataflow.schema import SqlType

#: A string constant or NULL whose type its surroundings decide.
UNKNOWN = SqlType("unknown", "unknown", kind="other")
#: Text of a collation that is not known (the database's): never ordered.
TEXT = SqlType("text", "text", collation="deterministic")
INT2 = SqlType("int2", "int2")
FLOAT4 = SqlType("float4", "float4")
FLOAT8 = SqlType("float8", "float8")

_BY_NAME = {
    "SMALLINT": INT2,
    "INT": INT4,
    "BIGINT": INT8,
    "DECIMAL": NUMERIC,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "TEXT": TEXT,
    "VARCHAR": SqlType("varchar", "varchar", collation="deterministic"),
    "BOOLEAN": BOOL,
    **{
        name.upper(): SqlType(name, name)
        for name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid")
    },
    "VARBINARY": SqlType("bytea", "bytea"),
}


def cast_type(node: exp.Expr) -> SqlType:
    """The type that a cast names. UnsupportedQuery if it has a length or scale, or is not known."""
    if isinstance(node, exp.DataType) and not node.expressions:
        found = _BY_NAME.get(node.this.value if hasattr(node.this, "value") else str(node.this))
        if found is not None:
            return found
    raise UnsupportedQuery(f"A cast to {node.sql('postgres').lower()} is not on the list of exact functions.")
