"""Configuration of a run, and its state."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from dataflow.engine.events import Event, Extent, LookupDone
from dataflow.plan.parts import Cut, Lookup
from dataflow.types import Key, ReadId, Snapshot, ViewId
from load.micro.policies import DEFAULT
from tests.simulation.schema import SchemaVariant
from tests.simulation.world import LookupResult


@dataclass(slots=True)
class Configuration:
    """Configuration of a run: everything that its actions do not decide."""

    seed: int
    foreign_keys: int = 0
    odd_numbers: bool = False
    #: Which kind of upstream it is (`visibility.KINDS`).
    upstream: str = "postgres"
    #: Columns of the replica identity, by table whose old rows the stream carries in part.
    identities: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: Plans materialize what changes of these tables need (`plan.rules.old_rows`), as the planner has them do.
    old_rows: bool = False
    #: Foreign keys act on changes of the rows they reference, which the stream does not carry.
    cascades: bool = False
    #: Names of the views that are installed, in any number of copies.
    views: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    #: Keys of more rows are not stored, of any view (`KeyLimits`); None: there is no limit.
    limit_rows: int | None = None
    #: Some reads do not wait for what is missing, but are forwarded (`Read.forward`).
    forwards: bool = False
    #: Some lookups of everything are answered in slices, and some views are kept whole that need not be.
    loads: bool = False
    whole: bool = False
    #: Which keys go first when memory is short.
    policy: str = DEFAULT
    #: How often each action is taken.
    weights: dict[str, float] = field(default_factory=dict)

    def any_whole(self, rng: Random) -> bool:
        """Return whether the next view is kept whole, whatever routes there are."""
        return self.whole and rng.random() < 0.5

    @property
    def variant(self) -> SchemaVariant:
        """Rules and values of the upstream."""
        return SchemaVariant(self.foreign_keys, self.odd_numbers)

    @property
    def stores_all(self) -> bool:
        """True if no key is too large to be stored."""
        return self.limit_rows is None and not self.limits.keys() & {"key_rows", "key_bytes"}

    def any_forward(self, rng: Random) -> bool:
        """Return whether the next read does not wait."""
        return self.forwards and rng.random() < 0.5

    def as_json(self) -> dict[str, Any]:
        """For a regression file, which lists its actions itself."""
        values = asdict(self)
        del values["weights"]
        return values


@dataclass(frozen=True, slots=True)
class Asked:
    """Request for a view. `base` is how far the view's rows were covered from the extent's start on."""

    view: ViewId
    key: Key
    extent: Extent = None
    base: Cut | None = None


@dataclass(slots=True)
class Flight:
    """A lookup that the engine waits for."""

    lookup: Lookup
    cancelled: bool = False
    result: LookupResult | None = None
    #: What is left to be heard of it, if it is answered in slices.
    slices: Iterator[Event] | None = None


def done(lookup: Lookup, result: LookupResult) -> LookupDone:
    """The event of a result that has rows."""
    assert result.rows is not None
    return LookupDone(lookup.id, result.rows, result.snapshot, result.bound, result.keys)


@dataclass(slots=True)
class ForwardedRead:
    """A read that runs upstream, and what it read."""

    id: ReadId
    snapshot: Snapshot | None = None
    bound: int = 0
    rows: list[Counter[Any]] = field(default_factory=list)
