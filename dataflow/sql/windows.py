"""Window functions of a SELECT: collected while its expressions are bound, then planned as `Window` nodes.

While binding, the result of the k-th use is column `FIRST_WINDOW` + k. Windows see the rows that WHERE and HAVING left,
so a parameter's column joins every PARTITION BY: the key fixes it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import INT4, INT8, substitute, used_columns
from dataflow.plan.nodes import Block, Frame, FrameMode, Relation, Window, WindowCall
from dataflow.plan.rewriting import as_source
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.clauses import Above, Columns, Rows, Sorted, WindowUse, comparable_group, rows_of, sorted_by, varying
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.aggregates import FIRST_WINDOW, WrittenCall, written_call
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import FLOAT8
from dataflow.sql.expressions.scope import name_of
from dataflow.sql.syntax.spans import span_of

_RANKS: dict[str, SqlType] = {
    "row_number": INT8,
    "rank": INT8,
    "dense_rank": INT8,
    "percent_rank": FLOAT8,
    "cume_dist": FLOAT8,
    "ntile": INT4,
}
_OF_FRAME = ("first_value", "last_value", "nth_value")
#: How many arguments a function has, at least and at most.
_ARGUMENTS = {
    **dict.fromkeys(_RANKS, (0, 0)),
    "ntile": (1, 1),
    "lag": (1, 3),
    "lead": (1, 3),
    "first_value": (1, 1),
    "last_value": (1, 1),
    "nth_value": (2, 2),
}
#: Functions whose argument is the order of their window.
_BY_ARGUMENT = frozenset({"median"})
_WHOLE = Frame(end=None)
_MODES = {"ROWS": FrameMode.ROWS, "RANGE": FrameMode.RANGE, "GROUPS": FrameMode.GROUPS}


class Windows:
    """The window functions of one SELECT.

    `top`: its columns are a view's.
    """

    def __init__(self, select: exp.Select, *, top: bool) -> None:
        self.uses: list[WindowUse] = []
        self._shown = select.expressions
        self._definitions: Mapping[str, Any] = {name_of(d.this): d for d in select.args.get("windows") or ()}
        self._top = top
        self._inside = False

    def bind(self, node: Any, binder: Binder) -> Scalar:
        """The result of ``function(…) OVER (…)``, as a column."""
        if self._inside:
            raise InvalidQuery("Window functions cannot be nested.", span_of(node))
        self._inside = True
        try:
            use = self._use(node, binder)
        finally:
            self._inside = False
        if use not in self.uses:
            self.uses.append(use)
        result = ColumnRef(FIRST_WINDOW + self.uses.index(use), use.type)
        shown = self._top and isinstance(node.parent, exp.Select | exp.Alias | exp.Ordered)
        return binder.dialect.window_value(use.function, use.arguments, result, shown)

    def _use(self, node: Any, binder: Binder) -> WindowUse:
        written = written_call(node.this, binder)
        if written.distinct or written.order:
            raise InvalidQuery("DISTINCT and ORDER BY cannot stand inside a window function.", span_of(node))
        partition, order, spec = self._window(node)
        parts = tuple(p for e in partition if used_columns(p := binder.value(e)))
        comparable_group(parts, node)
        by_argument = written.arguments if written.name in _BY_ARGUMENT else None
        for term in (*(t.this for t in (*order, *written.within)), *(by_argument or ())):
            self._check_name(term, binder)
        terms = varying([sorted_by(binder.value(t.this), t) for t in order])
        frame = _frame(spec, bool(order), node)
        if written.name in _ARGUMENTS:
            if written.filter is not None:
                raise InvalidQuery("FILTER is for aggregate functions only.", span_of(node))
            arguments, result = _function(written, binder)
            frame = frame if written.name in _OF_FRAME else Frame()
            return WindowUse(written.name, arguments, None, parts, terms, frame, result, node)
        call = binder.dialect.aggregate_call(written, binder)
        if call.order:
            _check_plain(node)
            terms = tuple(Sorted(t.expression, t.descending, t.nulls_first, node) for t in call.order)
            frame = _WHOLE
        called = () if call.argument is None else (call.argument, *call.others)
        name = "count" if call.argument is None else call.function.value
        return WindowUse(name, called, call.keeps, parts, terms, frame, call.type, node)

    def _check_name(self, node: Any, binder: Binder) -> None:
        """UnsupportedQuery for a name by which the upstream orders a window, if it shows something else by it."""
        if (
            not binder.dialect.windows_see_shown
            or not isinstance(node, exp.Column)
            or node.args.get("table") is not None
        ):
            return
        name = name_of(node.this)
        for shown in self._shown:
            found = shown.this if isinstance(shown, exp.Alias) else shown
            if _shown_name(shown) != name:
                continue
            same = isinstance(found, exp.Column) and binder.scope.finds(name)
            if not same or binder.bind(found) != binder.bind(node):
                raise UnsupportedQuery(
                    "A window in the order of what a SELECT shows is not kept up to date.", span_of(node)
                )

    def _window(self, node: Any) -> tuple[list[Any], list[Any], Any]:
        """PARTITION BY, ORDER BY and the frame of a window, with what it takes from the one that it names."""
        partition = list(node.args.get("partition_by") or ())
        order = node.args.get("order")
        spec = node.args.get("spec")
        terms = list(order.expressions) if order is not None else []
        base = node.args.get("alias")
        if base is None:
            return partition, terms, spec
        definition = self._definitions.get(name_of(base))
        if definition is None:
            raise InvalidQuery(f'There is no window "{name_of(base)}".', span_of(node))
        inherited, inherited_terms, inherited_spec = self._window(definition)
        if partition or (terms and inherited_terms):
            raise InvalidQuery("A window cannot change what it takes from another one.", span_of(node))
        return inherited, terms or inherited_terms, spec or inherited_spec


def _shown_name(node: Any) -> Any:
    """The name of a shown column that has an alias or is a column."""
    if isinstance(node, exp.Alias):
        return name_of(node.args["alias"])
    return name_of(node.this) if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) else None


def _check_plain(node: Any) -> None:
    """InvalidQuery for a window in which WITHIN GROUP cannot be the order."""
    if any(node.args.get(clause) is not None for clause in ("order", "spec", "alias")):
        raise InvalidQuery("A percentile is over a window of PARTITION BY only.", span_of(node))


def _function(written: WrittenCall, binder: Binder) -> tuple[tuple[Scalar, ...], SqlType]:
    """Arguments and type of a function that is for windows only."""
    nodes = written.arguments or ()
    least, most = _ARGUMENTS[written.name]
    if written.arguments is None or not least <= len(nodes) <= most:
        raise InvalidQuery(f"{written.name.upper()} has another number of arguments.")
    arguments = [binder.bind(n) for n in nodes]
    if written.name in _RANKS:
        numbers = [_number(written.name, a) for a in arguments]
        return tuple(numbers), _RANKS[written.name]
    if len(arguments) > 1:
        arguments[1] = _whole(written.name, arguments[1])
    if len(arguments) > 2:
        arguments[0], arguments[2] = binder.dialect.same_type(written.name.upper(), [arguments[0], arguments[2]])
    arguments[0] = binder.dialect.value(arguments[0], binder.text)
    return tuple(arguments), binder.dialect.row_value(arguments[0].type)


def _whole(name: str, expression: Scalar) -> Scalar:
    expression = functions.typed(expression, INT4)
    if expression.type.name not in ("int2", "int4"):
        raise UnsupportedQuery(f"{name.upper()} takes an integer here, not {expression.type.sql}.")
    return expression


def _number(name: str, expression: Scalar) -> Scalar:
    """NTILE's number of buckets."""
    number = _whole(name, expression)
    if not isinstance(number, Literal):
        raise UnsupportedQuery(f"{name.upper()} of anything but a constant is not kept up to date.")
    if number.value is not None and int(number.value) < 1:
        raise InvalidQuery(f"{name.upper()} takes a number above zero.")
    return number


