"""Report of `shard_scale`: ratios between the sides, CPU time for each operation, and the model's results.

Not here: the model (`shard_scale_model`), measuring (`shard_scale`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from load.experiments.shard_scale_model import (
    BatchCost,
    BatchSample,
    Costs,
    GatewayCost,
    Machines,
    ShardPoint,
    Traffic,
    parts_of,
    points,
    stops_at,
)
from load.progress import number
from load.report.figures import Figure, Measurement, Result, Skipped
from load.report.plots import Plot, PlotLine, ReportTable

BENCH = "shard_scale"
SHARDS = (1, 2, 4, 8, 16, 32, 64)
#: Kinds of processes; several engines have one that reads the stream. The database's are two:
#: what sends its log, and the others.
ENGINE, READER, WORKER, GATEWAY = "engine", "stream reader", "API worker", "gateway"
SENDER, DATABASE = "WAL sender", "database"
#: Keys of a batch; two sizes tell what a part costs from what a key does.
BATCHES = (10, 100)
_KINDS = (ENGINE, READER, WORKER, GATEWAY, SENDER, DATABASE)
_FEW, _MANY = BATCHES


@dataclass(frozen=True, slots=True)
class Rate:
    """Things done a second, and the CPU µs of each kind of process for one of them."""

    per_second: float
    cpu_us: Mapping[str, float]
    #: Share of a core that the client used: near 1 it was what limited the rate.
    client_busy: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """Rates of one start of a side. A batch counts as one request."""

    #: Changes of which no engine holds anything.
    passed: Rate
    misses: Rate
    hits: Rate
    batches: Mapping[int, Rate]
    #: Changes whose key is in memory.
    held: Rate


Pick = Callable[[Turn], Rate]
#: Measurements of each side, and those of them that are hits only.
THINGS: Mapping[str, Pick] = {
    "hits": lambda turn: turn.hits,
    **{f"batches of {keys}": lambda turn, keys=keys: turn.batches[keys] for keys in BATCHES},  # type: ignore[misc]
    "misses": lambda turn: turn.misses,
    "visible changes, held": lambda turn: turn.held,
    "visible changes, of keys nobody holds": lambda turn: turn.passed,
}
_READS = ("hits", *(f"batches of {keys}" for keys in BATCHES))


@dataclass(frozen=True, slots=True)
class ShardSetup:
    """A side: so many shards, and API workers of all of them together."""

    shards: int
    workers: int
    gateway: bool = False

    @property
    def name(self) -> str:
        if self.gateway:
            return f"{self.shards} pods, {self.workers} workers, gateway"
        return f"{self.shards} shard{'s' * (self.shards > 1)}, {self.workers} worker{'s' * (self.workers > 1)}"


#: What the others are compared with, and what costs are taken from; what a gateway is compared with; and the gateway.
ALONE, ON_ONE_MACHINE, APART = ShardSetup(1, 1), ShardSetup(2, 2), ShardSetup(2, 2, gateway=True)

Turns = Mapping[ShardSetup, Sequence[Turn]]


@dataclass(frozen=True, slots=True)
class Mix:
    """Traffic that the model is asked about."""

    name: str
    traffic: Traffic


def mixes(changes_per_s: float, miss_share: float, keys: int, whole_share: float) -> list[Mix]:
    """Traffic mixes, each with another limiting resource."""
    return [
        Mix("single keys, all there", Traffic(changes_per_s)),
        Mix(f"single keys, {miss_share:.1%} misses", Traffic(changes_per_s, miss_share)),
        Mix(f"batches of {keys}", Traffic(changes_per_s, keys=keys)),
        Mix(f"{whole_share:.1%} of one fully materialized view", Traffic(changes_per_s, whole_share=whole_share)),
    ]


def costs_of(turns: Turns) -> Costs:
    """Costs from the sides' CPU time, medians over the rounds; all but the gateway's are of one shard alone."""
    alone = turns[ALONE]
    hit_us = _us(alone, lambda turn: turn.hits, WORKER)
    return Costs(
        hit_us=hit_us,
        batch=_batch_cost(alone, 1, WORKER),
        miss_worker_us=max(0.0, _us(alone, lambda turn: turn.misses, WORKER) - hit_us),
        miss_engine_us=_us(alone, lambda turn: turn.misses, ENGINE),
        miss_database_us=_us(alone, lambda turn: turn.misses, DATABASE),
        passed_us=_us(alone, lambda turn: turn.passed, ENGINE),
        held_us=_us(alone, lambda turn: turn.held, ENGINE),
        send_us=_us(alone, lambda turn: turn.held, SENDER),
        gateway=_gateway_cost(turns[APART]) if APART in turns else None,
    )


def _gateway_cost(turns: Sequence[Turn]) -> GatewayCost:
    return GatewayCost(
        read_us=_us(turns, lambda turn: turn.hits, GATEWAY),
        batch=_batch_cost(turns, APART.shards, GATEWAY),
        behind_hit_us=_us(turns, lambda turn: turn.hits, WORKER),
        behind_batch=_batch_cost(turns, APART.shards, WORKER),
    )


def _us(turns: Sequence[Turn], pick: Pick, kind: str) -> float:
    return median(pick(turn).cpu_us.get(kind, 0.0) for turn in turns)


def _batch_cost(turns: Sequence[Turn], shards: int, kind: str) -> BatchCost:
    few, many = (
        BatchSample(parts_of(shards, keys), keys, _us(turns, lambda turn, keys=keys: turn.batches[keys], kind))  # type: ignore[misc]
        for keys in BATCHES
    )
    return BatchCost.through(few, many)


def figures(turns: Turns) -> list[Result]:
    """Ratios of sides of the same round."""
    results: list[Result] = []
    for way in turns:
        if way != ALONE:
            peer = ON_ONE_MACHINE if way.gateway else ALONE
            results += [_ratio(turns, way, peer, thing, pick) for thing, pick in THINGS.items()]
        if way.gateway:
            results += [_cpu_ratio(turns, way, thing, pick) for thing, pick in THINGS.items() if thing in _READS]
    if APART not in turns:
        results.append(Skipped(BENCH, "pods behind a gateway: not asked for (--gateway)"))
    return results


def _ratio(turns: Turns, way: ShardSetup, peer: ShardSetup, thing: str, pick: Pick) -> Figure:
    mine, theirs = ([pick(turn).per_second for turn in turns[side]] for side in (way, peer))
    ratios = [one / other for one, other in zip(mine, theirs, strict=True)]
    detail = f"{number(median(mine))}/s against {number(median(theirs))}/s"
    return Figure(BENCH, f"{thing}: {way.name} / {peer.name}", Measurement.of(ratios), "x", detail=detail)


def _cpu_ratio(turns: Turns, way: ShardSetup, thing: str, pick: Pick) -> Figure:
    mine, theirs = ([_all_us(pick(turn)) for turn in turns[side]] for side in (way, ON_ONE_MACHINE))
    ratios = [one / max(1e-9, other) for one, other in zip(mine, theirs, strict=True)]
    detail = f"{number(median(mine))} µs against {number(median(theirs))} µs"
    name = f"{thing}: CPU time of all that serves, {way.name} / {ON_ONE_MACHINE.name}"
    return Figure(BENCH, name, Measurement.of(ratios), "x", None, False, detail)


def _all_us(rate: Rate) -> float:
    return sum(rate.cpu_us.values())


def tables_of_turns(turns: Turns) -> list[ReportTable]:
    """Rates and CPU time, medians over the rounds."""
    rows = [
        (
            thing,
            way.name,
            number(median(pick(turn).per_second for turn in its)),
            *_cpu(pick, its),
            f"{median(pick(turn).client_busy for turn in its):.0%}",
        )
        for thing, pick in THINGS.items()
        for way, its in turns.items()
    ]
    columns = ("what", "side", "/s", *(f"{kind}, µs" for kind in _KINDS), "client busy")
    return [ReportTable("Rates, and CPU time of each kind of process for one", columns, rows)]


def _cpu(pick: Pick, turns: Sequence[Turn]) -> list[str]:
    return [
        number(median(pick(turn).cpu_us[kind] for turn in turns)) if kind in pick(turns[0]).cpu_us else ""
        for kind in _KINDS
    ]


def table_of_costs(costs: Costs, turns: Turns) -> ReportTable:
    """The model's input, and its prediction for two shards beside the measurement."""
    both = turns[ShardSetup(2, 1)]
    # They do not decode: what passing over a change costs them is measured, what holding it adds is as of one alone.
    passed = _us(both, lambda turn: turn.passed, ENGINE) / 2
    computed = passed + (costs.held_us - costs.passed_us) / 2
    rows = [
        ("a hit: API worker", number(costs.hit_us)),
        ("a batch, and each key in it: API worker", _batch(costs.batch)),
        ("a miss, beyond a hit: API worker", number(costs.miss_worker_us)),
        ("a miss: engine", number(costs.miss_engine_us)),
        ("a miss: database", number(costs.miss_database_us)),
        ("a change that nothing is held of: engine", number(costs.passed_us)),
        ("a change that is held: engine", number(costs.held_us)),
        ("a change: the database, sending it to one engine", number(costs.send_us)),
        *_gateway_rows(costs.gateway),
        ("two shards, a change: the stream's reader", number(_us(both, lambda turn: turn.passed, READER))),
        ("two shards, a change that nothing is held of: each engine", number(passed)),
        ("two shards, a change that is held: each engine, computed", number(computed)),
        ("two shards, a change that is held: each engine", number(_us(both, lambda turn: turn.held, ENGINE) / 2)),
    ]
    return ReportTable("What the model is given: CPU µs", ("what", "µs"), rows)


