"""The statements that look rows up in MariaDB and MySQL, keys and cuts written in as constants (`postgres.lookup`
is PostgreSQL's).

Keys are looked for by IN, of rows if they have several columns: ranges of an index, as long as a list is not too long
(`CHUNK`; MariaDB makes a table of 1000 and more, and may then scan ours). Several lists are a UNION ALL, since keys are
distinct; groups of state rows are then merged by the reader. Groups of state rows are distinguished by the
bytes of their texts, since a collation takes several texts for one.

The columns' texts are those of `lookup_columns`, but for floats, which come as doubles, and conditions, which are 1 and
0. Rows of no columns have one that is NULL.

Not here: the layout of state rows (`ops.aggregate_state`), from a server's text to a value
(`service.engine.databases.mysql`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dataflow.functions import arrays
from dataflow.lookups.mysql.part import PartSql, part_sql
from dataflow.lookups.mysql.render import NOTHING, constant, quote, render, selected, string, table_name
from dataflow.plan.calls import CallState, argument_of, list_columns, state_of
from dataflow.plan.expressions import INT8, NUMERIC, inline
from dataflow.plan.nodes import Aggregate, AggregateCall, Chain, Relation, column_types
from dataflow.plan.parametric import chain_table
from dataflow.plan.parts import Lookup, Part, Semijoin
from dataflow.plan.table_access import chain_of, key_columns
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.types import Columns, Key, Value
from dataflow.types.rules import ValueKind

Name = Callable[[int], str]
_NEVER = "FALSE"
#: Keys of one IN.
CHUNK = 500


def lookup_statement(lookup: Lookup, catalog: Catalog, source: str | None = None) -> str:
    """The statement of a lookup, complete. `source` stands for the table behind FROM, where it is not all of it."""
    columns = key_columns(lookup.relation, lookup.columns)
    own, parameters = _split(chain_of(lookup.relation), columns)
    own_columns = [columns[i] for i in own]
    by_values: dict[Key, list[Key]] = {} if parameters else {(): []}
    for key in lookup.keys:
        keys = by_values.setdefault(tuple([key[i] for i in parameters]), [])
        part = tuple([key[i] for i in own])
        if all(map(_matches, own_columns, part)):
            keys.append(part)
    statements: list[str] = []
    for values, keys in by_values.items():
        pairs = zip(parameters, values, strict=True)
        texts = {columns[i].index: _parameter(value, columns[i].type) for i, value in pairs}
        for chunk in [keys[i : i + CHUNK] for i in range(0, len(keys), CHUNK)] or [[]]:
            condition = partial(_keys, own_columns, chunk) if own else None
            statements.append(_statement(lookup.relation, own_columns, lookup.part, catalog, condition, source, texts))
    return " UNION ALL ".join(statements)


def semijoin_statements(lookup: Lookup, semijoin: Semijoin, catalog: Catalog) -> tuple[str, str]:
    """The statements of a semijoin's keys and of its rows, which must run at one snapshot."""
    other = semijoin.lookup
    chain = chain_of(other.relation)
    keys = key_columns(other.relation, other.columns)
    condition = partial(_keys, keys, [key for key in other.keys if all(map(_matches, keys, key))])
    links = replace(chain, columns=tuple(chain.columns[c] for c in semijoin.links))
    own = key_columns(lookup.relation, lookup.columns)
    table = chain_table(chain, catalog)

    def name(index: int) -> str:
        return f"t.{quote(table.columns[index].name)}"

    conditions = [condition(name), *([] if chain.predicate is None else [render(chain.predicate, name)])]
    values = ", ".join(render(column, name) for column in links.columns)
    found = f"SELECT {values} FROM {table_name(chain.table)} t WHERE {' AND '.join(conditions)}"

    def in_found(name: Name) -> str:
        return f"({', '.join(name(key.index) for key in own)}) IN ({found})"

    return (
        _statement(links, keys, None, catalog, condition, None, {}),
        _statement(lookup.relation, own, None, catalog, in_found, None, {}),
    )


def lookup_shape(relation: Chain | Aggregate, columns: Columns, catalog: Catalog, part: Part | None = None) -> str:
    """The statement of lookups by keys on `columns`, for people: with dots for the keys."""
    keys = key_columns(relation, columns)
    places, parameters = _split(chain_of(relation), keys)
    own = [keys[i] for i in places]

    def condition(name: Name) -> str:
        names = [name(key.index) for key in own]
        return f"{names[0]} IN (…)" if len(names) == 1 else f"({', '.join(names)}) IN (…)"

    texts = {keys[i].index: (f":{n}", f":{n}") for n, i in enumerate(parameters, start=1)}
    return _statement(relation, own, part, catalog, condition if own else None, None, texts)


