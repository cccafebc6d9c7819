"""Rows of one followed table, from the images in its events.

*Invariants*: a row has one text (or None) per column of the layout, in its order. A column that its events lack, or
tell only roughly, is None in every row from then on, and said so (`SchemaNotice`): never guessed. An old row that is
not whole makes no row at all.

Not here: single values (`values`), what the changes of a transaction make together (`assembler`).
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import orjson

from cdc.change import ChangedRow, SchemaNotice, TableLayout
from cdc.debezium.envelope import FieldSchema, RowEvent
from cdc.debezium.modes import InexactValue, Modes
from cdc.debezium.values import Converter, converter, null_is_untold

#: The row before and the row after; None where there is none.
Change = tuple[ChangedRow | None, ChangedRow | None]

#: What is remembered of schemas that events of one table carried.
_PLANS_KEPT = 16
_IDENTITY = {
    "postgres": "it does not have full replica identity. Run: ALTER TABLE {table} REPLICA IDENTITY FULL;",
    "mysql": "the server logs partial row images. Run: SET GLOBAL binlog_row_image = 'FULL'; and connect anew",
}

_Pick = Callable[[dict[str, Any]], tuple[Any, ...]]
#: Values of the columns, their converters, and values that are not told where they are NULL.
_Plan = tuple[_Pick, tuple[Converter, ...], _Pick | None]


class TableRows:
    """Takes the rows of one table, as its layout has them.

    *State*: `notices`, what was found out and nobody has taken yet; columns that are not told, each with the reason.
    """

    def __init__(self, name: str, layout: TableLayout, dialect: str, modes: Modes) -> None:
        self.name = name
        self.layout = layout
        self.notices: list[SchemaNotice] = []
        self._dialect = dialect
        self._modes = modes
        self._untold: dict[str, str] = {}
        self._lost_identity = False
        self._markers = _markers(modes.unavailable)
        #: By the identity of the events' schema, which is kept beside so that it stays one.
        self._plans: dict[int, tuple[Mapping[str, FieldSchema] | None, _Plan]] = {}

    def change(self, event: RowEvent) -> Change | None:
        """What the event did, which is no TRUNCATE. None: it does not say, any row of the table may have changed."""
        op, before, after = event.op, event.before, event.after
        if op == "c":
            return (None, self._row(event, after)) if after is not None else None
        if before is None:
            self._without_before()
            return None
        if op == "d":
            return None if self._perhaps_key_only(event, before) else (self._row(event, before), None)
        if after is None:
            return None
        if self._dialect == "postgres":
            after = self._available(before, after)
        return self._row(event, before), self._row(event, after)

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
        """Find out which columns are not told, say so, and do without them."""
        kinds = self.layout.column_types
        for column, kind in zip(self.layout.columns, kinds, strict=True):
            if column in self._untold:
                continue
            if column not in image:
                self._untell(column, "is not in the events of its topic; see column.include.list in the connector")
                continue
            value, field = image[column], (event.fields or {}).get(column)
            if value is None:
                reason = null_is_untold(kind, field, self._dialect, self._modes)
                if reason is not None:
                    self._untell(column, reason)
                continue
            try:
                converter(kind, field, self._dialect, self._modes)(value)
            except InexactValue as problem:
                self._untell(column, str(problem))
            except (KeyError, TypeError, ValueError, OverflowError):
                self._untell(column, f"has a value that is no {kind.name}: {_short(value)}")
        self._plans.clear()
        return self._row(event, image)

    def _untell(self, column: str, reason: str) -> None:
        self._untold[column] = reason
        whole = "; ".join(f"{name} {why}" for name, why in self._untold.items())
        self.notices.append(SchemaNotice(self.name, f"Columns of {self.name}: {whole}.", tuple(self._untold)))

    def _plan(self, fields: Mapping[str, FieldSchema] | None) -> _Plan:
        columns, kinds = self.layout.columns, self.layout.column_types
        converters: list[Converter] = []
        for column, kind in zip(columns, kinds, strict=True):
            if column in self._untold:
                converters.append(_untold)
                continue
            try:
                converters.append(converter(kind, (fields or {}).get(column), self._dialect, self._modes))
            except InexactValue as problem:
                self._untell(column, str(problem))
                converters.append(_untold)
        if len(self._plans) >= _PLANS_KEPT:
            self._plans.clear()
        strict = tuple(
            column
            for column, kind in zip(columns, kinds, strict=True)
            if column not in self._untold
            and null_is_untold(kind, (fields or {}).get(column), self._dialect, self._modes) is not None
        )
        never_null = _picker(strict, {}) if strict else None
        plan = (_picker(columns, self._untold), tuple(converters), never_null)
        self._plans[id(fields)] = (fields, plan)
        return plan

    # ── Rows that are not whole ──────────────────────────────────────────────────────────────────────────────────────

    def _without_before(self) -> None:
        if not self._lost_identity:
            self._lost_identity = True
            why = _IDENTITY[self._dialect].format(table=self.name)
            self.notices.append(
                SchemaNotice(self.name, f"Events of {self.name} do not say which row they changed: {why}")
            )

    def _perhaps_key_only(self, event: RowEvent, before: dict[str, Any]) -> bool:
        """Whether an old row may be the key alone, which looks like a row whose other columns are all NULL."""
        if self._dialect != "postgres" or event.key is None:
            return False
        key = orjson.loads(event.key)
        names = key.get("payload", key)
        rest = [value for name, value in before.items() if name not in names]
        return bool(rest) and all(value is None for value in rest)

    def _available(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        """The new row, with the old one's values where a large one did not change and was not sent."""
        markers = self._markers
        missing = []
        for name, value in after.items():
            first = value[0] if type(value) is list and value else value
            if type(first) is str and first in markers:
                missing.append(name)
        return after | {name: before[name] for name in missing if name in before} if missing else after


def _markers(placeholder: str) -> frozenset[str]:
    """How the placeholder of values that were not sent looks in columns of text and of bytes."""
    data = placeholder.encode()
    return frozenset({placeholder, b64encode(data).decode(), urlsafe_b64encode(data).decode(), data.hex()})


def _picker(columns: tuple[str, ...], untold: Mapping[str, str]) -> _Pick:
    """The columns' values of an image, KeyError if it lacks one that is not `untold`."""
    if not untold and len(columns) > 1:
        return itemgetter(*columns)
    return lambda image: tuple([None if c in untold else image[c] for c in columns])


def _untold(value: object) -> str:  # noqa: ARG001
    raise InexactValue("never asked: the picker leaves these out")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