def _gateway_rows(cost: GatewayCost | None) -> list[tuple[str, str]]:
    if cost is None:
        return [("a read, and a part of a batch: gateway", "not measured")]
    return [
        ("a read: gateway", number(cost.read_us)),
        ("a read: API worker behind it", number(cost.behind_hit_us)),
        ("a part of a batch, and each key in it: gateway", _batch(cost.batch)),
        ("a part of a batch, and each key in it: API worker behind it", _batch(cost.behind_batch)),
    ]


def _batch(cost: BatchCost) -> str:
    return f"{number(cost.part_us)} + {number(cost.key_us)} a key"


def model(costs: Costs, mixed: Sequence[Mix], machines: Machines) -> tuple[list[ReportTable], list[Plot]]:
    """Tables and plots of the model for each traffic mix."""
    found = {mix.name: points(SHARDS, costs, mix.traffic, machines) for mix in mixed}
    each = next(iter(found.values()))
    return [_reads_table(found), _changes_table(each)], [_reads_plot(found), _changes_plot(each)]


def _reads_table(found: Mapping[str, Sequence[ShardPoint]]) -> ReportTable:
    columns = (
        "traffic",
        "shards",
        "keys/s",
        "times one",
        "parts a request",
        "gateway cores",
        "keys/s a core, of all",
        "binds first",
    )
    rows = [
        (
            name,
            str(point.shards),
            number(point.reads_per_s),
            f"{_times(point, each[0]):.2g}",
            number(point.parts),
            "not measured" if point.gateway_cores is None else f"{point.gateway_cores:.1f}",
            "not measured" if point.cores is None else number(point.reads_per_s / point.cores),
            _binds(point, each),
        )
        for name, each in found.items()
        for point in each
    ]
    return ReportTable("Computed: keys read a second", columns, rows)


