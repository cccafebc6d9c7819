"""Conversion of row images in events to rows of one followed table.

*Invariants*: a row has one text (or None) for each column of the layout, in its order. A column that is missing or
inexact in events is *unavailable*: None in all further rows, with a `SchemaNotice`; it is never guessed. The layout's
`key` decides how images are read: without one old rows are whole, and an incomplete one produces no row; with one
(PostgreSQL's replica identity) old rows have the key's values only, and large values of new rows may be UNKNOWN.

Not here: single values (`postgres_values`, `mysql_values`), placeholders of large values (`large_values`), net changes
of transactions (`pending_transaction`).
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import orjson

from cdc.change import UNKNOWN, ChangedRow, SchemaNotice, TableLayout
from cdc.debezium.events import RowEvent
from cdc.debezium.forms import Converter, FieldSchema
from cdc.debezium.large_values import LargeValues
from cdc.debezium.modes import InexactValue, Modes
from cdc.debezium.source_database import SourceDatabase

#: Old row and new row; None if there is none.
Change = tuple[ChangedRow | None, ChangedRow | None]

#: Maximum number of cached plans, one for each schema in a table's events.
_PLANS_KEPT = 16

_Pick = Callable[[dict[str, Any]], tuple[Any, ...]]
#: Selection of the columns' values, their converters, selection of the columns that must not be NULL.
_Plan = tuple[_Pick, tuple[Converter, ...], _Pick | None]


class TableRows:
    """Conversion of one table's rows to its layout.

    *State*: `notices`, not taken yet; `_unavailable`, the unavailable columns, each with the reason.
    """

    def __init__(self, name: str, layout: TableLayout, database: SourceDatabase, modes: Modes) -> None:
        self.name = name
        self.layout = layout
        self.notices: list[SchemaNotice] = []
        self._database = database
        self._modes = modes
        self._unavailable: dict[str, str] = {}
        self._lost_identity = False
        #: Positions of the columns that old rows have; empty if they have all.
        self.identity = layout.key if database.incomplete_rows else ()
        self._large = LargeValues(layout, modes.unavailable)
        for column in self._large.unsupported if self.identity else ():
            why = (
                f"may be missing in events unless they have whole rows. Run: ALTER TABLE {name} REPLICA IDENTITY FULL;"
            )
            self._make_unavailable(column, why)
        #: Plans by the identity of the events' schema; the reference to it keeps the identity unique.
        self._plans: dict[int, tuple[Mapping[str, FieldSchema] | None, _Plan]] = {}

    @property
    def has_unavailable(self) -> bool:
        """True if some columns are None in all rows."""
        return bool(self._unavailable)

    def change(self, event: RowEvent) -> Change | None:
        """Return the change of an event other than TRUNCATE; None if it is incomplete: any row may have changed."""
        op, before, after = event.op, event.before, event.after
        if self.identity:
            return self._partial_change(event)
        if op != "c" and before is None:
            self._misfit()
            return None
        if op == "d":
            assert before is not None
            return None if self._perhaps_key_only(event, before) else (self._row(event, before), None)
        if after is not None and self._database.incomplete_rows:
            after = self._large.completed(before or {}, after)
        if after is None:
            return None
        return None if op == "c" or before is None else self._row(event, before), self._row(event, after)

    def _partial_change(self, event: RowEvent) -> Change | None:
        """Return the change of an event whose old row has the identity's values, or none if these did not change."""
        before, after = event.before, event.after
        row = None if after is None else self._row_in_part(event, after)
        if event.op == "c":
            return None if row is None else (None, row)
        if event.op == "d":
            row = None
        elif row is None:
            return None
        image = before if before is not None else after if event.op == "u" else None
        if image is None:
            self._misfit()
            return None
        old = self._identified(event, image)
        return None if old is None else (old, row)

    # ── Images ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _row(self, event: RowEvent, image: dict[str, Any]) -> ChangedRow:
        known = self._plans.get(id(event.fields))
        pick, converters, never_null = self._plan(event.fields) if known is None else known[1]
        try:
            if never_null and None in never_null(image):
                return self._careful_row(event, image)
            return tuple([None if v is None else c(v) for v, c in zip(pick(image), converters, strict=True)])
        except (InexactValue, KeyError, TypeError, ValueError, OverflowError):
            return self._careful_row(event, image)

    def _careful_row(self, event: RowEvent, image: dict[str, Any]) -> ChangedRow:
        """Convert an image after finding the unavailable columns, with a notice."""
        kinds = self.layout.column_types
        for column, kind in zip(self.layout.columns, kinds, strict=True):
            if column in self._unavailable:
                continue
            if column not in image:
                reason = "is not in the events of its topic; see column.include.list in the connector"
                self._make_unavailable(column, reason)
                continue
            value, field = image[column], (event.fields or {}).get(column)
            if value is None:
                ambiguity = self._database.null_ambiguity(kind, field, self._modes)
                if ambiguity is not None:
                    self._make_unavailable(column, ambiguity)
                continue
            try:
                self._database.converter(kind, field, self._modes)(value)
            except InexactValue as problem:
                self._make_unavailable(column, str(problem))
            except (KeyError, TypeError, ValueError, OverflowError):
                self._make_unavailable(column, f"has a value that is not a valid {kind.name}: {_short(value)}")
        self._plans.clear()
        return self._row(event, image)

    def _make_unavailable(self, column: str, reason: str) -> None:
        self._unavailable[column] = reason
        whole = "; ".join(f"{name} {why}" for name, why in self._unavailable.items())
        said = f"Columns of {self.name}: {whole}."
        self.notices.append(SchemaNotice(self.name, said, tuple(self._unavailable), unreadable=True))

    def _plan(self, fields: Mapping[str, FieldSchema] | None) -> _Plan:
        columns, kinds = self.layout.columns, self.layout.column_types
        converters: list[Converter] = []
        for column, kind in zip(columns, kinds, strict=True):
            if column in self._unavailable:
                converters.append(_no_value)
                continue
            try:
                converters.append(self._database.converter(kind, (fields or {}).get(column), self._modes))
            except InexactValue as problem:
                self._make_unavailable(column, str(problem))
                converters.append(_no_value)
        if len(self._plans) >= _PLANS_KEPT:
            self._plans.clear()
        strict = tuple(
            column
            for column, kind in zip(columns, kinds, strict=True)
            if column not in self._unavailable
            and self._database.null_ambiguity(kind, (fields or {}).get(column), self._modes) is not None
        )
        never_null = _picker(strict, {}) if strict else None
        plan = (_picker(columns, self._unavailable), tuple(converters), never_null)
        self._plans[id(fields)] = (fields, plan)
        return plan

    # ── Incomplete rows ──────────────────────────────────────────────────────────────────────────────────────────────

    def _row_in_part(self, event: RowEvent, image: dict[str, Any]) -> ChangedRow:
        missing = self._large.missing(image)
        if not missing:
            return self._row(event, image)
        row = self._row(event, image | {self.layout.columns[i]: None for i in missing})
        return tuple([UNKNOWN if i in missing else value for i, value in enumerate(row)])

    def _identified(self, event: RowEvent, image: dict[str, Any]) -> ChangedRow | None:
        """Return the identity's values of an image; None if it does not state them."""
        known = self._plans.get(id(event.fields))
        _, converters, _ = self._plan(event.fields) if known is None else known[1]
        missing = self._large.missing(image)
        row: list[str | None] = [UNKNOWN] * len(self.layout.columns)
        for i in self.identity:
            column = self.layout.columns[i]
            if column in self._unavailable:
                return None
            if i in missing:
                return None
            # The identity's columns are never NULL: the table has another one.
            if image.get(column) is None:
                self._misfit()
                return None
            try:
                row[i] = converters[i](image[column])
            except (InexactValue, KeyError, TypeError, ValueError, OverflowError):
                self._misfit()
                return None
        return tuple(row)

    def _misfit(self) -> None:
        if not self._lost_identity:
            self._lost_identity = True
            why = self._database.lost_identity.format(table=self.name)
            self.notices.append(
                SchemaNotice(self.name, f"Events of {self.name} do not say which row they changed: {why}")
            )

    def _perhaps_key_only(self, event: RowEvent, before: dict[str, Any]) -> bool:
        """Return whether an old row may have the key only; it looks like a row whose other columns are NULL."""
        if not self._database.incomplete_rows or event.key is None:
            return False
        key = orjson.loads(event.key)
        names = key.get("payload", key)
        rest = [value for name, value in before.items() if name not in names]
        return bool(rest) and all(value is None for value in rest)


def _picker(columns: tuple[str, ...], unavailable: Mapping[str, str]) -> _Pick:
    """Return the selection of the columns' values from an image; KeyError for a missing available column."""
    if not unavailable and len(columns) > 1:
        return itemgetter(*columns)
    return lambda image: tuple([None if c in unavailable else image[c] for c in columns])


def _no_value(value: object) -> str:  # noqa: ARG001
    raise InexactValue("unreachable: the selection leaves these columns out")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
