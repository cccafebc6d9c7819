"""Comparison of a key's cached rows with the upstream's: as bags, and in order as far as SQL defines it.

Rows that tie may have any order, and any of them may be the last before a LIMIT; such differences do not count. Ties
are determined by the first column of the ORDER BY, if readers see it.

Not here: sources of the rows (`leaf_copy`, `job`).
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import orjson

from dataflow.plan.nodes import View, column_types
from dataflow.types import Row
from service.engine.audit.leaf_copy import CopiedKey
from service.engine.audit.messages import Difference, ViewToAudit
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.render import compile_row, unique_names

#: Maximum rows reported for a difference.
SHOWN_ROWS = 5
_LIMITED = re.compile(r"\b(limit|fetch|offset)\b", re.IGNORECASE)
#: Reason why a difference is not certain.
TIED = "rows tie at a LIMIT, and no visible column distinguishes them"


class Comparison:
    """Compares keys of one view."""

    def __init__(self, view: ViewToAudit, info: ViewInfo) -> None:
        self._view = view
        self._info = info
        plan = view.plan.view
        if isinstance(plan, View):
            types = column_types(plan.answer.relation)
            columns = [(output.name, i, types[output.column]) for i, output in enumerate(plan.answer.output)]
            self._cut = info.limit_rows is not None or info.offset_rows > 0 or _has_limit(info)
        else:
            columns = [(name, i, sql_type) for i, (name, sql_type) in enumerate(plan.output)]
            self._cut = _LIMITED.search(view.plan.sql) is not None
        self._json: Callable[[Row], bytes] = compile_row(columns, info.serving.bigint_text)
        self._first = _first_order_column(view)

    def compare(self, stored: CopiedKey, rows: Sequence[Row]) -> Difference | str | None:
        """Returns the difference, if any; or, as a text, why it cannot be determined."""
        there = list(map(self._json, rows))
        if stored.prefix:
            there = there[: len(stored.rows)]
        if there == stored.rows:
            return None
        missing, extra = Counter(there) - Counter(stored.rows), Counter(stored.rows) - Counter(there)
        if missing or extra:
            if (self._cut or stored.prefix) and self._tie(stored.rows, there, missing + extra):
                return None if self._first is not None else TIED
            return self._difference(stored, missing, extra)
        if self._ordered and self._order(stored.rows) != self._order(there):
            return self._difference(stored, missing, extra, reordered=True)
        return None

    @property
    def _ordered(self) -> bool:
        return self._info.ordered and self._first is not None

    def _order(self, rows: Sequence[bytes]) -> list[object]:
        assert self._first is not None
        return [orjson.loads(row)[self._first] for row in rows]

    def _tie(self, stored: Sequence[bytes], there: Sequence[bytes], differing: Counter[bytes]) -> bool:
        """True if all differing rows may tie with the last ones, from which a LIMIT chooses, or with the first, if
        there is an OFFSET."""
        if len(stored) != len(there):
            return False
        if self._first is None:
            return True
        order = self._order(stored)
        ends = (order[0], order[-1])
        return order == self._order(there) and all(value in ends for value in self._order(list(differing)))

    def _difference(
        self, stored: CopiedKey, missing: Counter[bytes], extra: Counter[bytes], *, reordered: bool = False
    ) -> Difference:
        return Difference(
            self._view.name,
            list(stored.key),
            _some(missing),
            _some(extra),
            missing.total(),
            extra.total(),
            reordered,
        )


def _some(rows: Counter[bytes]) -> list[str]:
    return [row.decode(errors="replace") for row in islice(sorted(rows.elements()), SHOWN_ROWS)]


def _has_limit(info: ViewInfo) -> bool:
    return any(parameter.role.value in ("limit", "offset") for parameter in info.parameters)


def _first_order_column(view: ViewToAudit) -> str | None:
    """Returns the visible name of the first sort column."""
    plan = view.plan.view
    plan = plan.answer if isinstance(plan, View) else plan
    if not isinstance(plan, View) or not plan.order:
        return None
    names = unique_names([output.name for output in plan.output])
    for name, output in zip(names, plan.output, strict=True):
        if output.column == plan.order[0].column:
            return name
    return None


__all__ = ["SHOWN_ROWS", "TIED", "Comparison"]
