"""Free parameters: those that are not compared with a column as a key, a list or a range is.

They are columns of a chain (`plan.parametric`), the *host*: a table of the innermost FROM around them. Their type is
that of what stands beside them, as PostgreSQL infers it ("Operator Type Resolution", section 10.2 of its manual).

Not here: binding them (`from_clause`), routes to their chains (`plan.required_keys`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedParameter, UnsupportedQuery
from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import BlockInput, Chain, ChainParameters
from dataflow.plan.rewriting import inputs_used, offsets
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN, array_of, cast_type, enum_type
from dataflow.sql.expressions.scope import Scope
from dataflow.sql.syntax.parse import parameter_name, parameter_span

#: Types by name.
FreeParameters = Mapping[str, SqlType]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In)
_QUANTIFIERS = (exp.Any, exp.All)
#: Operations that give equal results for equal numbers.
_EXACT: tuple[type[exp.Expr], ...] = (exp.Neg, exp.Add, exp.Sub, exp.Mul)
#: What has operands of one type.
_OPERATIONS = (
    *_COMPARISONS,
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
    *(exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Like, exp.ILike),
)


def hosting(chain: Chain, free: FreeParameters) -> Chain:
    """Returns a chain over all columns of a table with those of the free parameters behind them."""
    if not free:
        return chain
    first, types = len(chain.columns), tuple(free[name] for name in sorted(free))
    places = tuple(ColumnRef(first + i, sql_type) for i, sql_type in enumerate(types))
    return Chain(chain.table, chain.predicate, (*chain.columns, *places), ChainParameters(first, types))


def places(free: FreeParameters, first: int) -> dict[str, int]:
    """Returns the columns of free parameters by name, of which `first` is that of the first."""
    return {name: first + i for i, name in enumerate(sorted(free))}


def choose_host(inputs: Sequence[BlockInput], expressions: Sequence[Scalar], free: FreeParameters) -> dict[str, int]:
    """Returns the columns that could be those of free parameters, in the joined row: of the table of the first of these
    expressions that is of one, so that few of its rows are looked up; else of the first table. None without a table."""
    starts = offsets(inputs)
    hosts = {
        start: start + item.relation.parameters.first
        for start, item in zip(starts, inputs, strict=True)
        if not item.left and isinstance(item.relation, Chain) and item.relation.parameters is not None
    }
    wanted = [starts[i] for expression in expressions for i in inputs_used(starts, used_columns(expression))]
    return next((places(free, hosts[start]) for start in (*wanted, *hosts) if start in hosts), {})


def columns_beside(node: exp.Placeholder, scope: Scope) -> list[Scalar]:
    """The columns in the innermost operation around a parameter that has any."""
    parent = node.parent
    while isinstance(parent, (*_OPERATIONS, exp.Tuple, exp.Paren, exp.Cast, exp.Neg, *_QUANTIFIERS)):
        found = [column for c in parent.find_all(exp.Column) if (column := scope.find(c)) is not None]
        if found:
            return found
        parent = parent.parent
    return []


def refuse_parameter(node: exp.Placeholder, binder: Binder) -> UnsupportedParameter:
    """Returns the refusal of a parameter that is not known to be free, with its type where that can be inferred."""
    name = parameter_name(node)
    if is_list(node):
        reason = f"The parameter :{name} is a list, and what it is compared with does not tell its type."
        return UnsupportedParameter(reason, parameter_span(node), name, _list_type(node, binder))
    found = next((t for other in _occurrences(node) if (t := _inferred(other, binder)) is not None), None)
    return UnsupportedParameter(
        f"The parameter :{name} is no key, list or range of a column, and what stands beside it does not tell its type."
        f" Write it in a condition like `column = :{name}`, or as a cast to its type.",
        parameter_span(node),
        name,
        found,
    )


def is_list(node: exp.Placeholder) -> bool:
    """Return whether a parameter stands where a list does: alone behind IN, or in ANY or ALL."""
    child: exp.Expr = node
    while isinstance(child.parent, exp.Paren | exp.Cast):
        child = child.parent
    parent = child.parent
    if isinstance(parent, exp.In):
        return child is not parent.this and len(parent.expressions) == 1
    return isinstance(parent, _QUANTIFIERS)


def _occurrences(node: exp.Placeholder) -> Iterator[exp.Placeholder]:
    """The parameter at this place, then at the others of its SELECT."""
    yield node
    select = node.find_ancestor(exp.Select)
    for other in [] if select is None else select.find_all(exp.Placeholder):
        if parameter_name(other) == parameter_name(node) and other.find_ancestor(exp.Select) is select:
            yield other


def can_be_free(sql_type: object) -> bool:
    """Return whether parameters of a type can be columns of a chain: the normal form is a text of the same value."""
    if isinstance(sql_type, SqlType) and sql_type.kind == "array" and sql_type.element is not None:
        # As the text of its sorted members in normal form (`service.leaf_store.request`).
        return can_be_free(sql_type.element)
    if not isinstance(sql_type, SqlType) or sql_type.kind not in ("base", "enum"):
        return False
    rounded = sql_type.is_float or sql_type.is_interval or sql_type.is_document
    return sql_type.comparable and sql_type.takes_parameters and not rounded


def exact_text(binder: Binder) -> SqlType | None:
    """Returns the type of parameters that are read as their exact text; None if the dialect needs no such type."""
    return None if binder.dialect.exact_text is None else binder.dialect.exact_text(binder.text)


def check_reading(node: exp.Placeholder, sql_type: SqlType, binder: Binder) -> None:
    """UnsupportedParameter unless a parameter of a type means the same wherever it is read: one whose values have
    several texts, of which a key has one, is only compared; so is any where it is a constant of the statement, whose
    type it decides elsewhere. Text may be exact text instead."""
    dialect, exact = binder.dialect, exact_text(binder)
    if sql_type == exact or (sql_type.normal_form is None and not dialect.fills_templates):
        return
    parent = node.parent
    kept = () if dialect.fills_templates else _EXACT
    while parent is not None and isinstance(parent, (exp.Paren, exp.Cast, exp.Tuple, *_QUANTIFIERS, *kept)):
        parent = parent.parent
    if not isinstance(parent, (*_COMPARISONS, exp.Is)):
        reason = f"The parameter :{parameter_name(node)}, of type {sql_type.sql}, may only be compared."
        found = exact if sql_type.is_text else None
        raise UnsupportedParameter(reason, parameter_span(node), parameter_name(node), found)


def _inferred(node: exp.Placeholder, binder: Binder) -> SqlType | None:
    """The type of a parameter by what stands around it; None if that does not tell."""
    child: Any = node
    while (parent := child.parent) is not None:
        if isinstance(parent, exp.Cast):
            return _cast_to(parent, binder)
        if isinstance(parent, exp.Func) and binder.written_name(parent) in binder.dialect.text_functions:
            return binder.text
        if isinstance(parent, (*_OPERATIONS, exp.Tuple)):
            for sibling in _siblings(parent, child):
                found = _type_of(sibling, binder)
                if found is not None:
                    return found
        elif not isinstance(parent, exp.Paren | exp.Neg):
            return None
        child = parent
    return None


def _list_type(node: exp.Placeholder, binder: Binder) -> SqlType | None:
    """The type of a list, by what stands before IN or ``= ANY``."""
    compared = node.find_ancestor(exp.In, *_COMPARISONS)
    found = None if compared is None else _type_of(compared.this, binder)
    return None if found is None else array_of(found)


def _cast_to(node: exp.Cast, binder: Binder) -> SqlType | None:
    try:
        found = enum_type(node.args["to"], binder.catalog) or cast_type(node.args["to"])
    except UnsupportedQuery:
        return None
    return binder.text if found.name == binder.text.name else found


def _siblings(parent: exp.Expr, child: exp.Expr) -> Iterator[exp.Expr]:
    """The operands beside one; of a row's member, those at its place in the rows that the row is compared with."""
    operands: Iterable[exp.Expr] = parent.iter_expressions()
    if isinstance(parent, exp.Tuple):
        place, row = parent.expressions.index(child), parent
        compared = row.parent.iter_expressions() if isinstance(row.parent, _COMPARISONS) else ()
        rows = [other for other in compared if isinstance(other, exp.Tuple) and other is not row]
        operands = [other.expressions[place] for other in rows if place < len(other.expressions)]
    for operand in operands:
        if operand is not child and operand.find(exp.Placeholder, exp.Query) is None:
            yield operand


def _type_of(node: exp.Expr, binder: Binder) -> SqlType | None:
    try:
        found = binder.dialect.parameter(binder.value(node)).type
    except (UnsupportedQuery, InvalidQuery):
        return None
    return None if found == UNKNOWN else found
