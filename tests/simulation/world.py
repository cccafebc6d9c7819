"""A simulated upstream: tables under MVCC, transactions that overlap, a change stream, lookups at snapshots.

What is real about it:

- A transaction's commit is in the stream (`World.log`) before snapshots see it; in between it is in *limbo*. What
  conflicts with it (the same row, the same key, a foreign key) waits for it, so a snapshot's visible set is any set of
  committed transactions closed under row conflicts: unseen before seen, seen but not streamed, streamed but unseen.
  Some kinds of upstreams (`visibility`) make commits visible in the log's order.
- Visibility only grows: a later snapshot sees what an earlier one saw.
- A table that joined the publication late is streamed from then on: what transactions then open did before is missing,
  or, where the log has every table, what had been committed before. Of what is missed as a whole the end is, too.
- The stream's start snapshot sees every commit before its position, also those in limbo.

State is drawn from a random generator that the caller passes in, so that one action of a run does the same whatever
happened to the actions before it.

Not here: when what happens (`simulation`), what snapshots say (`visibility`), what a view should contain (`oracle`).
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType

from dataflow.engine.events import TableDelta, Transaction
from dataflow.plan.nodes import Chain, column_types
from dataflow.plan.parts import Lookup
from dataflow.schema import Table
from dataflow.types import Key, Position, Row, Snapshot, columns_of
from tests.simulation.cascades import act, carried
from tests.simulation.identities import Identities, with_identities
from tests.simulation.identities import streamed as streamed_in_part
from tests.simulation.oracle import compiled
from tests.simulation.oracle_values import ERROR, normals_of
from tests.simulation.ordered import RowOrder
from tests.simulation.respelling import respelled
from tests.simulation.schema import CATALOG, LATE_TABLE, SIZES, ForeignKey, SchemaVariant, domain, enforced
from tests.simulation.state_rows import state_normals, state_rows
from tests.simulation.visibility import KINDS, Visibility

KEY_SHARE, NO_KEY_UPDATE, EXCLUSIVE = "key share", "no key update", "exclusive"
#: Which held modes keep a mode from being taken, as for PostgreSQL's row locks.
CONFLICTS = {
    KEY_SHARE: (EXCLUSIVE,),
    NO_KEY_UPDATE: (NO_KEY_UPDATE, EXCLUSIVE),
    EXCLUSIVE: (KEY_SHARE, NO_KEY_UPDATE, EXCLUSIVE),
}
#: What is locked: a table's key value, or a row version where there is no key.
Item = tuple[str, object]


class BlockedError(Exception):
    """The statement would wait for another transaction, or fail: nothing was done."""


class Version:
    """A row version: who made it and who removed it (open, in limbo, or seen by all)."""

    __slots__ = ("creator", "deleter", "row")

    def __init__(self, row: Row, creator: int) -> None:
        self.row = row
        self.creator = creator
        self.deleter: int | None = None


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that may still commit or roll back."""

    id: int
    #: What it did, in order, to be undone in reverse: (table, version, whether it was created here).
    undo: list[tuple[str, Version, bool]] = field(default_factory=list)
    #: Its part of the stream so far, by table.
    stream: dict[str, TableDelta] = field(default_factory=dict)
    locks: list[tuple[Item, str]] = field(default_factory=list)
    truncated: set[str] = field(default_factory=set)
    #: How many changes each of its statements found.
    statements: list[int] = field(default_factory=list)
    #: Whether it changed a table before that was published: the stream misses that.
    missed: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction as the stream carries it, and what it really did."""

    xid: int
    streamed: Transaction
    changes: dict[str, tuple[list[Row], list[Row]]]


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Result of a statement; no rows if an expression failed."""

    rows: list[Row] | None
    snapshot: Snapshot
    bound: Position
    #: Of a semijoin.
    keys: Sequence[Key] = ()


