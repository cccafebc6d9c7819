"""Texts that the upstream gives the values of parameters: of equal numbers, other ones than keys have."""

from dataflow.plan.nodes import Aggregate, Chain, column_types
from dataflow.plan.parametric import is_parameter
from dataflow.types import Row, Value

_RESPELLED = {"0": "0.00", "1": "1.00", "2.5": "2.50"}


def respelled(relation: Chain | Aggregate, rows: list[Row]) -> list[Row]:
    """Rows of a lookup, or state rows, as they come."""
    width = len(relation.group) if isinstance(relation, Aggregate) else len(relation.columns)
    types = column_types(relation)
    places = {i for i in range(width) if types[i].name == "numeric" and is_parameter(relation, i)}
    return [tuple(_other(value) if i in places else value for i, value in enumerate(row)) for row in rows]


def _other(value: Value) -> Value:
    return None if value is None else _RESPELLED.get(value, value)
