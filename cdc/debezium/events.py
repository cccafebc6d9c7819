"""Events of a Debezium connector: changed rows, BEGIN and END of transactions.

Not here: decoding (`envelope`).
"""

from collections.abc import Mapping
from typing import Any

from cdc.debezium.forms import FieldSchema
from cdc.postgres.position import format_lsn

#: PostgreSQL: the 32-bit transaction id; MariaDB, MySQL: the connector's id (GTID, or file and offset).
TransactionKey = int | str


class RowEvent:
    """A change of one row, or a TRUNCATE (`op` is ``t``)."""

    __slots__ = (
        "after",
        "before",
        "collection",
        "fields",
        "key",
        "op",
        "order",
        "position",
        "size",
        "source",
        "transaction",
    )

    def __init__(
        self,
        collection: str,
        op: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        fields: Mapping[str, FieldSchema] | None,
        transaction: TransactionKey | None,
        order: int,
        position: int,
        source: dict[str, Any],
        key: bytes | None,
        size: int,
    ) -> None:
        #: ``schema.table`` or ``database.table`` without quotes, as in END events.
        self.collection = collection
        self.op = op
        self.before = before
        self.after = after
        #: The columns' schemas, one object for all events of a schema; None if the event has none.
        self.fields = fields
        #: None: TRUNCATE of MariaDB and MySQL, which has no transaction.
        self.transaction = transaction
        #: ``total_order`` within the transaction, from 1.
        self.order = order
        #: Position of the change: an LSN, or a position in the binary log.
        self.position = position
        self.source = source
        self.key = key
        #: Bytes of the record's value.
        self.size = size


class Begin:
    """A transaction's BEGIN."""

    __slots__ = ("position", "transaction")

    def __init__(self, transaction: TransactionKey, position: int) -> None:
        self.transaction = transaction
        #: Position of its beginning; 0: unknown.
        self.position = position


class End:
    """A transaction's END, with the number of its events."""

    __slots__ = ("counts", "position", "transaction", "ts_ms")

    def __init__(self, transaction: TransactionKey, position: int, counts: dict[str, int], ts_ms: int) -> None:
        self.transaction = transaction
        #: PostgreSQL: end of its commit. MariaDB, MySQL: position of its beginning; 0: unknown.
        self.position = position
        #: Number of events by collection.
        self.counts = counts
        #: Time of the commit.
        self.ts_ms = ts_ms


Event = RowEvent | Begin | End


def transaction_name(key: TransactionKey, position: int = 0) -> str:
    """Return the name of a transaction in sentences for the user."""
    if isinstance(key, int):
        return f"transaction {key}" + (f" ({format_lsn(position)})" if position else "")
    return f"transaction {key}"