class World:
    """The upstream. What runs now sees what is committed and not in limbo."""

    def __init__(
        self,
        variant: SchemaVariant,
        rng: Random,
        kind: str = "postgres",
        identities: Identities = MappingProxyType({}),
        cascades: bool = False,
    ) -> None:
        self.variant = variant
        #: Foreign keys act on changes of the rows they reference, which the stream does not carry (`cascades`).
        self.cascades = cascades
        #: Identities as the database has them; the engine has those of the catalog.
        self.identities = dict(identities)
        self.visibility: Visibility = KINDS[kind](self)
        self.catalog = with_identities(CATALOG, identities)
        #: By table, those that writers are held to.
        self.foreign_keys = enforced(variant)
        #: All row versions that some snapshot of now or later may see.
        self.versions: dict[str, list[Version]] = {name: [] for name in self.catalog.tables}
        #: Tables whose changes are in the stream.
        self.published = set(self.catalog.tables) - {LATE_TABLE}
        self.next_xid = 100
        #: Where the write-ahead log ends.
        self.wal = 1000
        self.open: dict[int, OpenTransaction] = {}
        #: Committed, in the stream, not yet seen by snapshots.
        self.limbo: set[int] = set()
        #: End positions of commits in limbo, and the greatest of those that are visible: what a bound must reach.
        self.ends: dict[int, Position] = {}
        self.seen_end = 0
        #: The stream from the beginning of time, in commit order.
        self.log: list[Committed] = []
        #: What no crash of the server undoes: entries of the log, its end, ids of transactions.
        self.flushed, self.flushed_wal, self.flushed_xid = 0, self.wal, self.next_xid
        #: How far the log and the ids had been assigned before crashes of the server.
        self.lost_wal, self.lost_xid = 0, 0
        #: Who holds an item, by mode.
        self.held: dict[Item, dict[str, set[int]]] = {}
        #: Who last took an item in which mode and committed: whoever conflicts with it has waited for it.
        self.last: dict[Item, dict[str, set[int]]] = {}
        self.table_locks: dict[str, int] = {}
        self.last_truncate: dict[str, int] = {}
        self.populate(rng)

    # --- reading -----------------------------------------------------------------------------------------------------

    def visible_rows(self, table: str) -> list[Row]:
        """The table, as a statement that starts now sees it."""
        return self.rows_but_of(table, self.limbo | self.open.keys())

    def committed_rows(self, table: str) -> list[Row]:
        """The table at the end of the log."""
        return self.rows_but_of(table, self.open.keys())

    def rows_but_of(self, table: str, unseen: Set[int]) -> list[Row]:
        """The table without what some transactions did."""
        return [
            v.row
            for v in self.versions[table]
            if v.creator not in unseen and (v.deleter is None or v.deleter in unseen)
        ]

    def visible_tables(self) -> dict[str, list[Row]]:
        """All tables, as a statement that starts now sees them."""
        return {name: self.visible_rows(name) for name in self.catalog.tables}

    def look_up(self, lookup: Lookup, rng: Random) -> LookupResult:
        """Run a lookup now: a chain's rows, a part of them, or an aggregate's state rows, under the keys."""
        relation, columns, keys = lookup.relation, lookup.columns, lookup.keys
        if lookup.semijoin is not None:
            other = self.look_up(lookup.semijoin.lookup, rng)
            if other.rows is None:
                return other
            keys = tuple(dict.fromkeys(columns_of(row, lookup.semijoin.links) for row in other.rows))
        if isinstance(relation, Chain):
            rows = compiled(relation).evaluate(self.visible_rows)
            normals = normals_of(relation, columns)
        else:
            rows = state_rows(relation, self.visible_rows, rng)
            normals = state_normals(relation, columns)
        wanted = {tuple(n(v) for n, v in zip(normals, key, strict=True)) for key in keys}
        found = [r for r in rows if tuple(n(r[c]) for n, c in zip(normals, columns, strict=True)) in wanted]
        found = respelled(relation, found)
        rng.shuffle(found)
        failed = any(ERROR in row for row in found)
        if lookup.part is not None:
            found = RowOrder(lookup.part.order, column_types(relation)).part(found, lookup.part)
        return self.brought(None if failed else found, rng, () if lookup.semijoin is None else keys)

    def brought(self, rows: list[Row] | None, rng: Random, keys: Sequence[Key] = ()) -> LookupResult:
        """These rows were read now."""
        return LookupResult(rows, self.visibility.snapshot(), self.visibility.bound(rng), keys)

    def arrived(self, result: LookupResult, rng: Random) -> LookupResult:
        """A result as it is when it has come."""
        snapshot, bound = self.visibility.arrived(result.snapshot, result.bound, rng)
        return replace(result, snapshot=snapshot, bound=bound)

    # --- transactions ------------------------------------------------------------------------------------------------

    def begin(self) -> OpenTransaction:
        """A new transaction."""
        transaction = OpenTransaction(self.next_xid)
        self.next_xid += 1
        self.open[transaction.id] = transaction
        return transaction

    def commit(self, transaction: OpenTransaction, rng: Random, overflow: bool = False, limbo: bool = False) -> None:
        """Write the commit into the stream. With `limbo`, snapshots do not see it yet."""
        del self.open[transaction.id]
        changes = self.changes_of(transaction)
        self.wal += rng.randint(1, 3)
        stream = {table: carried(delta) for table, delta in transaction.stream.items() if table in self.published}
        if overflow:
            stream = {table: TableDelta(truncated=d.truncated, overflow=True) for table, d in stream.items()}
        for table in sorted(stream.keys() & self.identities.keys()):
            definition, identity = self.catalog.tables[table], tuple(self.identities[table])
            stream[table] = streamed_in_part(stream[table], identity, definition.keys[0], rng)
        streamed = Transaction(self.visibility.logged(transaction.id, rng), self.wal, stream)
        self.log.append(Committed(transaction.id, streamed, changes))
        self.ends[transaction.id] = self.wal
        self.release(transaction, committed=True)
        self.limbo.add(transaction.id)
        if not limbo:
            self.reveal(transaction.id)

    def changes_of(self, transaction: OpenTransaction) -> dict[str, tuple[list[Row], list[Row]]]:
        """Return a committing transaction's net changes, by row version; versions that nobody else ever saw are left
        out."""
        changes: dict[str, tuple[list[Row], list[Row]]] = {}
        dropped: set[int] = set()
        for table, version, created in transaction.undo:
            removed, added = changes.setdefault(table, ([], []))
            mine = version.creator == transaction.id
            if created and version.deleter is None:
                added.append(version.row)
            elif created:
                dropped.add(id(version))
            elif not mine:
                removed.append(version.row)
        for table in changes if dropped else ():
            self.versions[table] = [v for v in self.versions[table] if id(v) not in dropped]
        return changes

    def roll_back(self, transaction: OpenTransaction, statements: int | None = None) -> None:
        """Undo everything and end, or undo the last statements only (ROLLBACK TO SAVEPOINT)."""
        if statements is None:
            del self.open[transaction.id]
            self.undo(transaction, 0)
            self.release(transaction, committed=False)
        elif not transaction.truncated:
            before = transaction.statements[-statements:]
            del transaction.statements[-statements:]
            changes = len(transaction.undo)
            self.undo(transaction, before[0] if before else 0)
            if len(transaction.undo) < changes:
                self.restream(transaction)

    def undo(self, transaction: OpenTransaction, down_to: int) -> None:
        """Take back changes, the last first."""
        while len(transaction.undo) > down_to:
            table, version, created = transaction.undo.pop()
            if created:
                self.versions[table].remove(version)
            else:
                version.deleter = None

    def restream(self, transaction: OpenTransaction) -> None:
        """The stream's part of what is left after a savepoint's rollback (never of a table that joined meanwhile)."""
        if any(table == LATE_TABLE for table, _, _ in transaction.undo):
            self.roll_back(transaction)
            return
        transaction.stream = {}
        for table, version, created in transaction.undo:
            self.record(transaction, table, None if created else version.row, version.row if created else None)

    def release(self, transaction: OpenTransaction, committed: bool) -> None:
        """Give up the locks; who takes them next has seen this transaction's end."""
        for item, mode in transaction.locks:
            self.held[item][mode].discard(transaction.id)
            if committed:
                self.last.setdefault(item, {}).setdefault(mode, set()).add(transaction.id)
        for table in transaction.truncated:
            del self.table_locks[table]
            if committed:
                self.last_truncate[table] = transaction.id

    def reveal(self, xid: int) -> None:
        """From now on snapshots see this transaction, and those that are visible before it."""
        if xid in self.limbo:
            end = self.ends[xid]
            first = [x for x in self.limbo if self.ends[x] < end] if self.visibility.ordered else []
            for revealed in [*sorted(first, key=self.ends.__getitem__), xid]:
                self.limbo.discard(revealed)
                self.seen_end = max(self.seen_end, self.ends.pop(revealed))
                self.visibility.revealed(revealed)

    def reveal_all(self) -> None:
        """Everything that is committed is visible, and known to be."""
        for xid in sorted(self.limbo):
            self.reveal(xid)
        self.visibility.catch_up(None)

    def flush(self) -> None:
        """Flush the log: a crash of the server undoes none of it."""
        self.flushed, self.flushed_wal, self.flushed_xid = len(self.log), self.wal, self.next_xid

    def vacuum(self, applied: int) -> None:
        """Forget versions that no snapshot from now on can see, nor after a crash, which undoes none of the first
        `applied` entries of the log."""
        running = self.limbo | self.open.keys() | {committed.xid for committed in self.log[applied:]}
        for table, versions in self.versions.items():
            self.versions[table] = [v for v in versions if v.deleter is None or v.deleter in running]

    # --- locks -------------------------------------------------------------------------------------------------------

    def lock(self, transaction: OpenTransaction, item: Item, mode: str) -> None:
        """Take a row lock. Whoever held a conflicting one before is visible once it is granted."""
        if self.table_locks.get(item[0], transaction.id) != transaction.id:
            raise BlockedError
        held = self.held.setdefault(item, {KEY_SHARE: set(), NO_KEY_UPDATE: set(), EXCLUSIVE: set()})
        for other in CONFLICTS[mode]:
            if held[other] - {transaction.id}:
                raise BlockedError
        if item[0] in self.last_truncate:
            self.reveal(self.last_truncate[item[0]])
        last = self.last.get(item)
        for other in CONFLICTS[mode] if last else ():
            for xid in last.get(other, ()):  # type: ignore[union-attr]
                self.reveal(xid)
        if transaction.id not in held[mode]:
            held[mode].add(transaction.id)
            transaction.locks.append((item, mode))

    def item_of(self, table: Table, version: Version) -> Item:
        """Return the row's identity: its primary key, or itself."""
        if not table.keys:
            return (table.name, version)
        return (table.name, tuple(version.row[c] for c in table.keys[0]))

    def live(self, transaction: OpenTransaction, table: str) -> list[Version]:
        """Row versions that this transaction can work on."""
        others = self.open.keys() - {transaction.id}
        return [v for v in self.versions[table] if v.deleter is None and v.creator not in others]

    # --- statements --------------------------------------------------------------------------------------------------

    def insert(self, transaction: OpenTransaction, table: Table, row: Row) -> None:
        """INSERT of one row."""
        version = Version(row, transaction.id)
        if table.keys:
            key = tuple(row[c] for c in table.keys[0])
            self.lock(transaction, (table.name, key), EXCLUSIVE)
            if self.with_key(table, key):
                raise BlockedError
        self.lock_parents(transaction, table, row, itself=row)
        self.lock(transaction, self.item_of(table, version), EXCLUSIVE)
        self.versions[table.name].append(version)
        transaction.undo.append((table.name, version, True))
        self.record(transaction, table.name, None, row)

    def delete(self, transaction: OpenTransaction, table: Table, version: Version, cascade: bool = False) -> None:
        """DELETE of one row, with its children if `cascade`."""
        self.lock(transaction, self.item_of(table, version), EXCLUSIVE)
        self.lock_parents(transaction, table, version.row)
        children = self.children(table, version.row)
        if children and not cascade:
            raise BlockedError
        version.deleter = transaction.id
        transaction.undo.append((table.name, version, False))
        self.record(transaction, table.name, version.row, None)
        if self.cascades:
            act(self, transaction, table, version.row, None)
            return
        for child, child_version, _ in children:
            self.require_own(transaction, child_version)
            if child_version.deleter is None:
                self.delete(transaction, child, child_version, cascade)

    def require_own(self, transaction: OpenTransaction, version: Version) -> None:
        """Wait for whoever else made a version and is open."""
        if version.creator in self.open and version.creator != transaction.id:
            raise BlockedError

    def remove(self, transaction: OpenTransaction, table: Table, version: Version) -> None:
        """Remove a row on behalf of a foreign key."""
        self.lock(transaction, self.item_of(table, version), EXCLUSIVE)
        self.lock_parents(transaction, table, version.row)
        version.deleter = transaction.id
        transaction.undo.append((table.name, version, False))

    def replace(self, transaction: OpenTransaction, table: Table, version: Version, row: Row) -> None:
        """Replace a row by another on behalf of a foreign key."""
        key_changes = any(row[c] != version.row[c] for key in table.keys for c in key)
        self.lock(transaction, self.item_of(table, version), EXCLUSIVE if key_changes else NO_KEY_UPDATE)
        if key_changes:
            key = tuple(row[c] for c in table.keys[0])
            self.lock(transaction, (table.name, key), EXCLUSIVE)
            if self.with_key(table, key):
                raise BlockedError
        self.lock_parents(transaction, table, row)
        new = Version(row, transaction.id)
        version.deleter = transaction.id
        transaction.undo.append((table.name, version, False))
        self.lock(transaction, self.item_of(table, new), NO_KEY_UPDATE)
        self.versions[table.name].append(new)
        transaction.undo.append((table.name, new, True))

    def update(self, transaction: OpenTransaction, table: Table, version: Version, row: Row) -> None:
        """UPDATE of one row; its primary key may change."""
        key_changes = any(row[c] != version.row[c] for key in table.keys for c in key)
        self.lock(transaction, self.item_of(table, version), EXCLUSIVE if key_changes else NO_KEY_UPDATE)
        if key_changes:
            key = tuple(row[c] for c in table.keys[0])
            self.lock(transaction, (table.name, key), EXCLUSIVE)
            is_referenced = not self.cascades and self.children(table, version.row)
            if self.with_key(table, key) or is_referenced or self.references(table, row, version):
                raise BlockedError
        self.lock_parents(transaction, table, version.row)
        self.lock_parents(transaction, table, row, itself=row)
        if version.deleter is not None:
            raise BlockedError
        version.deleter = transaction.id
        transaction.undo.append((table.name, version, False))
        new = Version(row, transaction.id)
        self.lock(transaction, self.item_of(table, new), NO_KEY_UPDATE)
        self.versions[table.name].append(new)
        transaction.undo.append((table.name, new, True))
        self.record(transaction, table.name, version.row, row)
        if self.cascades and key_changes:
            act(self, transaction, table, version.row, row)

    def truncate(self, transaction: OpenTransaction, table: Table) -> None:
        """TRUNCATE … CASCADE: waits for everyone who touched the tables."""
        tables = self.with_dependants(table)
        touched = {item[0] for other in self.open.values() if other is not transaction for item, _ in other.locks}
        if touched & tables or any(self.table_locks.get(t, transaction.id) != transaction.id for t in tables):
            raise BlockedError
        for xid in list(self.limbo):
            self.reveal(xid)
        for name in sorted(tables):
            self.truncate_one(transaction, name)

    def truncate_one(self, transaction: OpenTransaction, name: str) -> None:
        """All rows of one table go."""
        transaction.truncated.add(name)
        self.table_locks[name] = transaction.id
        for version in self.live(transaction, name):
            version.deleter = transaction.id
            transaction.undo.append((name, version, False))
        if self.streams(name):
            transaction.stream[name] = TableDelta(truncated=True)
        else:
            transaction.missed = True

    def record(self, transaction: OpenTransaction, table: str, removed: Row | None, added: Row | None) -> None:
        """Note a change for the stream, if the table is published; what was added here and goes again cancels."""
        if not self.streams(table):
            transaction.missed = True
            return
        delta = transaction.stream.setdefault(table, TableDelta())
        if removed is not None:
            if removed in delta.added:
                delta.added.remove(removed)
            elif not delta.truncated:
                delta.removed.append(removed)
        if added is not None:
            delta.added.append(added)

    def streams(self, table: str) -> bool:
        """Return whether what is done to the table now can be in the stream."""
        return table in self.published or self.visibility.by_commit

    # --- constraints -------------------------------------------------------------------------------------------------

    def with_key(self, table: Table, key: Key) -> bool:
        """Return whether a row with this primary key is there (nobody else can have it in work: the key is locked)."""
        columns = table.keys[0]
        return any(v.deleter is None and tuple(v.row[c] for c in columns) == key for v in self.versions[table.name])

    def lock_parents(self, transaction: OpenTransaction, table: Table, row: Row, itself: Row | None = None) -> None:
        """Every row that this one references is there (or is `itself`) and stays."""
        for foreign_key in self.foreign_keys[table.name]:
            key = tuple(row[c] for c in foreign_key.columns)
            if None in key:
                continue
            parent = self.catalog.tables[foreign_key.parent]
            self.lock(transaction, (parent.name, key), KEY_SHARE)
            is_itself = parent is table and itself is not None and self.references_itself(foreign_key, itself)
            if itself is not None and not is_itself and not self.with_key(parent, key):
                raise BlockedError

    def references(self, table: Table, row: Row, version: Version) -> bool:
        """Return whether a row would reference a version of its own table, which is about to go."""
        return any(
            foreign_key.parent == table.name
            and tuple(row[c] for c in foreign_key.columns) == tuple(version.row[c] for c in foreign_key.parent_columns)
            for foreign_key in self.foreign_keys[table.name]
        )

    def references_itself(self, foreign_key: ForeignKey, row: Row) -> bool:
        """Return whether a row of a table that references itself is its own parent."""
        own = tuple(row[c] for c in foreign_key.columns)
        return own == tuple(row[c] for c in foreign_key.parent_columns)

    def children(self, table: Table, row: Row) -> list[tuple[Table, Version, ForeignKey]]:
        """Rows that reference this one, other than itself, and by which key."""
        found = []
        for child in self.catalog.tables.values():
            for foreign_key in self.foreign_keys[child.name]:
                if foreign_key.parent == table.name:
                    key = tuple(row[c] for c in foreign_key.parent_columns)
                    found += [
                        (child, v, foreign_key)
                        for v in self.versions[child.name]
                        if v.deleter is None
                        and v.row is not row
                        and tuple(v.row[c] for c in foreign_key.columns) == key
                    ]
        return found

    def with_dependants(self, table: Table) -> set[str]:
        """The table and all that reference it."""
        names = {table.name}
        while True:
            more = {table for table, keys in self.foreign_keys.items() if any(key.parent in names for key in keys)}
            if more <= names:
                return names
            names |= more

    # --- random writers ----------------------------------------------------------------------------------------------

    def random_row(self, table: Table, rng: Random) -> Row:
        """Any row of the table."""
        row = [rng.choice(domain(c.name, self.variant)) for c in table.columns]
        for i, c in enumerate(table.columns):
            while row[i] is None and c.not_null:
                row[i] = rng.choice(domain(c.name, self.variant))
        return tuple(row)

    def random_statement(self, transaction: OpenTransaction, rng: Random, table_name: str | None = None) -> bool:
        """One statement of a writer; False if it could not be done."""
        table = self.catalog.tables[table_name or rng.choice(list(self.catalog.tables))]
        rows = self.live(transaction, table.name)
        grow = len(rows) < SIZES[table.name] * rng.choice((0.5, 1, 1.5))
        transaction.statements.append(len(transaction.undo))
        try:
            if not rows or (grow and rng.random() < 0.7):
                self.insert(transaction, table, self.random_row(table, rng))
            elif rng.random() < (0.3 if grow else 0.6):
                self.delete(transaction, table, rng.choice(rows), cascade=rng.random() < 0.4)
            else:
                self.random_update(transaction, table, rng.choice(rows), rng)
        except BlockedError:
            self.roll_back(transaction, None if transaction.truncated else 1)
            return False
        return True

    def followed_newcomer(self, transaction: OpenTransaction, rng: Random) -> None:
        """A new user whom somebody follows already."""
        users, follows = self.catalog.tables["public.users"], self.catalog.tables[LATE_TABLE]
        user = self.random_row(users, rng)
        transaction.statements.append(len(transaction.undo))
        try:
            self.insert(transaction, users, user)
            self.insert(transaction, follows, (rng.choice(domain("follower", self.variant)), user[0], "p"))
        except BlockedError:
            return

    def random_truncate(self, transaction: OpenTransaction, rng: Random) -> bool:
        """TRUNCATE of some table; False if it would wait."""
        try:
            self.truncate(transaction, rng.choice(list(self.catalog.tables.values())))
        except BlockedError:
            return False
        return True

    def random_update(self, transaction: OpenTransaction, table: Table, version: Version, rng: Random) -> None:
        """UPDATE of one or several columns, to the same value at times."""
        fresh = self.random_row(table, rng)
        changed = set(rng.sample(range(len(fresh)), rng.randint(1, min(2, len(fresh)))))
        row = tuple([fresh[i] if i in changed else v for i, v in enumerate(version.row)])
        self.update(transaction, table, version, row)

    def populate(self, rng: Random) -> None:
        """Insert the rows from before the stream began."""
        for name, table in self.catalog.tables.items():
            for _ in range(SIZES[name]):
                transaction = self.begin()
                try:
                    self.insert(transaction, table, self.random_row(table, rng))
                except BlockedError:
                    self.roll_back(transaction)
                else:
                    self.commit(transaction, rng)
        self.visibility.catch_up(None)
        self.vacuum(len(self.log))
