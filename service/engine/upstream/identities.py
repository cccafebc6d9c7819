"""Replica identities of tables: the present one, others that are possible, and figures of their use and cost.

Not here: reading them (`databases.postgres.identities`), the needs of views (`service.command.identity_advice`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Identity:
    """Replica identity that a table can have."""

    #: Clause of ALTER TABLE … REPLICA IDENTITY.
    clause: str
    #: Columns whose old values are logged; None: all.
    columns: tuple[str, ...] | None

    def statement(self, table: str, *, partitioned: bool = False) -> str:
        """Returns the statement that sets it: of a partitioned table, which has none itself, for each partition."""
        if not partitioned:
            return f"ALTER TABLE {table} REPLICA IDENTITY {self.clause};"
        quoted = table.replace("'", "''")
        return (
            f"DO $$ DECLARE leaf regclass; BEGIN FOR leaf IN SELECT relid FROM pg_partition_tree('{quoted}') WHERE"
            f" isleaf LOOP EXECUTE format('ALTER TABLE %s REPLICA IDENTITY {self.clause}', leaf); END LOOP; END $$;"
        )


FULL = Identity("FULL", None)


@dataclass(frozen=True, slots=True)
class RowFigures:
    """Estimates from the database's statistics."""

    #: Average bytes of each column within its row, NULLs included; columns without statistics are left out.
    widths: Mapping[str, float] = field(default_factory=dict)
    #: Average bytes of a row stored out of line (TOAST); None if unknown.
    out_of_line: float | None = None
    #: Columns whose values may be too long for an index.
    unbounded: frozenset[str] = frozenset()
    #: Updates and deletes counted in `since_s` seconds; `since_s` is None if the start of the count is unknown.
    updates_and_deletes: int = 0
    since_s: float | None = None

    @property
    def rate(self) -> float | None:
        """Updates and deletes a second; None if unknown."""
        return self.updates_and_deletes / self.since_s if self.since_s else None


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """Replica identity of one table."""

    #: ``pg_class.relreplident``.
    kind: str
    #: True if it has a primary key that is deferrable, which excludes that from being the identity.
    deferrable: bool
    #: Identities possible without a new index: DEFAULT, then indexes by the number of their columns. Without FULL.
    possible: tuple[Identity, ...]
    #: Names of indexes that are not valid: remains of CREATE INDEX CONCURRENTLY.
    invalid: frozenset[str] = frozenset()
    figures: RowFigures = RowFigures()
    #: True if each of its partitions has an identity instead, which later ones do not inherit.
    partitioned: bool = False

    def least(self, columns: Collection[str] = ()) -> Identity:
        """Returns the least identity with these columns that needs no new index."""
        return next((each for each in self.possible if set(columns) <= set(each.columns or ())), FULL)
