"""Interface of a source database: the parts of events that depend on it.

Not here: implementations (`postgres`, `mysql`), their choice (`databases`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cdc.column_type import ColumnType
from cdc.debezium.events import RowEvent, TransactionKey
from cdc.debezium.forms import Converter, FieldSchema
from cdc.debezium.modes import Modes


@dataclass(frozen=True, slots=True, eq=False)
class SourceDatabase:
    """Events of one database's connectors."""

    #: Names of the connectors in ``source.connector``.
    connectors: frozenset[str]

    # Events

    #: Collection, transaction and position of a row, by its ``source`` and ``transaction``.
    place: Callable[[dict[str, Any], dict[str, Any] | None], tuple[str, TransactionKey | None, int]]
    #: A transaction's key, and the position in its id (0: none).
    transaction: Callable[[str], tuple[TransactionKey, int]]
    #: An integer that identifies an event within its transaction, and orders the events; equal in duplicates.
    identity: Callable[[RowEvent], int]
    #: Whether a TRUNCATE belongs to a transaction.
    transactional_truncate: bool
    #: Whether END has the position of the commit; otherwise events have the position.
    ends_at_commit: bool
    #: Whether transactions overlap in the log.
    overlapping: bool
    #: Whether a connector that is restarted within a transaction sends BEGIN again and restarts its count.
    restarts_counts: bool
    #: Whether an idle stream moves by writes to a watermark table only.
    needs_watermark: bool

    # Values

    #: A column's converter; the schema is that of the event, if it has one. Raises InexactValue.
    converter: Callable[[ColumnType, FieldSchema | None, Modes], Converter]
    #: The reason why NULL in an event may be another value; None if it may not.
    null_ambiguity: Callable[[ColumnType, FieldSchema | None, Modes], str | None]
    #: Whether new rows lack large values that are unchanged, and old rows may have the layout's key only.
    incomplete_rows: bool
    #: Reason, and remedy if there is one, for events whose old rows are not those of the catalog's ``{table}``.
    lost_identity: str