# --- frames ---------------------------------------------------------------------------------------------------------


def _frame(spec: Any, ordered: bool, node: exp.Expr) -> Frame:
    if spec is None:
        return Frame()
    exclude = spec.args.get("exclude")
    if exclude is not None and str(exclude.name).upper() != "NO OTHERS":
        raise UnsupportedQuery("EXCLUDE in a window's frame is not kept up to date.", span_of(node))
    mode = _MODES[str(spec.args.get("kind") or "RANGE").upper()]
    start = _bound(spec.args.get("start"), spec.args.get("start_side"), "PRECEDING", node)
    end = _bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), "FOLLOWING", node)
    if mode is FrameMode.RANGE and (start or end):
        raise UnsupportedQuery("RANGE with a distance of values is not kept up to date.", span_of(node))
    if mode is FrameMode.GROUPS and not ordered:
        raise InvalidQuery("GROUPS needs an ORDER BY in the window.", span_of(node))
    if (start == 0 and end is not None and end < 0) or (
        start is not None and start > 0 and end is not None and end <= 0
    ):
        raise InvalidQuery("The frame ends before it starts.", span_of(node))
    return Frame(mode, start, end)


def _bound(bound: Any, side: Any, unbounded_side: str, node: exp.Expr) -> int | None:
    """How far from the current row; None is without end on `unbounded_side`."""
    text = str(bound.this if isinstance(bound, exp.Literal) else bound).upper()
    if text == "CURRENT ROW":
        return 0
    if text == "UNBOUNDED":
        if str(side).upper() != unbounded_side:
            raise InvalidQuery(f"A frame's end cannot be UNBOUNDED {str(side).upper()}.", span_of(node))
        return None
    if not isinstance(bound, exp.Literal) or bound.is_string or not text.isdecimal():
        raise UnsupportedQuery("A frame's ends are whole numbers here.", span_of(node))
    return int(text) if str(side).upper() == "FOLLOWING" else -int(text)


