"""The dialect of MariaDB and MySQL."""

from dataflow.lookups.mysql.render import quote
from dataflow.sql.expressions.dialect import Dialect
from dataflow.sql.expressions.scope import Caseless
from dataflow.sql.mysql.aggregates import NAMES, aggregate_call, aggregate_value, inner, window_value
from dataflow.sql.mysql.column_names import column_name, having
from dataflow.sql.mysql.current_time import current_time
from dataflow.sql.mysql.expressions import BINDERS
from dataflow.sql.mysql.grammar import GRAMMAR
from dataflow.sql.mysql.texts import TEXTS
from dataflow.sql.mysql.values import coercible, condition, parameter, same_type, value

MYSQL = Dialect(
    grammar=GRAMMAR,
    printer="mysql",
    name=Caseless,
    word=str.lower,
    quote=quote,
    # Other types are compared with constants by rules of their own.
    constant_fits=lambda sql_type, number: sql_type.is_whole if number else sql_type.is_text,
    moments=False,
    text_functions=frozenset({*TEXTS, "substring", "trim", "json_contains", "json_quote"}),
    exact_text=coercible,
    names_values=False,
    # MySQL has a row of totals of no rows, and ORDER BY of them.
    plans_rollup=lambda catalog: catalog.dialect == "mariadb",
    fills_templates=True,
    current_time=current_time,
    binders=BINDERS,
    row_functions={},
    aggregates=NAMES,
    value=value,
    inner=inner,
    condition=condition,
    parameter=parameter,
    # DECIMAL without digits rounds, integers wrap around.
    cast_keeps_value=lambda _target: False,
    same_type=same_type,
    aggregate_call=aggregate_call,
    aggregate_value=aggregate_value,
    column_name=column_name,
    having=having,
    windows_see_shown=True,
    window_value=window_value,
    row_value=lambda sql_type: sql_type,
)
