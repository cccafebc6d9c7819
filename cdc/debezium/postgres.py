"""Events of PostgreSQL's connector."""

import re
from typing import Any

from cdc.debezium.events import RowEvent
from cdc.debezium.postgres_values import converter, null_ambiguity
from cdc.debezium.source_database import SourceDatabase

_XID_AND_LSN = re.compile(r"(\d+):(\d+)")


def _place(source: dict[str, Any], transaction: dict[str, Any] | None) -> tuple[str, int, int]:  # noqa: ARG001
    return f"{source['schema']}.{source['table']}", source["txId"], source["lsn"]


def _transaction(text: str) -> tuple[int, int]:
    found = _XID_AND_LSN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not the id of a transaction with its LSN; use Debezium 2 or 3")
    return int(found[1]), int(found[2])


def _identity(event: RowEvent) -> int:
    """Return the event's position and, since several events share one, ``total_order``."""
    return event.position << 32 | event.order


POSTGRES = SourceDatabase(
    connectors=frozenset({"postgresql"}),
    place=_place,
    transaction=_transaction,
    identity=_identity,
    transactional_truncate=True,
    ends_at_commit=True,
    overlapping=True,
    restarts_counts=False,
    needs_watermark=False,
    converter=converter,
    null_ambiguity=null_ambiguity,
    incomplete_rows=True,
    lost_identity="{table} has another replica identity than it had",
)
