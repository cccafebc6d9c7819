"""The statements that look rows up in PostgreSQL: a chain's rows, or an aggregate's state rows, for a list of keys.

Keys arrive as one array of texts per key column ($1, $2 …), each text a normal form. Columns stand bare in the
conditions and casts only at the parameters, so that the upstream can use its indexes. Integer keys are compared as
``int8`` whatever the column's width: a key may come from a wider column that it is joined with.

Of one key, a part of the rows in an order can be looked up instead (`part`).

Not here: the layout of state rows (`ops.aggregate_state`), versions (`service.engine.databases`).
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from dataflow.lookups.postgres.part import parameter_type, part_sql, part_values
from dataflow.plan.calls import CallState, argument_of, list_columns, state_of
from dataflow.plan.expressions import inline
from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    Chain,
    column_types,
)
from dataflow.plan.parametric import chain_table
from dataflow.plan.parts import Lookup, Part, Semijoin
from dataflow.plan.render import quote, render, type_name
from dataflow.plan.table_access import chain_of, key_columns
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.types import Columns, Value

Name = Callable[[int], str]
#: An expression over the chain's input, as SQL.
Shown = Callable[[Scalar], str]
#: Of a statement: an array of texts, or one value.
Argument = Sequence[Value] | str | None


def lookup_sql(relation: Chain | Aggregate, columns: Columns, catalog: Catalog, part: Part | None = None) -> str:
    """The statement for keys on `columns` of `relation`; () is everything, without parameters.

    The columns must be plain columns of the base table (`routes.parent_columns`); an aggregate is one over a chain.
    With `part`, that part of one key's rows of a chain.
    """
    return _rows_sql(relation, columns, catalog, part, joined=False)


def semijoin_sql(relation: Chain | Aggregate, columns: Columns, catalog: Catalog, semijoin: Semijoin) -> str:
    """The statement of a semijoin, with the parameters of its other lookup. Of each key found there: the key, and true
    with each row of `relation` (a chain has NULL and no row where there is none)."""
    other = semijoin.lookup
    chain = chain_of(other.relation)
    places = [*semijoin.links, *other.columns]
    links = replace(chain, columns=tuple(chain.columns[c] for c in places))
    found = lookup_sql(links, tuple(range(len(semijoin.links), len(places))), catalog)
    names = ", ".join(f"k{i}" for i in range(1, len(columns) + 1))
    rows = _rows_sql(relation, columns, catalog, None, joined=True)
    return (
        f"SELECT k.*, r.* FROM (SELECT DISTINCT {names} FROM ({found}) k ({names})) k "
        f"LEFT JOIN LATERAL (SELECT true AS found, q.* FROM ({rows}) q) r ON true"
    )


def _rows_sql(
    relation: Chain | Aggregate, columns: Columns, catalog: Catalog, part: Part | None, *, joined: bool
) -> str:
    """`joined`: the key is k.k1, k.k2 … of a query around this one."""
    chain = chain_of(relation)
    table = chain_table(chain, catalog)
    keys = key_columns(relation, columns)
    parameters = _parameters(chain, keys, part is None)
    lists = {key.index: type_name(key.type) for key in keys if key.type.kind == "array"}

    def name(index: int) -> str:
        cast = f"::{lists[index]}" if index in lists else ""
        return parameters[index] + cast if index in parameters else f"t.{quote(table.columns[index].name)}"

    def shown(expression: Scalar) -> str:
        if isinstance(expression, ColumnRef) and expression.index in lists:
            # The text that it has in keys.
            return parameters[expression.index]
        return render(expression, name)

    selected, grouped = [shown(c) for c in chain.columns], list[str]()
    if isinstance(relation, Aggregate):
        selected, grouped = _state_columns(relation, chain, shown)
    join, tail = "", ""
    if joined:
        conditions = [f"{name(key.index)} = k.k{i}" for i, key in enumerate(keys, 1)]
    elif part is None:
        join, conditions = _key_conditions(keys, name, parameters)
    else:
        between, tail = part_sql(part, chain, table, name, len(keys) + 1)
        conditions = [*_one_key(keys, name, parameters), *between]
    if chain.predicate is not None:
        conditions.append(render(chain.predicate, name) if not conditions else f"({render(chain.predicate, name)})")
    sql = f"SELECT {', '.join(selected)} FROM {chain.table} t{join}"
    sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return sql + (f" GROUP BY {', '.join(grouped)}" if grouped else "") + tail


def lookup_arguments(lookup: Lookup) -> list[Argument]:
    """The parameters of a lookup's statement, $1, $2 …: of keys one array each, of a part's key and cuts one text."""
    if lookup.semijoin is not None:
        return lookup_arguments(lookup.semijoin.lookup)
    types = column_types(lookup.relation)
    integers = [types[c].is_integer for c in lookup.columns]
    keys = [
        tuple(_as_integer(value) if integer else value for integer, value in zip(integers, key, strict=True))
        for key in lookup.keys
    ]
    if lookup.part is None:
        return [list(column) for column in zip(*keys, strict=True)] if lookup.columns else []
    (key,) = keys
    return [*key, *part_values(lookup.part)]


def _as_integer(value: Value) -> Value:
    """The value as the key of an integer column: NULL for a number that is no integer, since both match nothing."""
    if value is None:
        return value
    whole = value.removeprefix("-").isdecimal()
    return value if whole and -(2**63) <= int(value) < 2**63 else None


# --- keys -----------------------------------------------------------------------------------------------------------


def _parameters(chain: Chain, keys: list[ColumnRef], many: bool) -> dict[int, str]:
    """By column of the chain's input, the text of a parameter: of `many` keys' one, or of the only key."""
    if chain.parameters is None:
        return {}
    numbered = [(i, key) for i, key in enumerate(keys, 1) if key.index >= chain.parameters.first]
    found = {key.index: f"k.k{i}" if many else f"${i}::{_sent_type(key)}" for i, key in numbered}
    if len(found) < len(chain.parameters.types):
        raise ValueError("a parametric chain is looked up by all of its parameters")
    return found


def _sent_type(parameter: ColumnRef) -> str:
    """The type of a parameter's text; that of a list is cast where it is used, since unnest flattens arrays."""
    return "text" if parameter.type.kind == "array" else type_name(parameter.type)


