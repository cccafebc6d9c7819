"""Which views there are: those of the configuration file, and those put over HTTP, kept in the state directory.

Invariants: a name belongs to one of the two origins; what is on disk is what was last put, whole (written beside and
renamed); at most one replacement of a view is being built.

Not here: planning and installing (`installer`); what readers see of a view (`leaf_store`).
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

import orjson

from dataflow.engine.key_sizes import KeyLimits
from dataflow.plan.lookup import tables_read
from dataflow.plan.nodes import View
from dataflow.plan.refresh import RefreshView
from dataflow.types import ViewId
from service.ground.latency import Latency
from service.leaf_store.serving_options import OnLag, Serving

#: Of the file in the state directory. A later layout is another number, never a guess.
FORMAT = 1
#: Names of views that are not there any more, of which it is remembered when they were dropped.
_MOST_DROPPED = 1000


class Origin(StrEnum):
    """Who defined a view, and so who may change it."""

    CONFIG = "config"
    HTTP = "http"
    #: Nobody: it is asked often (`service.adhoc`). Not kept over a restart.
    ADHOC = "adhoc"


class Status(StrEnum):
    """What a reader can expect of a view."""

    BUILDING = "building"
    READY = "ready"
    #: Its computation failed: reads are forwarded for a while (`dataflow.engine.quarantine`).
    QUARANTINED = "quarantined"
    BROKEN = "broken"
    #: It is kept whole, by another shard.
    ELSEWHERE = "elsewhere"

    @property
    def answers(self) -> bool:
        """Whether reads get rows here."""
        return self in (Status.READY, Status.QUARANTINED)


class Tier(StrEnum):
    """How a view is maintained (ARCHITECTURE.md, "The engine": tiers)."""

    INCREMENTAL = "incremental"
    REFRESH = "refresh"
    TTL = "ttl"


class StateError(Exception):
    """The state directory cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How a user wants a view to be kept; None: as the planner finds best.

    `tier` is kept to, or the view is refused. `ttl_s`: how long answers of a view that expires are good.
    `materialization` ``full``: an incremental view is kept whole. `cache_control`: the header of its answers.
    `on_miss` ``forward``: the upstream answers what is not there. `limit_rows`, `limit_bytes`: no larger key is
    stored. `bigint` ``string``: a form of 64-bit integers that JavaScript does not round. `on_lag`:
    what a read does when answers are further behind than `max_lag_ms`. `stale_while_refresh_s`: for how long
    an answer that was good may be given while it is run again. `large_answers` ``stream``: those too large to be held
    are sent in parts.
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
    def serving(self) -> Serving:
        """What workers need of them."""
        return Serving(
            cache_control=self.cache_control,
            forwards=self.on_miss == "forward",
            bigint_text=self.bigint == "string",
            max_lag_ms=self.max_lag_ms,
            on_lag=OnLag(self.on_lag or OnLag.SERVE),
            stale_ms=round(1000 * (self.stale_while_refresh_s or 0)),
            streams=self.large_answers == "stream",
        )

    @property
    def key_limits(self) -> KeyLimits:
        """What the engine needs of them."""
        return KeyLimits(self.limit_rows, self.limit_bytes)


_OPTIONS = tuple(option.name for option in fields(ViewOptions))


@dataclass(frozen=True, slots=True)
class Definition:
    """What a user said a view is."""

    name: str
    sql: str
    origin: Origin
    options: ViewOptions = ViewOptions()


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """How a definition is kept. `sql` is what the upstream is asked: the definition's, with the registered views that
    it names put in; of one that is not kept incrementally with parameters as $1, $2 … in the order of the key.
    `template`: it has its parameters as $1, $2 … in the order of their names, in any tier."""

    view: View | RefreshView
    sql: str
    #: Kept whole because the user wants it so.
    whole: bool = False
    #: Registered views that its SQL names.
    reads_views: frozenset[str] = frozenset()
    #: Views of the upstream that it may read, with their definitions as they were.
    upstream_views: frozenset[tuple[str, str]] = frozenset()
    #: Names and types' OIDs of what the upstream answers; None if that is not known.
    columns: tuple[tuple[str, int], ...] | None = None
    template: bool = False
    #: Tables that its SQL reads, where it is run upstream.
    described: frozenset[str] = frozenset()

    @property
    def tier(self) -> Tier:
        """How it is kept."""
        if isinstance(self.view, View):
            return Tier.INCREMENTAL
        return Tier.REFRESH if self.view.ttl_ms is None else Tier.TTL

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose changes it needs."""
        if isinstance(self.view, View):
            return tables_read(self.view)
        return frozenset(read.table for read in self.view.reads)

    @property
    def shared_by(self) -> frozenset[str]:
        """What its statements upstream have a share of the slots by (`service.engine.reads.slots`): tables, or, where
        no tables are known, the view."""
        return self.tables or self.described or frozenset((self.view.name,))

    def answers(self, columns: tuple[tuple[str, int], ...]) -> bool:
        """Whether an answer of the upstream with these columns is one of this plan: ``*`` may have become more."""
        return len(columns) == len(self.view.output) and self.columns in (None, columns)


@dataclass(slots=True)
class InstalledView:
    """A definition's plan in the engine, under an id of its own."""

    id: ViewId
    plan: ViewPlan
    definition: Definition
    status: Status = Status.BUILDING
    reason: str | None = None
    #: Not in the engine any more: all that is left is a name that says why it does not answer.
    tombstone: bool = False

    @property
    def is_buried(self) -> bool:
        """Broken, or to be planned anew: nothing answers here."""
        return self.tombstone and self.status is not Status.ELSEWHERE

    @property
    def view(self) -> View | RefreshView:
        """How it is kept."""
        return self.plan.view

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose changes it needs."""
        return frozenset() if self.tombstone else self.plan.tables


@dataclass(slots=True)
class MissCounts:
    """What became of a view's reads that missed, since its name is there."""

    #: Answered after filling, and how long that took.
    upqueries: Latency = field(default_factory=Latency)
    #: Answered by the upstream.
    forwarded: int = 0
    failed: int = 0
    #: Keys of a refreshed view that were run upstream, the rows of their answers, and the seconds that took.
    refreshes: int = 0
    refresh_rows: int = 0
    refresh_s: float = 0.0


