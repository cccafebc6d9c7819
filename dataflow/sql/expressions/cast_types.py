"""SQL types by the names that casts have, and those of constants."""

from dataclasses import replace

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import BOOL, INT4, INT8, NUMERIC
from dataflow.plan.render import bare, quote
from dataflow.schema import Catalog, SqlType

#: A string constant or NULL whose type its surroundings decide.
UNKNOWN = SqlType("unknown", "unknown", kind="other")
#: Text of a collation that is not known (the database's): never ordered, never folded.
TEXT = SqlType("text", "text", collation="deterministic")
_VARCHAR = SqlType("varchar", "varchar", collation="deterministic")
_BPCHAR = SqlType("bpchar", "bpchar", collation="deterministic")
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
    "VARCHAR": _VARCHAR,
    "CHAR": _BPCHAR,
    "BPCHAR": _BPCHAR,
    "BOOLEAN": BOOL,
    **{
        name.upper(): SqlType(name, name)
        for name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb")
    },
    "VARBINARY": SqlType("bytea", "bytea"),
}
_TYPES = {t.name: t for t in _BY_NAME.values()}
#: The most that a length, precision or scale can be.
_LIMITS = {"numeric": 1000, "varchar": 10_485_760, "bpchar": 10_485_760, "timestamp": 6, "timestamptz": 6}
_SMALLEST = {"timestamp": 0, "timestamptz": 0}


def type_of(name: str) -> SqlType:
    """The type of that name, as signatures have it; text is of no known collation."""
    if name.endswith("[]"):
        return array_of(type_of(name[:-2]))
    return _TYPES[name]


def array_of(element: SqlType) -> SqlType:
    """Arrays of a type."""
    return SqlType(element.name, f"{element.sql}[]", "array", element, collation=element.collation)


def cast_type(node: exp.Expr) -> SqlType:
    """The type that a cast names. UnsupportedQuery if it is not known."""
    found = _cast_type(node)
    if found is None:
        raise UnsupportedQuery(f"A cast to {node.sql('postgres').lower()} is not on the list of exact functions.")
    return found


def _cast_type(node: exp.Expr) -> SqlType | None:
    if not isinstance(node, exp.DataType):
        return None
    word = node.this.value if hasattr(node.this, "value") else str(node.this)
    if word == "ARRAY":
        element = _cast_type(node.expressions[0]) if len(node.expressions) == 1 else None
        return None if element is None or element.sql.endswith(")") else array_of(element)
    found = _BY_NAME.get(word)
    if found is None:
        return None
    numbers = [_number(e) for e in node.expressions]
    if found.name == "bpchar" and word == "CHAR" and not numbers:
        numbers = [1]
    if not numbers:
        return found
    return _limited(found, [n for n in numbers if n is not None]) if None not in numbers else None


def enum_type(node: exp.Expr, catalog: Catalog) -> SqlType | None:
    """The enum, or array of one, that a cast names, if a column has it: by its schema's name, or by the search path."""
    kind = node.args.get("kind")
    if isinstance(node, exp.DataType) and node.this is exp.DType.ARRAY and len(node.expressions) == 1:
        element = enum_type(node.expressions[0], catalog)
        return None if element is None else array_of(element)
    if not isinstance(node, exp.DataType) or not isinstance(kind, exp.Identifier | exp.Dot):
        return None
    parts = [_name(kind.this), _name(kind.expression)] if isinstance(kind, exp.Dot) else [_name(kind)]
    schemas = parts[:-1] or list(catalog.search_path)
    enums = {
        column.type.sql: column.type
        for table in catalog.tables.values()
        for column in table.columns
        if column.type.kind == "enum"
    }
    for schema in schemas:
        for written in (f"{s}.{n}" for s in (bare(schema), quote(schema)) for n in (bare(parts[-1]), quote(parts[-1]))):
            if written in enums:
                return enums[written]
    return None


def _name(identifier: exp.Expr) -> str:
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.lower()


def _number(node: exp.Expr) -> int | None:
    inner = node.this if isinstance(node, exp.DataTypeParam) else node
    text = str(inner.this) if isinstance(inner, exp.Literal) and not inner.is_string else ""
    return int(text) if text.isdecimal() else None


def _limited(found: SqlType, numbers: list[int]) -> SqlType | None:
    """``numeric(10,2)``, ``varchar(20)``, ``char(4)``. None if the type takes no such numbers here."""
    limit = _LIMITS.get(found.name)
    if (
        limit is None
        or len(numbers) > (2 if found.name == "numeric" else 1)
        or not _SMALLEST.get(found.name, 1) <= numbers[0] <= limit
    ):
        return None
    if found.name == "numeric":
        numbers = [*numbers, 0][:2]
        if numbers[1] > limit:
            return None
    return replace(found, sql=f"{found.name}({','.join(map(str, numbers))})")
