"""Forwarded reads: a view's own SQL with parameter values, answered by the upstream.

Not here: when a read is forwarded (`dataflow.engine`), the version of its rows (`dataflow.engine.forwarded_reads`).
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import orjson

from dataflow.errors import EvaluationError
from dataflow.functions import arrays
from dataflow.plan.nodes import View, column_types
from dataflow.plan.parametric import parametric_chains
from dataflow.plan.refresh import RefreshView
from dataflow.plan.render import type_name
from dataflow.schema import SqlType
from dataflow.sql.statement import statement_of
from dataflow.types import Row, ViewId
from dataflow.types.rules import ValueKind
from service.engine.upstream.results import AnswerColumn, ForwardRows
from service.engine.views.registry import InstalledView, Status, ViewPlan
from service.engine.views.stand_in import placed
from service.ground.errors import ApiError
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.catalog import ParameterRole, ViewInfo
from service.leaf_store.layout import content_hash
from service.leaf_store.render import compile_row
from service.leaf_store.request import Values, request_of
from service.leaf_store.writer import LeafWriter
from service.protocol.reads import ReadItem

#: Maximum length of a query whose form with numbered parameters is cached.
_MAX_REMEMBERED = 4000
#: A cast to an array.
_ARRAY_CAST = re.compile(r'\s*::\s*[\w ."()]+\[\]')


def forward_query(plan: ViewPlan, info: ViewInfo, values: Values) -> tuple[str, list[str | None]]:
    """Returns the statement to run and its parameters' texts; a list is sent as an array."""
    if isinstance(plan.view, RefreshView):
        return plan.sql, list(request_of(info, values).keys[0])
    # A parameter that occurs twice has one value.
    given = {p.name: (value, p) for p, value in zip(info.parameters, values, strict=True)}
    lists = tuple((p.name, p.type.sql) for _, p in given.values() if p.role is ParameterRole.LIST)
    if plan.template:
        given = dict(sorted(given.items()))
    texts = [arrays.render(value) if isinstance(value, tuple) else value for value, _ in given.values()]
    if plan.template:
        return plan.sql, texts
    typed: tuple[tuple[str, str], ...] = ()
    if any(parametric_chains(plan.view.relation)):
        # The planner knows types of free parameters that the server does not infer ($1 IS NULL).
        typed = tuple((p.name, type_name(p.type)) for _, p in given.values() if p.role is ParameterRole.EQUAL)
    return forward_sql(plan.sql, tuple(given), lists, typed), texts


def forward_sql(
    sql: str,
    parameters: tuple[str, ...],
    lists: tuple[tuple[str, str], ...] = (),
    typed: tuple[tuple[str, str], ...] = (),
) -> str:
    """Rewrites the parameters as ``$1``, ``$2`` … in the order of `parameters`; unnamed ones are p1, p2 …

    A parameter in `lists` (name and type of its elements) occurs in ``IN (…)`` or ``ANY (…)`` and becomes a subquery of
    its elements. One in `typed` (name and type) is cast.
    """
    return (_remembered if len(sql) <= _MAX_REMEMBERED else _forward_sql)(sql, parameters, lists, typed)


def _forward_sql(
    sql: str, parameters: tuple[str, ...], lists: tuple[tuple[str, str], ...], typed: tuple[tuple[str, str], ...]
) -> str:
    members, types = dict(lists), dict(typed)
    statement = statement_of(sql)
    parts: list[str] = []
    at = 0
    for occurrence in statement.occurrences:
        name, place = occurrence.name, occurrence.place
        value = f"${parameters.index(name) + 1}"
        if name in types:
            value += f"::{types[name]}"
        # With a cast to an array it can only occur in ANY.
        if name in members and not _ARRAY_CAST.match(sql, place.end):
            value = f"SELECT unnest({value}::{members[name]}[])"
        parts += [sql[at : place.start], value]
        at = place.end
    return "".join([*parts, sql[at : statement.end]])


_remembered = lru_cache(maxsize=1024)(_forward_sql)


def rows_of_views(views: Sequence[InstalledView], found: ForwardRows) -> list[list[Row]]:
    """Returns the rows of each view's own columns. Raises ApiError(view_broken)."""
    results = zip(views, found.columns, found.rows, strict=True)
    return [rows_of_view(view, columns, rows) for view, columns, rows in results]


