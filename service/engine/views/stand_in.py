"""Leaf form of a view that is not maintained incrementally: its columns, and the place of each row.

Not here: plans of incremental views (`dataflow.sql`).
"""

from collections.abc import Sequence

from dataflow.plan.nodes import Chain, OrderTerm, OutputColumn, Parameter, View
from dataflow.plan.refresh import RefreshView
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Row

_PLACE = SqlType("int8", "int8")


def stand_in(refresh: RefreshView) -> View:
    """Returns a view with the readers' columns, the parameters, and the place of the row, which is the order."""
    types = [sql_type for _, sql_type in refresh.output]
    types += [parameter.type for parameter in refresh.parameters]
    types.append(_PLACE)
    first = len(refresh.output)
    return View(
        refresh.name,
        refresh.sql,
        Chain("", None, tuple(ColumnRef(i, sql_type) for i, sql_type in enumerate(types))),
        tuple(Parameter(p.name, first + i, p.many) for i, p in enumerate(refresh.parameters)),
        tuple(OutputColumn(name, i) for i, (name, _) in enumerate(refresh.output)),
        (OrderTerm(len(types) - 1),),
    )


def placed(rows: Sequence[Row], refresh: RefreshView) -> list[Row]:
    """Converts rows of a result to rows of the stand-in. (Readers do not see the parameters there.)"""
    nothing = (None,) * len(refresh.parameters)
    return [(*row, *nothing, str(place)) for place, row in enumerate(rows)]
