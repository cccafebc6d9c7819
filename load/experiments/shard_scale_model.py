"""A model of shards on several machines: reads and changes a second for a number of pods, and the resource that is busy
first, from CPU costs measured on one machine.

*Theory*: each process has one core, 10⁶ µs a second; its load is costs times rates, and the highest rate of reads
is the one at which the first resource is busy all the time (the utilization law). A pod is one shard: an engine and API
workers. The cost of reads is divided among pods, that of changes is not: each engine receives and decodes the whole
stream, to find its own rows. A batch of `keys` keys meets n (1 - (1 - 1/n)^keys) of n shards, and
costs each of them, and the gateway, a part. All reads of a fully materialized view go to one pod.

*Invariants*: pure; no measurements here. Gateways are never the limit: they have no state, so that there can be as many
as are needed; their number is a result.

Not here: measuring the costs (`shard_scale`). Not modelled: batches that are repeated because their shards were at
different positions; memory; networks.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

#: CPU time that a core has in a second.
_CORE_US = 1e6

STREAM = "change stream"
ENGINE = "misses in an engine"
WORKERS = "API workers"
WHOLE = "the fully materialized view"
DATABASE = "database"


@dataclass(frozen=True, slots=True)
class BatchSample:
    """CPU µs of a request with so many keys, in so many parts."""

    parts: float
    keys: int
    us: float


@dataclass(frozen=True, slots=True)
class BatchCost:
    """CPU µs of a process for its part of a request with several keys: for the part, and for each key."""

    part_us: float
    key_us: float

    @classmethod
    def through(cls, few: "BatchSample", many: "BatchSample") -> "BatchCost":
        """Solves for the two costs from samples with different numbers of keys; negative results become 0."""
        determinant = few.parts * many.keys - many.parts * few.keys
        part_us = (few.us * many.keys - many.us * few.keys) / determinant
        key_us = (few.parts * many.us - many.parts * few.us) / determinant
        return cls(max(0.0, part_us), max(0.0, key_us))

    def of_key(self, parts: float, keys: int) -> float:
        """CPU µs for each key of a request with so many keys, in so many parts."""
        return self.part_us * parts / keys + self.key_us


@dataclass(frozen=True, slots=True)
class GatewayCost:
    """CPU µs of a gateway's process: for a read that it passes on, and for batches; and of an API worker behind it,
    asked by few connections, and for parts."""

    read_us: float
    batch: BatchCost
    behind_hit_us: float
    behind_batch: BatchCost


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU µs for one of each."""

    #: An API worker's that clients ask themselves: for a read of one key that is there, and for a batch.
    hit_us: float
    batch: BatchCost
    #: More than that, for a key that is not there: the worker's, the engine's and the database's.
    miss_worker_us: float
    miss_engine_us: float
    miss_database_us: float
    #: An engine's, for a change of which it holds nothing, and for one whose key it holds.
    passed_us: float
    held_us: float
    #: The database's, for sending a change to one engine.
    send_us: float
    #: None: not measured.
    gateway: GatewayCost | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Rates and shares of reads and changes."""

    changes_per_s: float
    #: Of the keys that are read.
    miss_share: float = 0.0
    #: Of a request.
    keys: int = 1
    #: Of the keys that are read: those of one fully materialized view.
    whole_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Machines:
    workers: int = 2
    replicas: int = 1
    database_cores: float = 8.0
    #: The database's connections of each pod, beside its stream: ``[upstream] pool_size``.
    connections: int = 8


@dataclass(frozen=True, slots=True)
class ShardPoint:
    shards: int
    #: Keys that are read a second, at most, and what is busy then.
    reads_per_s: float
    binds: str
    #: Changes a second, if nothing is read.
    changes_per_s: float
    changes_bind: str
    #: Of the database: replication slots, connections, and its cores that send the stream.
    slots: int
    connections: int
    sending_cores: float
    #: Cores of gateways at that rate of reads; None: not measured.
    gateway_cores: float | None
    #: Of pods, one for each engine and worker, and of gateways.
    cores: float | None
    #: Parts of a request.
    parts: float


@dataclass(frozen=True, slots=True)
class _Resource:
    """Something that is busy for so long each second, whatever is read, and for each key that is."""

    name: str
    capacity_us: float
    fixed_us: float
    key_us: float

    @property
    def most(self) -> float:
        """Keys a second at which it is busy all the time."""
        left = self.capacity_us - self.fixed_us
        if left <= 0:
            return 0.0
        return left / self.key_us if self.key_us > 0 else inf


def parts_of(shards: int, keys: int) -> float:
    """Shards that a request with so many keys is expected to meet, any as likely for each key."""
    return shards * (1 - (1 - 1 / shards) ** keys)


def point(shards: int, costs: Costs, traffic: Traffic, machines: Machines) -> ShardPoint:
    pods = shards * machines.replicas
    parts = parts_of(shards, traffic.keys)
    change_us = _change_us(pods, costs)
    first = min(_resources(shards, costs, traffic, machines), key=lambda resource: resource.most)
    changes = min(
        _Resource(STREAM, _CORE_US, 0.0, change_us),
        _Resource(DATABASE, machines.database_cores * _CORE_US, 0.0, pods * costs.send_us),
        key=lambda resource: resource.most,
    )
    gateway_cores = _gateway_cores(first.most, shards, parts, costs, traffic)
    return ShardPoint(
        shards=shards,
        reads_per_s=first.most,
        binds=first.name,
        changes_per_s=changes.most,
        changes_bind=changes.name,
        slots=pods,
        connections=pods * machines.connections,
        sending_cores=traffic.changes_per_s * pods * costs.send_us / _CORE_US,
        gateway_cores=gateway_cores,
        cores=None if gateway_cores is None else pods * (1 + machines.workers) + gateway_cores,
        parts=parts,
    )


def points(shards: Sequence[int], costs: Costs, traffic: Traffic, machines: Machines) -> list[ShardPoint]:
    """One for each number of shards."""
    return [point(number, costs, traffic, machines) for number in shards]


def stops_at(found: Sequence[ShardPoint], worth: float = 1.5) -> ShardPoint | None:
    """The first after which twice the shards are less than `worth` times the reads; None: not among these, which double
    from one to the next."""
    for now, doubled in itertools.pairwise(found):
        if doubled.reads_per_s < worth * now.reads_per_s:
            return now
    return None


def _change_us(pods: int, costs: Costs) -> float:
    """CPU µs of an engine for a change: with n pods it holds one key in n."""
    return costs.passed_us + (costs.held_us - costs.passed_us) / pods


def _resources(shards: int, costs: Costs, traffic: Traffic, machines: Machines) -> list[_Resource]:
    pods = shards * machines.replicas
    of_stream = traffic.changes_per_s * _change_us(pods, costs)
    engine = STREAM if of_stream >= _CORE_US or not traffic.miss_share else ENGINE
    worker_us = _worker_us(shards, costs, traffic)
    # A key is asked of one replica while that one is well, and so is a view without keys.
    even = (1 - traffic.whole_share) / pods
    busiest = WHOLE if pods > 1 and traffic.whole_share >= even else WORKERS
    return [
        _Resource(engine, _CORE_US, of_stream, traffic.miss_share * costs.miss_engine_us / pods),
        _Resource(busiest, machines.workers * _CORE_US, 0.0, (traffic.whole_share + even) * worker_us),
        _Resource(
            DATABASE,
            machines.database_cores * _CORE_US,
            traffic.changes_per_s * pods * costs.send_us,
            traffic.miss_share * costs.miss_database_us,
        ),
    ]


def _worker_us(shards: int, costs: Costs, traffic: Traffic) -> float:
    """CPU µs of API workers for a key."""
    hit_us, batch = costs.hit_us, costs.batch
    if shards > 1 and costs.gateway is not None:
        hit_us, batch = costs.gateway.behind_hit_us, costs.gateway.behind_batch
    read_us = hit_us if traffic.keys == 1 else batch.of_key(parts_of(shards, traffic.keys), traffic.keys)
    return read_us + traffic.miss_share * costs.miss_worker_us


def _gateway_cores(reads_per_s: float, shards: int, parts: float, costs: Costs, traffic: Traffic) -> float | None:
    if shards == 1:
        return 0.0
    if costs.gateway is None:
        return None
    one = costs.gateway.read_us if traffic.keys == 1 else costs.gateway.batch.of_key(parts, traffic.keys)
    return reads_per_s * one / _CORE_US