def rows_of_view(view: InstalledView, columns: tuple[AnswerColumn, ...], rows: list[Row]) -> list[Row]:
    """Returns rows of a view's own columns: ``*`` may stand for others by now. Raises ApiError(view_building) if it
    lost one, or it has another type: the schema change is not known yet, or the view is being planned again."""
    plan, is_outdated = view.plan, view.status is Status.OUTDATED
    names = [name for name, _ in columns]
    wanted = [column.name for column in plan.view.answer.output] if isinstance(plan.view, View) else []
    is_same = plan.answers(columns)
    if isinstance(plan.view, View) and (not is_same or (is_outdated and "*" in plan.sql and wanted != names)):
        is_same = len(set(names)) == len(names) and len(set(wanted)) == len(wanted) and set(wanted) <= set(names)
        places = [names.index(name) for name in wanted] if is_same else []
        rows = [tuple([row[place] for place in places]) for row in rows]
    if not is_same:
        reason = f"The columns of view {plan.view.name!r} have changed; it is being planned again."
        raise ApiError("view_building", reason, "Try again in a moment.")
    if is_outdated:
        _check_values(plan, rows)
    return rows


def _check_values(plan: ViewPlan, rows: Sequence[Row]) -> None:
    """Raises ApiError(view_building) for a column whose type has changed since the plan was made, if its values have no
    JSON form as values of the former type. (The columns' types of other than incremental plans are compared.)"""
    if isinstance(plan.view, RefreshView):
        return
    answer = plan.view.answer
    types = column_types(answer.relation)
    for place, output in enumerate(answer.output):
        if not all(_is_value(types[output.column], row[place]) for row in rows):
            detail = f"Column {output.name!r} of view {plan.view.name!r} has another type."
            raise ApiError("view_building", detail, "Try again in a moment.")


def _is_value(sql_type: SqlType, text: str | None) -> bool:
    if text is None:
        return True
    if sql_type.rules.kind is ValueKind.BOOLEAN:
        return text in ("t", "f")
    if sql_type.json_form() is not None:
        return True
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def check_registered(leaf: LeafWriter, views: Iterable[InstalledView]) -> None:
    """Raises `ApiError` if a view was replaced or dropped since the request arrived."""
    for view in views:
        if not leaf.has(view.id):
            detail = f"View {view.plan.view.name!r} was replaced or dropped meanwhile."
            raise ApiError("view_building", detail, "Ask again.")


def forwarded_answers(
    leaf: LeafWriter, views: Sequence[InstalledView], items: Sequence[ReadItem], found: Sequence[Sequence[Row]]
) -> list[StoredAnswer]:
    """Returns the `forwarded_answer` of each item. Raises also `ApiError` if a view was dropped."""
    check_registered(leaf, views)
    return [
        forwarded_answer(leaf, view.id, view.plan, rows, item.values, item.window)
        for view, item, rows in zip(views, items, found, strict=True)
    ]


def forwarded_answer(
    leaf: LeafWriter, id_: ViewId, plan: ViewPlan, rows: Sequence[Row], values: Values, window: PageWindow | None
) -> StoredAnswer:
    """Builds the leaf store's answer from the upstream's rows (the view's output columns, in its order).

    Raises `ApiError` for a page of rows in an order that only the upstream can produce, and for values unknown to the
    plan.
    """
    view = plan.view
    try:
        if isinstance(view, RefreshView):
            return leaf.render(id_, placed(rows, view), values, window)
        view = view.answer
        shown = {output.column for output in view.output}
        if all(term.column in shown for term in view.order):
            return leaf.render(id_, _relation_rows(view, rows), values, window)
    except EvaluationError as error:
        # A label added to an enum type since: the view is planned again when the change is noticed.
        raise ApiError("view_broken", f"{error}.", retryable=True) from None
    if window is not None:
        raise ApiError(
            "too_large", "The key is too large to be stored, so its pages cannot be read; read it as a whole."
        )
    types = column_types(view.relation)
    columns = [(output.name, i, types[output.column]) for i, output in enumerate(view.output)]
    row_json = compile_row(columns, leaf.info(id_).serving.bigint_text)
    body = b",".join(map(row_json, rows))
    return StoredAnswer(b"[" + body + b"]", content_hash(body).hex())


def _relation_rows(view: View, rows: Sequence[Row]) -> list[Row]:
    width = len(column_types(view.relation))
    placed = []
    for row in rows:
        full: list[str | None] = [None] * width
        for output, value in zip(view.output, row, strict=True):
            full[output.column] = value
        placed.append(tuple(full))
    return placed
