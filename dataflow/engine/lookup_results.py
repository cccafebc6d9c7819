"""Results of lookups: installed when they are due, issued again, or failed; lookups of everything become loads.

*Invariants*: each flight of a lookup that is over has landed, or goes on under another lookup.

Not here: how rows are installed (`installation`), the demands that wait for them (`demands`), lookups on their way
(`flights`, `outstanding`).
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from dataflow.engine import events
from dataflow.engine.backfills import Backfills
from dataflow.engine.context import Context
from dataflow.engine.demands import Demands
from dataflow.engine.derivations import Derivations
from dataflow.engine.effects import Reach
from dataflow.engine.evictions import views_above
from dataflow.engine.flights import Flights, LookupQuery
from dataflow.engine.installation import Installation
from dataflow.engine.leaf import Leaf
from dataflow.engine.loads import Loads
from dataflow.engine.nodes import GroupingNode, SemijoinStep
from dataflow.engine.ring import Ring
from dataflow.engine.uncertain_visibility import UncertainVisibility
from dataflow.engine.upquery import Upqueries
from dataflow.errors import EvaluationError, contained
from dataflow.types import Key


class LookupResults:
    """Handles what comes of lookups."""

    def __init__(
        self,
        context: Context,
        ring: Ring,
        flights: Flights,
        upqueries: Upqueries,
        demands: Demands,
        installation: Installation,
        uncertain: UncertainVisibility,
        loads: Loads,
        derivations: Derivations,
        backfills: Backfills,
    ) -> None:
        self._context = context
        self._counters = context.counters
        self._ring = ring
        self._flights = flights
        self._upqueries = upqueries
        self._demands = demands
        self._installation = installation
        self._uncertain = uncertain
        self._loads = loads
        self._derivations = derivations
        self._backfills = backfills

    # Lookups

    def lookups_done(self, results: Iterable[events.LookupDone]) -> None:
        """Takes results, and uses those that the stream is far enough for."""
        for result in results:
            sent = self._flights.outstanding.by_id.get(result.id)
            if sent is None or sent.step is None or self._find_keys(sent, sent.step, result):
                self._flights.outstanding.take_answer(result.id, result)
        self.settle_due()

    def _find_keys(self, sent: LookupQuery, step: SemijoinStep, result: events.LookupDone) -> bool:
        """Takes the keys of a semijoin that are still missing; False if there are none."""
        try:
            missing = self._upqueries.missing(step.node, step.columns, result.keys)
        except Exception as error:
            # Nobody waits for a semijoin: what it would have found is looked up when it is missed.
            contained(error)
            missing = []
        step.note(needed=bool(missing))
        self._counters["semijoins"] += 1
        return self._flights.take_keys(sent, missing)

    def settle_due(self) -> None:
        """Uses the results that the stream has reached."""
        for sent in self._flights.outstanding.due_queries():
            self._flights.outstanding.end(sent.id)
            self._settle(sent)

    def _settle(self, sent: LookupQuery) -> None:
        """Installs a result, or looks up again what it may not give."""
        result = sent.answer
        assert result is not None
        if sent.chain.parametric is not None:
            group = sent.node.relation.group if isinstance(sent.node, GroupingNode) else None
            result = replace(result, rows=sent.chain.parametric.normal(result.rows, group))
        unseen = self._installation.unseen(sent, result)
        if result.snapshot.exact and any(delta.truncated or delta.overflow for delta in unseen):
            self._counters["repeated"] += 1
            self._flights.repeat(sent)
            return
        try:
            verdict = self._uncertain.judge(sent, result, unseen)
            if verdict.again:
                self._look_again(sent, verdict.again)
            if not sent.keys:
                return
            self._counters["replaced"] += verdict.replaced
            self._installation.install(sent, result, verdict.redo)
        except Exception as error:
            self._flights.land(sent)
            self._demands.give_up(self._demands.waiting_for(sent.flight_keys()), contained(error), sent.node)
            return
        self._land(sent, len(result.rows))

    def _look_again(self, sent: LookupQuery, keys: Collection[Key]) -> None:
        """Looks keys up again of which cannot be told what was seen: at once if a read waits that has not waited too
        often, with the next heartbeat if only pins and loads wait, and not at all if nobody does any more."""
        self._counters["unsure"] += 1
        again = self._flights.split(sent, keys)
        waiting = self._demands.repeated(list(again.flight_keys()))
        if any(demand.read is not None for demand in waiting):
            self._flights.repeat(again)
        elif waiting:
            self._flights.pause(again)
        else:
            self._flights.land(again)

    def _land(self, sent: LookupQuery, rows: int) -> None:
        self._flights.land(sent)
        self._demands.landed(list(sent.flight_keys()), rows)

    def lookup_failed(self, event: events.LookupFailed) -> None:
        """Fails the demands that wait for a lookup, or has their reads answered upstream."""
        sent = self._flights.take(event.id)
        # Nobody waits for a semijoin. If its table is at fault, a lookup of its keys says so.
        if sent is None or sent.step is not None:
            return
        self._loads.abandon(sent)
        self._flights.land(sent)
        if event.evaluation:
            error = EvaluationError(event.reason)
            self._demands.give_up(self._demands.waiting_for(sent.flight_keys()), error, sent.node)
        elif not event.retryable:
            self._demands.break_views(views_above(sent.node), event.reason)
        self._demands.fail_waiting(sent.flight_keys(), event.reason, event.retryable)

    def lookup_too_large(self, event: events.LookupTooLarge) -> None:
        """Looks each half of the keys up apart, or has reads of the one key forwarded."""
        if (sent := self._flights.take(event.id)) and sent.step is None and not self._flights.halve(sent):
            self._upqueries.refuse(sent.node, sent.columns, *sent.keys)
            self._land(sent, 0)

    # Lookups in general

    def heartbeat(self) -> None:
        """Issues paused lookups again."""
        for sent in [sent for sent in self._flights.outstanding.by_id.values() if sent.paused]:
            self._repeat(sent)

    def restart(self) -> None:
        """Issues all lookups again: the stream has begun anew."""
        for sent in self._flights.every():
            self._repeat(sent)

    def resume(self) -> None:
        """Issues the lookups again whose answers the stream has not passed, and all loads: the stream is resumed."""
        running = [sent for sent in self._flights.outstanding.by_id.values() if not sent.paused]
        for sent in [*running, *self._flights.loading.values()]:
            self._counters["resumed"] += 1
            self._repeat(sent)

    def abandon_before(self, time: int) -> None:
        """The ring is past its limit: lookups issued before `time` are issued again."""
        for sent in self._flights.outstanding.issued_before(time):
            self._counters["abandoned"] += 1
            self._repeat(sent)

    def _repeat(self, sent: LookupQuery) -> None:
        """Looks the same keys up again, later than what made the first result unusable."""
        self._backfills.abandon(sent)
        self._flights.repeat(sent)

    # Loads

    def load_begun(self, event: events.LoadBegun) -> None:
        """Begins a load, unless its snapshot misses something or its view was stopped."""
        sent = self._flights.outstanding.by_id.get(event.id)
        if sent is None or not sent.is_in_flight:
            return
        if isinstance(sent.node, Leaf) and sent.node.stopped:
            self._backfills.abandon(sent)
            self._flights.land(sent)
        elif not self._flights.outstanding.admits(sent, event.snapshot):
            self._counters["repeated"] += 1
            self._backfills.abandon(sent)
            self._flights.pause(sent)
        elif not self._loads.begin_load(sent, event, self._ring.unseen(sent.chain.table, event.snapshot)):
            self._counters["repeated"] += 1
            self._repeat(sent)
        else:
            self._flights.begin_load(sent)

    def load_rows(self, event: events.LoadRows) -> None:
        """Stages rows of a load."""
        try:
            self._loads.stage_rows(event.id, event.rows)
        except Exception as error:
            sent = self._loads.under_way[event.id].sent
            waiting = self._demands.waiting_for(sent.flight_keys())
            self._backfills.abandon(sent)
            self._flights.land(sent)
            self._demands.give_up(waiting, contained(error), sent.node)

    def load_done(self, event: events.LoadDone) -> None:
        """Completes a load, which catches up when the stream has reached its bound."""
        load = self._loads.complete_load(event.id, event.bound)
        if load is not None and not load.is_ready(self._context.applied):
            self._context.emit(Reach(load.begun.bound))

    def log_transactions(self, transactions: list[events.Transaction]) -> None:
        """Logs transactions for the loads under way; begins the loads again that cannot go on."""
        for load in self._loads.log_transactions(transactions):
            self._repeat(load.sent)

    def work(self, event: events.Work) -> None:
        """Goes on with a load or a derivation."""
        ended = self._backfills.work(event.rows, self._context.applied)
        if ended is None:
            return
        if ended.repeated is not None:
            self._counters["load_truncated"] += 1
            self._repeat(ended.repeated)
        elif ended.error is None:
            self._demands.landed([ended.flight], ended.rows)
        else:
            self._demands.give_up(self._demands.waiting_for([ended.flight]), ended.error, ended.node)

    def begin_lost_derivations(self) -> None:
        """Attempts the demands again that wait for what is not derived any more."""
        while lost := self._derivations.take_lost():
            for flight in lost:
                self._demands.landed([flight], 0)