@dataclass(slots=True)
class RegisteredView:
    """A name that readers know."""

    definition: Definition
    #: What answers reads; None while the definition cannot be planned (`reason` says why).
    installed: InstalledView | None = None
    #: A replacement that is being built beside `installed`.
    replacement: InstalledView | None = None
    reason: str | None = None
    missed: MissCounts = field(default_factory=MissCounts)

    @property
    def status(self) -> Status:
        """The status of what answers reads."""
        return Status.BROKEN if self.installed is None else self.installed.status

    @property
    def status_reason(self) -> str | None:
        """Why the view is not ready."""
        return self.reason if self.installed is None else self.installed.reason


@dataclass(slots=True)
class ViewRegistry:
    """All registered views by name, and the file that the HTTP ones are kept in."""

    directory: Path
    views: dict[str, RegisteredView] = field(default_factory=dict)
    #: What is in the engine, by id, replacements included.
    installations: dict[ViewId, InstalledView] = field(default_factory=dict)
    #: When each view was last put over HTTP, or dropped: Unix time in milliseconds, by whoever changed it.
    #: Where several services have the same views, the latest change is the one that counts.
    changed_ms: dict[str, int] = field(default_factory=dict)
    #: Whether the file is written here; another process does otherwise.
    keeps: bool = True

    @property
    def path(self) -> Path:
        """The file of the views put over HTTP."""
        return self.directory / "views.json"

    def load(self, configured: Iterable[Definition]) -> None:
        """The configuration's views and the stored ones. Raises `StateError`."""
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
        """The SQL of all views."""
        return [registered.definition.sql for registered in self.views.values()]

    def known_ms(self, name: str) -> int:
        """When the view was changed last; 0 of one that was put before that was noted, -1 of one never heard of."""
        return self.changed_ms.get(name, 0 if name in self.views else -1)

    def note_change(self, name: str, at_ms: int) -> None:
        """A view was put or dropped, then: later than before, whatever clocks say."""
        at_ms = max(at_ms, self.known_ms(name) + 1)
        self.changed_ms[name] = at_ms
        for _, each in self._dropped()[:-_MOST_DROPPED]:
            del self.changed_ms[each]

    def is_forgotten(self, name: str, at_ms: int) -> bool:
        """Whether a view that is not there was dropped so long ago that it would not be remembered. (Others may
        remember it, and say so again and again.)"""
        dropped = self._dropped()
        return name not in self.views and len(dropped) >= _MOST_DROPPED and (at_ms, name) < dropped[-_MOST_DROPPED]

    def _dropped(self) -> list[tuple[int, str]]:
        """When which views were dropped that are not there any more, the one of longest ago first: in the same order
        wherever it is remembered, so that all forget the same."""
        return sorted((at_ms, name) for name, at_ms in self.changed_ms.items() if name not in self.views)

    def save(self) -> None:
        """Writes the HTTP views, so that a crash leaves the old file or the new one. Raises `StateError`."""
        if not self.keeps:
            return
        stored = [
            {"name": v.definition.name, "sql": v.definition.sql, **_stored_options(v.definition.options)}
            for v in self.views.values()
            if v.definition.origin is Origin.HTTP
        ]
        # Beside the views, so that a service of an earlier version can read them.
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
            raise StateError(f"The views cannot be kept in {self.path}: {error}.") from None

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
        """A new engine has none of them."""
        self.installations.clear()
        for registered in self.views.values():
            registered.installed = None
            registered.replacement = None


def _stored_options(options: ViewOptions) -> dict[str, object]:
    # All are plain values: `asdict` would copy them, of all views at every change of one.
    return {name: value for name in _OPTIONS if (value := getattr(options, name)) is not None}