def _parameter(value: Value, sql_type: SqlType) -> tuple[str, str]:
    """A parameter's value as a constant: a list as what IN compares with, and as its text."""
    if value is None or sql_type.kind != "array" or sql_type.element is None:
        text = constant(value, sql_type)
        return text, text
    element = sql_type.element
    members = ", ".join(constant(member, element) for member in arrays.flat(value))
    return f"({members or NOTHING})", string(value)


def _split(chain: Chain, keys: Sequence[ColumnRef]) -> tuple[list[int], list[int]]:
    """The places in a key of columns of the table, and of the chain's parameters, all of which are there."""
    if chain.parameters is None:
        return list(range(len(keys))), []
    first = chain.parameters.first
    parameters = [i for i, key in enumerate(keys) if key.index >= first]
    if len({keys[i].index for i in parameters}) < len(chain.parameters.types):
        raise ValueError("a parametric chain is looked up by all of its parameters")
    return [i for i in range(len(keys)) if i not in parameters], parameters


def _statement(
    relation: Chain | Aggregate,
    keys: list[ColumnRef],
    wanted: Part | None,
    catalog: Catalog,
    of_keys: Callable[[Name], str] | None,
    source: str | None,
    parameters: Mapping[int, tuple[str, str]],
) -> str:
    """`parameters`: constants, by column of the chain's input, as what is compared and as what is selected."""
    chain = chain_of(relation)
    table = chain_table(chain, catalog)

    def name(index: int) -> str:
        return parameters[index][0] if index in parameters else f"t.{quote(table.columns[index].name)}"

    def shown(expression: Scalar) -> str:
        if isinstance(expression, ColumnRef) and expression.type.kind == "array":
            return parameters[expression.index][1]
        return selected(expression, name)

    columns, grouped = [shown(c) for c in chain.columns], list[str]()
    if isinstance(relation, Aggregate):
        state = _StateColumns(chain, name, shown)
        state.add_all(relation)
        columns, grouped = state.selected, list(state.grouped)
    conditions = [] if of_keys is None else [of_keys(name)]
    part = None if wanted is None else part_sql(wanted, chain, table, keys, name)
    conditions += [] if part is None else part.conditions
    if chain.predicate is not None:
        conditions.append(render(chain.predicate, name))
    rows = f"FROM {source or table_name(chain.table)} t" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
    if part is not None and part.order:
        return _ordered(columns, rows, part, _TIED[catalog.dialect])
    sql = f"SELECT {', '.join(columns) or 'NULL'} {rows}"
    if isinstance(relation, Aggregate) and parameters and not grouped:
        # Without groups there would be a row for no rows, which is none of theirs.
        return f"{sql} HAVING COUNT(*) > 0"
    return sql + (f" GROUP BY {', '.join(grouped)}" if grouped else "")


def _ordered(columns: list[str], rows: str, part: PartSql, tied: "_Tied") -> str:
    """The rows of a part, in its order: as many as are wanted, and those that tie with the last."""
    order = ", ".join(part.order)
    sql = f"SELECT {', '.join(columns)} {rows} ORDER BY {order}"
    if part.rows is None:
        return sql
    if part.unique:
        return f"{sql} LIMIT {part.rows}"
    return tied(columns, rows, order, part.rows)


def _fetched(columns: list[str], rows: str, order: str, limit_rows: int) -> str:
    return f"SELECT {', '.join(columns)} {rows} ORDER BY {order} FETCH FIRST {limit_rows} ROWS WITH TIES"


def _ranked(columns: list[str], rows: str, order: str, limit_rows: int) -> str:
    names = [f"c{i}" for i in range(len(columns))]
    named = ", ".join(f"{column} AS {name}" for column, name in zip(columns, names, strict=True))
    ranked = f"SELECT {named}, RANK() OVER (ORDER BY {order}) AS place {rows}"
    return f"SELECT {', '.join(names)} FROM ({ranked}) ranked WHERE place <= {limit_rows} ORDER BY place"


#: The first rows in an order, and those that tie with the last: from columns, FROM, ORDER BY and a number of rows.
_Tied = Callable[[list[str], str, str, int], str]
#: By `Catalog.dialect`.
_TIED: dict[str, _Tied] = {"mariadb": _fetched, "mysql": _ranked}


def lookup_columns(relation: Relation, catalog: Catalog) -> tuple[SqlType, ...]:
    """The types of a lookup's columns: those of the rows, or of the state rows."""
    del catalog
    if not isinstance(relation, Aggregate):
        return column_types(relation)
    chain = chain_of(relation)
    types = column_types(chain)
    result = [types[c] for c in relation.group]
    for call in relation.calls:
        result += _call_types(call)
    return (*result, INT8)


