"""Lookups that are needed, sent, or held until the stream has reached them.

A *flight* is one key of one node, or a part of its rows, that is being looked up: equal misses share it. Flights of
whole keys of one node and column set are sent together as one `Lookup`, a bounded number of lookups at a time, and of
each table. Tables take turns.

*Maintains*: a flight is in exactly one of: wanted, queued, in flight, held, loading. Each of the last four belongs to
one `Sent`.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from dataflow.engine.effects import CancelLookup, Effect
from dataflow.engine.events import LookupDone
from dataflow.engine.limits import Limits
from dataflow.engine.nodes import Leaf, Stored
from dataflow.plan.nodes import Aggregate, Chain, table_of
from dataflow.plan.parts import Lookup, Part
from dataflow.sizing import sampled_bytes
from dataflow.types import Columns, Key, LookupId, NodeId

#: What a flight takes, with its part of its lookup.
_FLIGHT_BYTES = 700

FlightKey = tuple[NodeId, Columns, Key, Part | None]
_Gathering = tuple[NodeId, Columns, Part | None]


@dataclass(eq=False, slots=True)
class Sent:
    """A lookup for some keys of a node."""

    id: LookupId
    node: Stored
    columns: Columns
    keys: tuple[Key, ...]
    part: Part | None = None
    #: By the engine's own counter; 0 while it is queued.
    issued: int = 0
    #: Its result, held until the stream has reached its bound.
    result: LookupDone | None = None
    #: Looks in a row at which nobody waited for it (`abandonment`).
    unawaited: int = 0

    @property
    def of_everything(self) -> bool:
        """Whether it reads all rows."""
        return not self.columns and self.part is None

    def flight_keys(self) -> Iterator[FlightKey]:
        """The flights it carries."""
        return ((self.node.id, self.columns, key, self.part) for key in self.keys)


@dataclass(slots=True)
class _OfTable:
    """The waiting lookups of one table, and the keys of which the next ones are made. The former go first."""

    queue: deque[Sent] = field(default_factory=deque)
    wanted: dict[_Gathering, tuple[Stored, dict[Key, None]]] = field(default_factory=dict)


class Flights:
    """All flights. *State*: `_waiting` has the tables that are waited for, the one whose turn it is first."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last_id = 0
        self._waiting: dict[str, _OfTable] = {}
        self._carrier: dict[FlightKey, Sent | None] = {}
        #: Sent and not reported yet.
        self.in_flight: dict[LookupId, Sent] = {}
        #: Reported, waiting for the stream.
        self.held: list[Sent] = []
        #: Answered in slices (`loads`); they keep neither a place among those in flight nor the ring.
        self.loading: dict[LookupId, Sent] = {}

    def want(self, node: Stored, columns: Columns, key: Key, part: Part | None = None) -> FlightKey:
        """Asks for a key, or a part of it; joins the flight if there is one."""
        flight = (node.id, columns, key, part)
        if flight not in self._carrier:
            self._carrier[flight] = None
            self._of_table(node).wanted.setdefault((node.id, columns, part), (node, {}))[1][key] = None
        return flight

    def send(self, now: int) -> list[Effect]:
        """The lookups to issue now, at time `now`. What there is no room for goes on gathering keys."""
        effects: list[Effect] = []
        while len(self.in_flight) < self._limits.lookups_in_flight and (table := self._whose_turn()) is not None:
            of_table = self._waiting.pop(table)
            if not of_table.queue:
                self._gather(of_table)
            sent = of_table.queue.popleft()
            if of_table.queue or of_table.wanted:
                self._waiting[table] = of_table
            sent.issued = now
            self.in_flight[sent.id] = sent
            effects.append(_lookup(sent))
        return effects

    def _whose_turn(self) -> str | None:
        """The first table that waits and has not its share in flight."""
        if not self._waiting:
            return None
        of_tables = Counter([_table_of(sent.node) for sent in self.in_flight.values()])
        return next((table for table in self._waiting if of_tables[table] < self._limits.lookups_of_table), None)

    def _of_table(self, node: Stored) -> _OfTable:
        table = _table_of(node)
        if table not in self._waiting:
            self._waiting[table] = _OfTable()
        return self._waiting[table]

    def _gather(self, of_table: _OfTable) -> None:
        """Makes one lookup of keys that are wanted of the node that has waited longest."""
        at = next(iter(of_table.wanted))
        _, columns, part = at
        node, keys = of_table.wanted[at]
        taken = tuple(islice(keys, self._limits.lookup_keys if part is None else 1))
        if len(taken) == len(keys):
            del of_table.wanted[at]
        else:
            for key in taken:
                del keys[key]
        self._enqueue(of_table, node, columns, taken, part)

    def _enqueue(
        self, of_table: _OfTable, node: Stored, columns: Columns, keys: tuple[Key, ...], part: Part | None
    ) -> None:
        self._last_id += 1
        sent = Sent(LookupId(self._last_id), node, columns, keys, part)
        for flight in sent.flight_keys():
            self._carrier[flight] = sent
        of_table.queue.append(sent)

    def split(self, sent: Sent, keys: Collection[Key]) -> Sent:
        """Takes these keys from a lookup; returns one that has them, as yet unsent."""
        taken = Sent(sent.id, sent.node, sent.columns, tuple(key for key in sent.keys if key in keys), sent.part)
        sent.keys = tuple(key for key in sent.keys if key not in keys)
        for flight in taken.flight_keys():
            self._carrier[flight] = taken
        return taken

    def repeat(self, sent: Sent) -> None:
        """Sends the same keys again, under a new id."""
        self._enqueue(self._of_table(sent.node), sent.node, sent.columns, sent.keys, sent.part)

    def halve(self, sent: Sent) -> bool:
        """Sends a lookup's keys again, each half in a lookup of its own. False: there is only one."""
        if len(sent.keys) > 1:
            self.repeat(self.split(sent, set(sent.keys[: len(sent.keys) // 2])))
            self.repeat(sent)
            return True
        return False

    def hold(self, sent: Sent, result: LookupDone) -> None:
        """Keeps a result until the stream has reached its bound."""
        sent.result = result
        self.held.append(sent)

    def load(self, sent: Sent) -> None:
        """A lookup in flight is being answered in slices."""
        self.loading[sent.id] = self.in_flight.pop(sent.id)

    def take(self, lookup: LookupId) -> Sent | None:
        """A lookup that is over, whatever way it was to be answered; None if nobody waits for it."""
        return self.in_flight.pop(lookup, None) or self.loading.pop(lookup, None)

    def land(self, sent: Sent) -> None:
        """Ends a lookup's flights."""
        for flight in sent.flight_keys():
            if self._carrier.get(flight) is sent:
                del self._carrier[flight]

    def oldest_issue(self) -> int | None:
        """When the oldest lookup was issued whose result is not installed yet."""
        issued = [sent.issued for sent in self.in_flight.values()]
        issued += [sent.issued for sent in self.held]
        return min(issued, default=None)

    def issued_before(self, time: int) -> list[Sent]:
        """Lookups in flight or held that were issued before `time`."""
        return [s for s in (*self.in_flight.values(), *self.held) if s.issued < time]

    def abandon(self, sent: Sent) -> list[Effect]:
        """Forgets a lookup; its flights go on under another if `repeat` is called, else they are gone."""
        if sent in self.held:
            self.held.remove(sent)
            return []
        of_table = self._waiting.get(_table_of(sent.node))
        if of_table is not None and sent in of_table.queue:
            of_table.queue.remove(sent)
            self._tidy()
            return []
        if self.take(sent.id) is not None:
            return [CancelLookup(sent.id)]
        return []

    def of_node(self, node: Stored) -> list[Sent]:
        """All lookups for a node."""
        return [sent for sent in self.every() if sent.node is node]

    def every(self) -> list[Sent]:
        """All lookups."""
        queued = [sent for of_table in self._waiting.values() for sent in of_table.queue]
        return [*queued, *self.in_flight.values(), *self.held, *self.loading.values()]

    def forget_wanted(self, node: Stored) -> None:
        """Drops what is wanted of a node and was not sent yet."""
        for of_table in self._waiting.values():
            for wanted in [w for w in of_table.wanted if w[0] == node.id]:
                for key in of_table.wanted.pop(wanted)[1]:
                    del self._carrier[(node.id, wanted[1], key, wanted[2])]
        self._tidy()

    def forget_unsent(self, flights: Iterable[FlightKey]) -> int:
        """Drops those of these flights by keys that were not sent yet; how many."""
        before = len(self._carrier)
        for flight in flights:
            _, columns, _, part = flight
            if flight in self._carrier and (columns or part is not None):
                self._forget_unsent(flight, self._carrier[flight])
        self._tidy()
        return before - len(self._carrier)

    def _forget_unsent(self, flight: FlightKey, sent: Sent | None) -> None:
        node, columns, key, part = flight
        if sent is None:
            of_table = next(of for of in self._waiting.values() if (node, columns, part) in of.wanted)
            _, keys = of_table.wanted[node, columns, part]
            del keys[key], self._carrier[flight]
            if not keys:
                del of_table.wanted[node, columns, part]
        elif (waiting := self._waiting.get(_table_of(sent.node))) is not None and sent in waiting.queue:
            self.land(self.split(sent, (key,)))
            if not sent.keys:
                waiting.queue.remove(sent)

    def _tidy(self) -> None:
        """Tables that nothing is waited for of have no turn."""
        self._waiting = {table: of for table, of in self._waiting.items() if of.queue or of.wanted}

    def state_bytes(self) -> int:
        """About what flights take, and results that wait for the stream."""
        held = sum(sampled_bytes(sent.result.rows) for sent in self.held if sent.result is not None)
        return held + _FLIGHT_BYTES * len(self._carrier)

    def __contains__(self, flight: FlightKey) -> bool:
        return flight in self._carrier

    def __len__(self) -> int:
        return len(self._carrier)


def _relation_of(node: Stored) -> Chain | Aggregate:
    """The relation that lookups of a node read: of one table."""
    relation = node.relation if isinstance(node.relation, Aggregate) else node.source.relation
    if not isinstance(relation, Chain | Aggregate):
        raise TypeError("only what reads one table is looked up")
    return relation


def _table_of(node: Stored) -> str:
    return table_of(_relation_of(node))


def _lookup(sent: Sent) -> Lookup:
    """The effect: columns ascending and distinct, keys to match."""
    relation = _relation_of(sent.node)
    columns = sent.columns
    if isinstance(sent.node, Leaf) and list(columns) != sorted(set(columns)):
        positions = {column: position for position, column in reversed(list(enumerate(columns)))}
        distinct = tuple(sorted(positions))
        keys = dict.fromkeys(tuple(key[positions[c]] for c in distinct) for key in sent.keys)
        return Lookup(sent.id, sent.node.id, relation, distinct, tuple(keys), sent.part)
    return Lookup(sent.id, sent.node.id, relation, columns, sent.keys, sent.part)
