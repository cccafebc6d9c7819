"""The change stream of a PostgreSQL server: one replication connection, one temporary slot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cdc.change import Batch, TableLayout
from cdc.position import PostgresSnapshot


@dataclass(frozen=True, slots=True)
class Started:
    """Where the stream begins; `snapshot` sees exactly what was committed before and is therefore not in the stream."""

    position: int
    snapshot: PostgresSnapshot


class PostgresSource:
    """Committed transactions of the followed tables, in commit order, from one replication slot.

    Used by one task. `tables` gives the layouts of the tables to follow by qualified name (as
    `service.upstream.catalog` makes them); it is asked anew before transactions are decoded, others are skipped unread.
    """

    def __init__(
        self,
        conninfo: str,
        publication: str,
        tables: Callable[[], Mapping[str, TableLayout]],
        max_transaction_rows: int = 200_000,
        start_timeout_s: float = 60.0,
    ) -> None: ...

    async def start(self) -> Started:
        """Connect, create the slot with its snapshot and start streaming. Raises StreamLost."""
        raise NotImplementedError

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for something: whole transactions (up to the first that brings the rows to `max_rows`), or an advance.

        Raises StreamLost. Cancelling it loses nothing.
        """
        raise NotImplementedError

    def request_position(self) -> None:
        """Ask the server how far the stream is; `next_batch` returns when it answers (0.1 ms)."""
        raise NotImplementedError

    def acknowledge(self, position: int) -> None:
        """What ends at or before `position` will never be asked for again: the server may drop its log."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the connection; the temporary slot goes with it."""
        raise NotImplementedError