def _call_types(call: AggregateCall) -> list[SqlType]:
    match state_of(call):
        case CallState.ROWS | CallState.COUNT:
            return [INT8]
        case CallState.SUM:
            return [*([NUMERIC] if argument_of(call).type.is_decimal else []), INT8, NUMERIC]
        case CallState.VALUES:
            return [argument_of(call).type, INT8]
        case CallState.LIST:
            return [*(column.type for column in list_columns(call)), INT8]
        case CallState.TRUTHS:
            raise _not_looked_up(call)


def _not_looked_up(call: AggregateCall) -> ValueError:
    return ValueError(f"lookups of {call.function} are not supported in MariaDB and MySQL")


# --- keys -----------------------------------------------------------------------------------------------------------


def _matches(column: ColumnRef, value: Value) -> bool:
    """Return whether any row may have the value: NULL equals nothing, no integer is a fraction (which would be no
    range)."""
    if value is None:
        return False
    return not column.type.is_whole or value.removeprefix("-").isdecimal()


def _keys(columns: list[ColumnRef], keys: Sequence[Key], name: Name) -> str:
    """The condition for rows under one of the keys."""
    if not keys:
        return _NEVER
    if len(columns) == 1:
        (column,) = columns
        members = [constant(value, column.type) for (value,) in keys]
        if len(members) == 1:
            return f"{name(column.index)} = {members[0]}"
        return f"{name(column.index)} IN ({', '.join(members)})"
    names = [name(column.index) for column in columns]
    rows = [[constant(value, c.type) for c, value in zip(columns, key, strict=True)] for key in keys]
    if len(rows) == 1:
        return " AND ".join(f"{own} = {value}" for own, value in zip(names, rows[0], strict=True))
    listed = ", ".join(f"({', '.join(row)})" for row in rows)
    return f"({', '.join(names)}) IN ({listed})"


# --- state rows -----------------------------------------------------------------------------------------------------


class _StateColumns:
    """The SELECT and GROUP BY lists of state rows: one row for all values that are removed together."""

    def __init__(self, chain: Chain, name: Name, shown: Callable[[Scalar], str]) -> None:
        self._chain = chain
        self._name = name
        self._shown = shown
        self.selected: list[str] = []
        #: In order, none twice.
        self.grouped: dict[str, None] = {}

    def add_all(self, aggregate: Aggregate) -> None:
        """The group columns, the partial columns of each call, and how many rows there are."""
        for c in aggregate.group:
            self._add_value(ColumnRef(c, self._chain.columns[c].type))
        for call in aggregate.calls:
            self._add_call(call)
        self.selected.append("COUNT(*)")

    def _add_call(self, call: AggregateCall) -> None:
        if call.keeps is not None:
            raise _not_looked_up(call)
        match state_of(call):
            case CallState.ROWS:
                self.selected.append("COUNT(*)")
            case CallState.COUNT:
                self.selected.append(f"COUNT({self._sql(argument_of(call))})")
            case CallState.SUM:
                argument = self._sql(argument_of(call))
                if argument_of(call).type.is_decimal:
                    # Where PostgreSQL has the scale: all values of a DECIMAL have the same.
                    self.selected.append("NULL")
                self.selected += [f"COUNT({argument})", f"SUM({argument})"]
            case CallState.VALUES:
                self._add_value(argument_of(call))
                self.selected.append(f"COUNT({self._sql(argument_of(call))})")
            case CallState.LIST:
                for column in list_columns(call):
                    self._add_value(column)
                self.selected.append("COUNT(*)")
            case CallState.TRUTHS:
                raise _not_looked_up(call)

    def _sql(self, expression: Scalar) -> str:
        return render(inline(expression, self._chain.columns), self._name)

    def _add_value(self, expression: Scalar) -> None:
        """A value that is selected and grouped by, each text of it apart."""
        value = inline(expression, self._chain.columns)
        sql = self._shown(value)
        self.selected.append(sql)
        if isinstance(value, Literal) or self._is_parameter(value):
            # A constant is no grouping; as a number it would even be the place of a column.
            return
        self.grouped[sql] = None
        if _has_texts(value.type):
            self.grouped[f"CAST({sql} AS BINARY)"] = None

    def _is_parameter(self, value: Scalar) -> bool:
        parameters = self._chain.parameters
        return parameters is not None and isinstance(value, ColumnRef) and value.index >= parameters.first


def _has_texts(sql_type: SqlType) -> bool:
    """Return whether the server may take several texts for one value."""
    if sql_type.kind != "base":
        return sql_type.kind != "enum"
    text = sql_type.is_text or sql_type.is_document or sql_type.rules.kind is ValueKind.LABELS
    return text or (sql_type.normal_form is not None and not sql_type.is_decimal)
