"""The dialect of PostgreSQL."""

from dataflow.plan.render import quote
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.dialect import Dialect
from dataflow.sql.postgres.aggregates import NAMES, aggregate_call
from dataflow.sql.postgres.column_names import column_name
from dataflow.sql.postgres.current_time import current_time
from dataflow.sql.postgres.expressions import BINDERS
from dataflow.sql.postgres.grammar import GRAMMAR
from dataflow.sql.postgres.series import generated_series

POSTGRES = Dialect(
    grammar=GRAMMAR,
    printer="postgres",
    # A text folds names as catalogs do.
    name=lambda name: name,
    word=lambda name: name,
    quote=quote,
    # A string takes the type of the other operand; a number does not (for float4 it has more digits), but integers and
    # numeric compare as numbers in any combination.
    constant_fits=lambda sql_type, number: not number or sql_type.is_integer or sql_type.is_decimal,
    moments=True,
    text_functions=frozenset({"lower", "upper"}),
    exact_text=None,
    names_values=True,
    plans_rollup=lambda _catalog: False,
    fills_templates=False,
    current_time=current_time,
    binders=BINDERS,
    row_functions={"generate_series": generated_series},
    aggregates=NAMES,
    value=functions.settled,
    inner=lambda expression: expression,
    condition=functions.condition,
    parameter=lambda expression: expression,
    # A length cuts, a precision rounds.
    cast_keeps_value=lambda target: "(" not in target.sql,
    same_type=functions.same_type,
    aggregate_call=aggregate_call,
    aggregate_value=lambda result, _call: result,
    column_name=column_name,
    having=lambda select: select.args["having"].this,
    windows_see_shown=False,
    window_value=lambda _function, _arguments, result, _shown: result,
    row_value=functions.plain_type,
)
