"""Registered views: those of the configuration file, and those put over HTTP, stored in the state directory.

Invariants: a name belongs to one of the two origins; the file holds the complete latest state (written to a temporary
file and renamed); at most one replacement of a view is being built.

Not here: planning and installing (`installer`); views as readers see them (`leaf_store`).
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

import orjson

from dataflow.engine.key_sizes import KeyLimits
from dataflow.plan.nodes import View
from dataflow.plan.refresh import RefreshView
from dataflow.plan.table_access import tables_read
from dataflow.types import ViewId
from service.ground.latency import Latency
from service.leaf_store.serving_options import OnLag, Serving

#: Format of the file in the state directory. Each incompatible layout has its own number.
FORMAT = 1
#: Maximum dropped views whose time of drop is remembered.
_MOST_DROPPED = 1000


class Origin(StrEnum):
    """Origin of a view, which determines how it can be changed."""

    CONFIG = "config"
    HTTP = "http"
    #: Promoted from a frequent query (`service.engine.adhoc`). Not stored.
    ADHOC = "adhoc"


class Status(StrEnum):
    """State of a view for its readers."""

    BUILDING = "building"
    READY = "ready"
    #: Computation failed: reads are forwarded for a while (`dataflow.engine.quarantine`).
    QUARANTINED = "quarantined"
    #: Planned again after a schema change: reads are forwarded, without a version, while the SQL runs upstream.
    OUTDATED = "outdated"
    BROKEN = "broken"
    #: Fully materialized by another shard.
    ELSEWHERE = "elsewhere"

    @property
    def answers(self) -> bool:
        """True if reads are answered here."""
        return self in (Status.READY, Status.QUARANTINED)


class Tier(StrEnum):
    """Kind of maintenance (ARCHITECTURE.md, "The engine": tiers)."""

    INCREMENTAL = "incremental"
    REFRESH = "refresh"
    TTL = "ttl"


class StateError(Exception):
    """Unusable state directory; the text gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """User options of a view; None leaves the choice to the planner.

    `tier` is required or the view is refused. `ttl_s`: time to live of answers that expire. `materialization` ``full``:
    an incremental view is fully materialized. `cache_control`: the header of its answers. `on_miss` ``forward``: misses
    fall back to the upstream. `limit_rows`, `limit_bytes`: no larger key is stored. `bigint` ``string``: 64-bit
    integers as strings, which JavaScript does not round. `on_lag`: behaviour of reads when answers are further behind
    than `max_lag_ms`. `stale_while_refresh_s`: how long a stale answer may be served while it is refreshed.
    `large_answers` ``stream``: answers too large for memory are streamed.
    """

    tier: str | None = None
    ttl_s: float | None = None
    materialization: str | None = None
    cache_control: str | None = None
    on_miss: str | None = None
    limit_rows: int | None = None
    limit_bytes: int | None = None
    bigint: str | None = None
    max_lag_ms: int | None = None
    on_lag: str | None = None
    stale_while_refresh_s: float | None = None
    large_answers: str | None = None

    @property
    def forwards(self) -> bool:
        """True if misses fall back to the upstream."""
        return self.on_miss == "forward"

    @property
    def serving(self) -> Serving:
        """Options used by workers."""
        return Serving(
            cache_control=self.cache_control,
            forwards=self.forwards,
            bigint_text=self.bigint == "string",
            max_lag_ms=self.max_lag_ms,
            on_lag=OnLag(self.on_lag or OnLag.SERVE),
            stale_ms=round(1000 * (self.stale_while_refresh_s or 0)),
            streams=self.large_answers == "stream",
        )


#: Rows of a key that each read computes an answer from, without a limit of the view's own: some tens of milliseconds.
COMPUTED_ROWS = 10_000
_OPTIONS = tuple(option.name for option in fields(ViewOptions))