def _key_conditions(keys: list[ColumnRef], name: Name, parameters: Container[int]) -> tuple[str, list[str]]:
    """The join and the conditions that find the rows of the keys $1 …."""
    if not keys:
        return "", []
    if len(keys) == 1 and keys[0].index not in parameters:
        return "", [f"{name(keys[0].index)} = ANY($1::{parameter_type(keys[0].type)}[])"]
    types = [_sent_type(k) if k.index in parameters else parameter_type(k.type) for k in keys]
    arrays = ", ".join(f"${i}::{sql_type}[]" for i, sql_type in enumerate(types, 1))
    aliases = ", ".join(f"k{i}" for i in range(1, len(keys) + 1))
    equal = [f"{name(key.index)} = k.k{i}" for i, key in enumerate(keys, 1) if key.index not in parameters]
    conditions = " AND ".join(equal) or "true"
    # Keys are distinct, so no row is found twice.
    return f" JOIN unnest({arrays}) AS k({aliases}) ON {conditions}", []


def _one_key(keys: list[ColumnRef], name: Name, parameters: Container[int]) -> list[str]:
    """The conditions for one key, whose values are $1, $2 …: without arrays, so that an index keeps the order."""
    columns = [(i, key) for i, key in enumerate(keys, 1) if key.index not in parameters]
    return [f"{name(key.index)} = ${i}::{parameter_type(key.type)}" for i, key in columns]


# --- state rows -----------------------------------------------------------------------------------------------------


def _state_columns(aggregate: Aggregate, chain: Chain, shown: Shown) -> tuple[list[str], list[str]]:
    """The expressions to select, and those to group by."""
    columns = _StateColumns(chain, shown)
    columns.add_group(aggregate.group)
    for call in aggregate.calls:
        columns.add_call(call)
    return [*columns.selected, "count(*)"], list(columns.grouped)


class _StateColumns:
    """The SELECT and GROUP BY lists of state rows: one row for all values that are removed together."""

    def __init__(self, chain: Chain, shown: Shown) -> None:
        self._chain = chain
        self._shown = shown
        self.selected: list[str] = []
        #: In order, none twice.
        self.grouped: dict[str, None] = {}

    def add_group(self, columns: Columns) -> None:
        """The group columns; equal values are distinguished by their texts."""
        for c in columns:
            self._add_value(ColumnRef(c, self._chain.columns[c].type))

    def add_call(self, call: AggregateCall) -> None:
        """A call's partial columns (`ops.aggregate_state`)."""
        match state_of(call):
            case CallState.ROWS:
                self.selected.append(self._count("*", call))
            case CallState.COUNT:
                self.selected.append(self._count(self._sql(argument_of(call)), call))
            case CallState.SUM:
                self._add_sum(call, self._sql(argument_of(call)), argument_of(call).type)
            case CallState.TRUTHS:
                argument = self._sql(argument_of(call))
                self.selected += [self._count("*", call, argument), self._count("*", call, f"NOT ({argument})")]
            case CallState.VALUES:
                self._add_value(argument_of(call))
                self.selected.append(self._count(self._sql(argument_of(call)), call))
            case CallState.LIST:
                for column in list_columns(call):
                    self._add_value(column)
                self.selected.append(self._count("*", call))

    def _add_sum(self, call: AggregateCall, argument: str, sql_type: SqlType) -> None:
        if not sql_type.is_integer:
            # Sums of numeric are stored by scale; NaN and infinities have none, and are their own class.
            kind = f"coalesce(scale({argument})::text, ({argument})::text)"
            self.selected.append(kind)
            self.grouped[kind] = None
        self.selected += [self._count(argument, call), f"sum({argument}){self._filter(call)}"]

    def _sql(self, expression: Scalar) -> str:
        return self._shown(inline(expression, self._chain.columns))

    def _count(self, counted: str, call: AggregateCall, *conditions: str) -> str:
        return f"count({counted}){self._filter(call, *conditions)}"

    def _filter(self, call: AggregateCall, *conditions: str) -> str:
        kept = [self._sql(call.keeps)] if call.keeps is not None else []
        wanted = [*kept, *conditions]
        return f" FILTER (WHERE {' AND '.join(f'({c})' for c in wanted)})" if wanted else ""

    def _add_value(self, expression: Scalar) -> None:
        """A value that is selected and grouped by, so that 1.0 and 1.00 each go away by their own text."""
        value = inline(expression, self._chain.columns)
        sql = self._shown(value)
        as_text = f'({sql})::text COLLATE "C"'
        sql_type = value.type
        if isinstance(value, Literal):
            # A constant is no grouping; as a number it would even be the place of a column.
            self.selected.append(sql)
        elif sql_type.is_document and not sql_type.comparable:
            # The upstream cannot group by ``json``.
            self.selected.append(as_text)
            self.grouped[as_text] = None
        else:
            self.selected.append(sql)
            self.grouped[sql] = None
            if sql_type.normal_form is not None or not sql_type.comparable:
                self.grouped[as_text] = None