# --- planning -------------------------------------------------------------------------------------------------------


def windowed(rows: Rows, above: Above) -> tuple[Rows, Above]:
    """The rows with the results of all window functions: one `Window` per PARTITION BY, one above the other."""
    for use in above.windows:
        above.require_single(use.partition, "every PARTITION BY")
    columns = Columns(list(rows.columns()))
    keys = tuple(columns.add(p.expression) for p in above.parameters if p.single)
    planned: dict[tuple[int, ...], list[int]] = {}
    calls: list[WindowCall] = []
    for number, use in enumerate(above.windows):
        partition = tuple(sorted({columns.add(e) for e in use.partition} | set(keys)))
        planned.setdefault(partition, []).append(number)
        order = tuple(t.term(columns.add(t.expression)) for t in use.order)
        calls.append(WindowCall(use.function, use.arguments, order, use.frame, use.type, use.keeps))
    width = len(columns.expressions)
    result: Relation = rows.block(columns.expressions)
    places: dict[int, int] = {}
    for partition, numbers in planned.items():
        source = _passed(result) if isinstance(result, Window) else as_source(result)
        places |= {number: width + len(places) + i for i, number in enumerate(numbers)}
        result = Window(source, partition, tuple(calls[number] for number in numbers))

    def placed(ref: ColumnRef) -> Scalar:
        return ColumnRef(places[ref.index - FIRST_WINDOW], ref.type) if ref.index >= FIRST_WINDOW else ref

    return rows_of(result), replace(above, windows=()).changed(lambda e, _: substitute(e, placed))


def _passed(window: Window) -> Block:
    below = rows_of(window)
    return below.block(below.columns())