def _times(point: ShardPoint, one: ShardPoint) -> float:
    return point.reads_per_s / one.reads_per_s if one.reads_per_s else 0.0


def _binds(point: ShardPoint, each: Sequence[ShardPoint]) -> str:
    return point.binds + ("; twice as many give less than 1.5 times" if point == stops_at(each) else "")


def _changes_table(each: Sequence[ShardPoint]) -> ReportTable:
    columns = ("shards", "changes/s at most", "binds first", "replication slots", "connections", "cores that send")
    rows = [
        (
            str(point.shards),
            number(point.changes_per_s),
            point.changes_bind,
            str(point.slots),
            str(point.connections),
            f"{point.sending_cores:.2g}",
        )
        for point in each
    ]
    return ReportTable("Computed: changes a second, and what the database must have", columns, rows)


def _reads_plot(found: Mapping[str, Sequence[ShardPoint]]) -> Plot:
    lines = [
        PlotLine(name, [point.shards for point in each], [max(1.0, point.reads_per_s) for point in each])
        for name, each in found.items()
    ]
    first = next(iter(found.values()))
    ideal = [first[0].reads_per_s * point.shards for point in first]
    lines.append(PlotLine("single keys, if pods were all", [point.shards for point in first], ideal, dashed=True))
    return Plot(
        "Computed: reads over shards",
        "shards, a pod each",
        "keys/s",
        lines,
        "From measured costs. Where a line bends, something is busy that pods do not add to.",
        x_scale="log",
        y_scale="log",
    )


def _changes_plot(each: Sequence[ShardPoint]) -> Plot:
    line = PlotLine("changes, at most", [point.shards for point in each], [point.changes_per_s for point in each])
    return Plot(
        "Computed: changes over shards",
        "shards, a pod each",
        "changes/s",
        [line],
        "Each engine decodes the whole stream: with more shards changes come near what passing over them costs, and no"
        " further; and the database sends the stream to each.",
        x_scale="log",
        y_range=(0, None),
    )
