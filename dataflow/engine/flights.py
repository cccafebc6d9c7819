"""Lookups from the time that a key is wanted until its rows are used or nobody waits for them.

A *flight* is one key of one node, or a part of its rows, that is being looked up: equal misses share it. Flights of
whole keys of one node and column set are sent together as one `Lookup`, a bounded number of lookups of each table at a
time. A *semijoin* carries flights from its answer on: before that, its keys are not known (`semijoins`).

*Maintains*: a flight is in exactly one of: wanted, queued, outstanding, loading. Each of the last three belongs to one
`LookupQuery`.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.context import Context
from dataflow.engine.effects import CancelLookup
from dataflow.engine.events import LookupDone
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import SemijoinStep, Stored, looked_up_relation
from dataflow.engine.outstanding import Outstanding, UpstreamQuery
from dataflow.engine.parametric_rows import Keys
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.plan.nodes import table_of
from dataflow.plan.parts import Lookup, Part, Semijoin
from dataflow.sizing import sampled_bytes
from dataflow.state.coverage import Coverage
from dataflow.types import Columns, Key, LookupId, NodeId

#: What a flight takes, with its part of its lookup.
_FLIGHT_BYTES = 700

FlightKey = tuple[NodeId, Columns, Key, Part | None]
_Gathering = tuple[NodeId, Columns, Part | None]


@dataclass(eq=False, slots=True)
class LookupQuery(UpstreamQuery[LookupDone]):
    """A lookup for some keys of a node, from the time that it is queued."""

    id: LookupId
    node: Stored
    columns: Columns
    keys: tuple[Key, ...]
    part: Part | None = None
    #: Steps whose keys are in its rows, looked up together with it.
    joined: tuple[SemijoinStep, ...] = ()
    #: Of a semijoin, which has no keys before its answer: the step that it is for, and where the keys are.
    step: SemijoinStep | None = None
    semijoin: Semijoin | None = None

    @property
    def chain(self) -> ChainNode:
        """The chain that it reads."""
        source = self.node.source
        if not isinstance(source, ChainNode):
            raise TypeError("only a chain is looked up")
        return source

    @property
    def tables(self) -> frozenset[str]:
        return self.chain.tables

    @property
    def of_everything(self) -> bool:
        """True if it reads all rows."""
        return not self.columns and self.part is None

    def source_keys(self) -> list[Keys]:
        """The keys, in columns of the chain."""
        columns = self.node.source_columns(self.columns)
        among = Coverage(columns)
        for key in self.keys:
            among.add(key)
        return [(columns, among)]

    def flight_keys(self) -> Iterator[FlightKey]:
        """The flights it carries."""
        return ((self.node.id, self.columns, key, self.part) for key in self.keys)


@dataclass(slots=True)
class _Wanted:
    """Keys of a node that the next lookups are made of, and the steps that are looked up together with them."""

    node: Stored
    keys: dict[Key, None] = field(default_factory=dict)
    steps: dict[SemijoinStep, None] = field(default_factory=dict)


@dataclass(slots=True)
class _OfTable:
    """The waiting lookups of one table, and the keys of which the next ones are made. The former go first."""

    queue: deque[LookupQuery] = field(default_factory=deque)
    wanted: dict[_Gathering, "_Wanted"] = field(default_factory=dict)


class Flights:
    """All flights. *State*: `_waiting` has the tables that are waited for."""

    def __init__(self, context: Context, barrier: PublicationBarrier) -> None:
        self._context = context
        self._limits = context.limits
        self._last_id = 0
        self._waiting: dict[str, _OfTable] = {}
        self._carrier: dict[FlightKey, LookupQuery | None] = {}
        #: Issued, until the answer is used.
        self.outstanding = Outstanding[LookupId, LookupQuery](context, barrier)
        #: Answered in slices (`loads`); they keep neither a place among those in flight nor the ring.
        self.loading: dict[LookupId, LookupQuery] = {}

    def want(self, node: Stored, columns: Columns, key: Key, part: Part | None = None) -> FlightKey:
        """Asks for a key, or a part of it; joins the flight if there is one."""
        flight = (node.id, columns, key, part)
        if flight not in self._carrier:
            self._carrier[flight] = None
            self._of_table(node).wanted.setdefault((node.id, columns, part), _Wanted(node)).keys[key] = None
        return flight

    def join(self, node: Stored, columns: Columns, key: Key, step: SemijoinStep) -> None:
        """Asks for the keys of a step, too, that are in the rows of a key that is wanted and was not sent yet."""
        of_table = self._waiting.get(_table_of(node))
        wanted = None if of_table is None else of_table.wanted.get((node.id, columns, None))
        if wanted is not None and key in wanted.keys:
            wanted.steps[step] = None

    def send(self) -> None:
        """Issues lookups. Keys for which there is no room go on gathering."""
        if not self._waiting:
            return
        for table, of_table in self._waiting.items():
            while (of_table.queue or of_table.wanted) and self._has_room(table):
                self._issue_next(of_table)
        self._tidy()

    def _has_room(self, table: str) -> bool:
        return self.outstanding.in_flight[frozenset([table])] < self._limits.lookups_of_table

    def _issue_next(self, of_table: _OfTable) -> None:
        if not of_table.queue:
            self._gather(of_table)
        sent = of_table.queue.popleft()
        lookup = self._issue(sent)
        for step in sent.joined:
            if self._has_room(_table_of(step.node)):
                semijoin = Semijoin(lookup, step.links)
                self._issue(LookupQuery(self._next_id(), step.node, step.columns, (), step=step, semijoin=semijoin))

    def _issue(self, sent: LookupQuery) -> Lookup:
        self.outstanding.issue(sent.id, sent)
        lookup = _lookup(sent)
        self._context.emit(lookup)
        return lookup

    def _next_id(self) -> LookupId:
        self._last_id += 1
        return LookupId(self._last_id)

    def _of_table(self, node: Stored) -> _OfTable:
        table = _table_of(node)
        if table not in self._waiting:
            self._waiting[table] = _OfTable()
        return self._waiting[table]

    def _gather(self, of_table: _OfTable) -> None:
        """Makes one lookup of keys that are wanted of the node that has waited longest."""
        at = next(iter(of_table.wanted))
        _, columns, part = at
        wanted = of_table.wanted[at]
        taken = tuple(islice(wanted.keys, self._limits.lookup_keys if part is None else 1))
        if len(taken) == len(wanted.keys):
            del of_table.wanted[at]
        else:
            for key in taken:
                del wanted.keys[key]
        sent = LookupQuery(self._next_id(), wanted.node, columns, taken, part, tuple(wanted.steps))
        self._enqueue(of_table, sent)

    def _enqueue(self, of_table: _OfTable, sent: LookupQuery) -> None:
        for flight in sent.flight_keys():
            self._carrier[flight] = sent
        of_table.queue.append(sent)

    def split(self, sent: LookupQuery, keys: Collection[Key]) -> LookupQuery:
        """Takes these keys from a lookup; returns one that has them, as yet unsent."""
        taken = LookupQuery(sent.id, sent.node, sent.columns, tuple(key for key in sent.keys if key in keys), sent.part)
        sent.keys = tuple(key for key in sent.keys if key not in keys)
        for flight in taken.flight_keys():
            self._carrier[flight] = taken
        return taken

    def repeat(self, sent: LookupQuery) -> None:
        """Sends the same keys again, under a new id; a semijoin without an answer has none."""
        if sent.keys:
            again = LookupQuery(self._next_id(), sent.node, sent.columns, sent.keys, sent.part)
            self._enqueue(self._of_table(sent.node), again)

    def halve(self, sent: LookupQuery) -> bool:
        """Sends a lookup's keys again, each half in a lookup of its own. False: there is only one."""
        if len(sent.keys) > 1:
            self.repeat(self.split(sent, set(sent.keys[: len(sent.keys) // 2])))
            self.repeat(sent)
            return True
        return False

    def begin_load(self, sent: LookupQuery) -> None:
        """A lookup in flight is being answered in slices."""
        self.outstanding.end(sent.id)
        self.loading[sent.id] = sent

    def take(self, lookup: LookupId) -> LookupQuery | None:
        """Ends a lookup that runs upstream, whatever way it was to be answered; None if nobody waits for it."""
        sent = self.outstanding.by_id.get(lookup)
        if sent is None:
            return self.loading.pop(lookup, None)
        return self.outstanding.end(lookup) if sent.is_in_flight else None

    def take_keys(self, sent: LookupQuery, keys: Iterable[Key]) -> bool:
        """Lets a semijoin carry those of its keys that are not looked up already. False if there are none: it ends."""
        sent.keys = tuple([key for key in keys if (sent.node.id, sent.columns, key, None) not in self._carrier])
        for flight in sent.flight_keys():
            self._carrier[flight] = sent
        if not sent.keys:
            self.outstanding.end(sent.id)
        return bool(sent.keys)

    def pause(self, sent: LookupQuery) -> None:
        """Lets a lookup wait for the next heartbeat."""
        self.outstanding.pause(sent.id, sent)

    def land(self, sent: LookupQuery) -> None:
        """Ends a lookup's flights."""
        for flight in sent.flight_keys():
            if self._carrier.get(flight) is sent:
                del self._carrier[flight]

    def abandon(self, sent: LookupQuery) -> None:
        """Forgets a lookup; its flights go on under another if `repeat` is called, else they are gone."""
        of_table = self._waiting.get(_table_of(sent.node))
        if of_table is not None and sent in of_table.queue:
            of_table.queue.remove(sent)
            self._tidy()
            return
        ran = self.outstanding.end(sent.id) or self.loading.pop(sent.id, None)
        if ran is not None and ran.is_in_flight:
            self._context.emit(CancelLookup(sent.id))

    def every(self) -> list[LookupQuery]:
        """All lookups that are made already."""
        queued = [sent for of_table in self._waiting.values() for sent in of_table.queue]
        return [*queued, *self.outstanding.by_id.values(), *self.loading.values()]

    def forget(self, node: Stored) -> None:
        """Drops the flights of a node that has gone."""
        for sent in [sent for sent in self.every() if sent.node is node]:
            self.abandon(sent)
            self.land(sent)
        for of_table in self._waiting.values():
            for wanted in [w for w in of_table.wanted if w[0] == node.id]:
                for key in of_table.wanted.pop(wanted).keys:
                    del self._carrier[(node.id, wanted[1], key, wanted[2])]
            for other in of_table.wanted.values():
                other.steps = {step: None for step in other.steps if step.node is not node}
            for queued in of_table.queue:
                queued.joined = tuple(step for step in queued.joined if step.node is not node)
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

    def _forget_unsent(self, flight: FlightKey, sent: LookupQuery | None) -> None:
        node, columns, key, part = flight
        if sent is None:
            of_table = next(of for of in self._waiting.values() if (node, columns, part) in of.wanted)
            keys = of_table.wanted[node, columns, part].keys
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
        answers = [sent.answer for sent in self.outstanding.by_id.values() if sent.answer is not None]
        held = sum(sampled_bytes(answer.rows) for answer in answers)
        return held + _FLIGHT_BYTES * len(self._carrier)

    def __contains__(self, flight: FlightKey) -> bool:
        return flight in self._carrier

    def __len__(self) -> int:
        return len(self._carrier)


def _table_of(node: Stored) -> str:
    return table_of(looked_up_relation(node))


def _lookup(sent: LookupQuery) -> Lookup:
    """The effect: columns ascending and distinct, keys to match."""
    relation = looked_up_relation(sent.node)
    columns = sent.columns
    if isinstance(sent.node, Leaf) and list(columns) != sorted(set(columns)):
        positions = {column: position for position, column in reversed(list(enumerate(columns)))}
        distinct = tuple(sorted(positions))
        keys = dict.fromkeys(tuple(key[positions[c]] for c in distinct) for key in sent.keys)
        return Lookup(sent.id, sent.node.id, relation, distinct, tuple(keys), sent.part)
    return Lookup(sent.id, sent.node.id, relation, columns, sent.keys, sent.part, sent.semijoin)
