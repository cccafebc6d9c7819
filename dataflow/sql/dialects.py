"""All dialects, by `Catalog.dialect`."""

from dataflow.plan.nodes import AggregateFunction
from dataflow.sql import functions, naming
from dataflow.sql.aggregates import aggregate_call
from dataflow.sql.bind_expressions import BINDERS
from dataflow.sql.dialect import Dialect
from dataflow.sql.mysql import values as mysql
from dataflow.sql.mysql.aggregates import NAMES as MYSQL_AGGREGATES
from dataflow.sql.mysql.aggregates import aggregate_call as mysql_call
from dataflow.sql.mysql.aggregates import aggregate_value as mysql_result
from dataflow.sql.mysql.aggregates import inner as mysql_inner
from dataflow.sql.mysql.expressions import BINDERS as MYSQL_BINDERS
from dataflow.sql.mysql.naming import column_name as mysql_name
from dataflow.sql.mysql.naming import having as mysql_having

_POSTGRES = Dialect(
    binders=BINDERS,
    # The parser may take these for functions of any other kind.
    aggregates=frozenset({*(f.value for f in AggregateFunction), "every"}),
    value=functions.settled,
    inner=lambda expression: expression,
    condition=functions.condition,
    parameter=lambda expression: expression,
    # A length cuts, a precision rounds.
    cast_keeps_value=lambda target: "(" not in target.sql,
    same_type=functions.same_type,
    aggregate_call=aggregate_call,
    aggregate_value=lambda result, _call: result,
    column_name=naming.column_name,
    having=lambda select: select.args["having"].this,
)
_MYSQL = Dialect(
    binders=MYSQL_BINDERS,
    aggregates=MYSQL_AGGREGATES,
    value=mysql.value,
    inner=mysql_inner,
    condition=mysql.condition,
    parameter=mysql.parameter,
    # DECIMAL without digits rounds, integers wrap around.
    cast_keeps_value=lambda _target: False,
    same_type=mysql.same_type,
    aggregate_call=mysql_call,
    aggregate_value=mysql_result,
    column_name=mysql_name,
    having=mysql_having,
    windows=False,
)
_DIALECTS = {"postgres": _POSTGRES, "mariadb": _MYSQL, "mysql": _MYSQL}


def dialect_of(name: str) -> Dialect:
    """The dialect of a catalog."""
    return _DIALECTS[name]