@dataclass(frozen=True, slots=True)
class Definition:
    """View as defined by a user."""

    name: str
    sql: str
    origin: Origin
    options: ViewOptions = ViewOptions()


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """Plan of a definition. `sql` is sent to the upstream: the definition's SQL with registered views expanded; for a
    view that is not maintained incrementally, with parameters as $1, $2 … in the order of the key. `template`: the SQL
    with parameters as $1, $2 … in the order of their names, in any tier.
    """

    view: View | RefreshView
    sql: str
    #: Fully materialized by the user's option.
    whole: bool = False
    #: Registered views named by its SQL.
    reads_views: frozenset[str] = frozenset()
    #: Upstream views that it may read, with the definitions used by the plan.
    upstream_views: frozenset[tuple[str, str]] = frozenset()
    #: Names and type OIDs of the upstream's result columns; None if unknown.
    columns: tuple[tuple[str, int], ...] | None = None
    template: bool = False
    #: Tables that its SQL reads, if it runs upstream.
    described: frozenset[str] = frozenset()

    @property
    def tier(self) -> Tier:
        if isinstance(self.view, View):
            return Tier.INCREMENTAL
        return Tier.REFRESH if self.view.ttl_ms is None else Tier.TTL

    @property
    def tables(self) -> frozenset[str]:
        """Tables whose changes it needs."""
        if isinstance(self.view, View):
            return tables_read(self.view)
        return frozenset(read.table for read in self.view.reads)

    @property
    def is_known(self) -> bool:
        """False for the placeholder of a definition that was never planned."""
        return bool(self._output)

    @property
    def shared_by(self) -> frozenset[str]:
        """Names that its upstream statements share slots by (`service.engine.reads.slots`): tables, or, if unknown, the
        view."""
        return self.tables or self.described or frozenset((self.view.name,))

    def answers(self, columns: tuple[tuple[str, int], ...]) -> bool:
        """True if an upstream result with these columns matches this plan; ``*`` may expand to new columns."""
        return len(columns) == len(self._output) and self.columns in (None, columns)

    def key_limits(self, options: ViewOptions) -> KeyLimits:
        """Limits used by the engine."""
        computed = isinstance(self.view, View) and self.view.at_read is not None
        return KeyLimits(options.limit_rows or (COMPUTED_ROWS if computed else None), options.limit_bytes)

    @property
    def _output(self) -> Sequence[object]:
        return self.view.answer.output if isinstance(self.view, View) else self.view.output


@dataclass(slots=True)
class InstalledView:
    """Plan of a definition in the engine, under an id of its own."""

    id: ViewId
    plan: ViewPlan
    definition: Definition
    status: Status = Status.BUILDING
    reason: str | None = None
    #: True once it has been removed from the engine; only the name with its reason remains.
    tombstone: bool = False
    #: Latest ids of the name's installations before this one whose reads mean the same.
    former: tuple[ViewId, ...] = ()
    #: Installed when a session began, and without parameters: all reads that fall back share one statement.
    rebuilt: bool = False

    @property
    def is_loaded_again(self) -> bool:
        """True if only that is the reason why misses fall back to the upstream."""
        return self.rebuilt and self.status is Status.BUILDING and not self.definition.options.forwards

    @property
    def forwards(self) -> bool:
        """True if misses fall back to the upstream."""
        return self.definition.options.forwards or self.is_loaded_again

    @property
    def is_buried(self) -> bool:
        """True if the view is broken, or is to be planned again, and is not in the engine."""
        return self.tombstone and self.status is not Status.ELSEWHERE

    @property
    def view(self) -> View | RefreshView:
        return self.plan.view

    @property
    def tables(self) -> frozenset[str]:
        """Tables whose changes it needs."""
        return frozenset() if self.tombstone else self.plan.tables


@dataclass(slots=True)
class MissCounts:
    """Counters of a view's missed reads, for the lifetime of its name."""

    #: Reads answered after filling, and their total time.
    upqueries: Latency = field(default_factory=Latency)
    #: Reads answered by the upstream.
    forwarded: int = 0
    failed: int = 0
    #: Keys of a refreshed view that were run upstream, the rows of their answers, and the seconds they took.
    refreshes: int = 0
    refresh_rows: int = 0
    refresh_s: float = 0.0


@dataclass(slots=True)
class RegisteredView:
    """View name known to readers."""

    definition: Definition
    #: Installation that answers reads; None while the definition cannot be planned (`reason` has the cause).
    installed: InstalledView | None = None
    #: Replacement being built beside `installed`.
    replacement: InstalledView | None = None
    reason: str | None = None
    missed: MissCounts = field(default_factory=MissCounts)

    @property
    def status(self) -> Status:
        """Status of the installation that answers reads."""
        return Status.BROKEN if self.installed is None else self.installed.status

    @property
    def status_reason(self) -> str | None:
        """Reason why the view is not ready."""
        return self.reason if self.installed is None else self.installed.reason


