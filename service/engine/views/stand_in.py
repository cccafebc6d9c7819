"""The form in which the leaf store has a view that is not kept incrementally: its columns, and each row's place.

Not here: plans of other views (`dataflow.sql`).
"""

from collections.abc import Sequence

from dataflow.plan.nodes import Chain, OrderTerm, OutputColumn, Parameter, View
from dataflow.plan.refresh import RefreshView
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Row

_PLACE = SqlType("int8", "int8")


def stand_in(refresh: RefreshView) -> View:
    """A view with the columns that readers see, the parameters, and behind them a row's place, which orders."""
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
    """Rows of an answer as rows of the stand-in. (Readers do not see parameters there.)"""
    nothing = (None,) * len(refresh.parameters)
    return [(*row, *nothing, str(place)) for place, row in enumerate(rows)]