@dataclass(slots=True)
class ViewRegistry:
    """All registered views by name, and the file of those put over HTTP."""

    directory: Path
    views: dict[str, RegisteredView] = field(default_factory=dict)
    #: Installations in the engine by id, including replacements.
    installations: dict[ViewId, InstalledView] = field(default_factory=dict)
    #: Time of each view's latest PUT or DELETE over HTTP, in Unix milliseconds of the service that received it. If
    #: several services share views, the latest change wins.
    changed_ms: dict[str, int] = field(default_factory=dict)
    #: True if this process writes the file.
    keeps: bool = True

    @property
    def path(self) -> Path:
        """File of the views put over HTTP."""
        return self.directory / "views.json"

    def load(self, configured: Iterable[Definition]) -> None:
        """Loads the configured and the stored views. Raises `StateError`."""
        for definition in configured:
            self.views[definition.name] = RegisteredView(definition)
        stored, self.changed_ms = self._stored()
        for definition in stored:
            if definition.name in self.views:
                raise StateError(
                    f"View {definition.name!r} is in the configuration file and was also put over HTTP "
                    f"(it is in {self.path}). Rename or remove one of the two."
                )
            self.views[definition.name] = RegisteredView(definition)

    def texts(self) -> list[str]:
        return [registered.definition.sql for registered in self.views.values()]

    def known_ms(self, name: str) -> int:
        """Returns the time of the view's latest change; 0 if that was not recorded, -1 for an unknown view."""
        return self.changed_ms.get(name, 0 if name in self.views else -1)

    def note_change(self, name: str, at_ms: int) -> None:
        """Records a PUT or DELETE, later than the previous one even if clocks differ."""
        at_ms = max(at_ms, self.known_ms(name) + 1)
        self.changed_ms[name] = at_ms
        for _, each in self._dropped()[:-_MOST_DROPPED]:
            del self.changed_ms[each]

    def is_forgotten(self, name: str, at_ms: int) -> bool:
        """True if a missing view was dropped so long ago that its drop is no longer remembered. (Other services may
        still remember it and send it again.)"""
        dropped = self._dropped()
        return name not in self.views and len(dropped) >= _MOST_DROPPED and (at_ms, name) < dropped[-_MOST_DROPPED]

    def _dropped(self) -> list[tuple[int, str]]:
        """Returns the drops of missing views, oldest first: all services forget in the same order."""
        return sorted((at_ms, name) for name, at_ms in self.changed_ms.items() if name not in self.views)

    def save(self) -> None:
        """Writes the views put over HTTP; a crash leaves the old file or the new one. Raises `StateError`."""
        if not self.keeps:
            return
        stored = [
            {"name": v.definition.name, "sql": v.definition.sql, **_stored_options(v.definition.options)}
            for v in self.views.values()
            if v.definition.origin is Origin.HTTP
        ]
        # Apart from the views, so that an earlier version of the service can read the file.
        kept = {"format": FORMAT, "views": stored, "changed_ms": self.changed_ms}
        body = orjson.dumps(kept, option=orjson.OPT_INDENT_2)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_suffix(".tmp")
            with beside.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise StateError(f"The views cannot be written to {self.path}: {error}.") from None

    def _stored(self) -> tuple[list[Definition], dict[str, int]]:
        try:
            body = orjson.loads(self.path.read_bytes())
            if body["format"] != FORMAT:
                raise StateError(f"{self.path} was written by another version of upquery (format {body['format']}).")
            stored = [Definition(v.pop("name"), v.pop("sql"), Origin.HTTP, ViewOptions(**v)) for v in body["views"]]
            return stored, {name: int(at_ms) for name, at_ms in body.get("changed_ms", {}).items()}
        except FileNotFoundError:
            return [], {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(
                f"{self.path} cannot be read: {error}. Repair it, or remove it to start without its views."
            ) from None

    def forget_installations(self) -> None:
        """Forgets all installations of the previous engine."""
        self.installations.clear()
        for registered in self.views.values():
            registered.installed = None
            registered.replacement = None


def _stored_options(options: ViewOptions) -> dict[str, object]:
    # All fields are plain values; `asdict` would copy all views at each change of one.
    return {name: value for name in _OPTIONS if (value := getattr(options, name)) is not None}
