"""Changes of views by users: PUT, DELETE and the dry run of a PUT.

Invariants: only accepted views are stored on disk; a name from the configuration file cannot be changed over HTTP.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from dataflow.schema import Catalog
from service.engine.upstream.problems import no_stream, upstream_problem
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream, UpstreamSession
from service.engine.views.installer import Installer
from service.engine.views.registry import Definition, Origin, RegisteredView, StateError, Status, ViewOptions, ViewPlan
from service.engine.views.repair import Repair
from service.engine.views.tables import TableAlteredError, TableRefusedError
from service.ground.clock import wall_ms
from service.ground.errors import ApiError
from service.protocol.admin_operations import PutResult

log = structlog.get_logger()

#: Maximum attempts to plan a view whose tables are altered meanwhile.
_LOOKS = 3
#: Maximum wait of a change for a stream that is starting.
_PATIENCE_S = 10.0


@dataclass(slots=True)
class Changes:
    """Changes of the registered views, one at a time."""

    installer: Installer
    repair: Repair
    upstream: Upstream
    lock: asyncio.Lock

    async def put(
        self, name: str, sql: str, options: ViewOptions, *, create_only: bool, at_ms: int | None = None
    ) -> PutResult:
        """Registers or replaces a view. `at_ms`: common time of a change that is sent to several services. Raises
        `ApiError`."""
        async with self._alone():
            if create_only and name in self.installer.registry.views:
                raise ApiError("view_exists", f"View {name!r} exists already.")
            return await self._put(Definition(name, sql, Origin.HTTP, options), at_ms)

    async def install(self, definition: Definition) -> None:
        """Registers a view that no user put. Raises `ApiError`."""
        async with self._alone():
            if definition.name in self.installer.registry.views:
                raise ApiError("view_exists", f"View {definition.name!r} exists already.")
            self._require_stream()
            await self._install(definition)

    async def drop(self, name: str, at_ms: int | None = None) -> None:
        """Drops a view. Raises `ApiError`."""
        async with self._alone():
            registered = self.installer.registry.views.get(name)
            if registered is None:
                raise ApiError("view_not_found", f"View {name!r} does not exist.")
            self._drop(registered)
            # Only views that were put over HTTP are replicated to other services.
            if registered.definition.origin is Origin.HTTP:
                self._save(name, at_ms)

    async def settle(self, name: str, sql: str | None, options: ViewOptions, at_ms: int) -> bool:
        """Applies a change received from another service (`sql` None: a drop), unless a later change is known here.
        Returns whether it was applied. Raises `ApiError`."""
        async with self._alone():
            registry = self.installer.registry
            if registry.known_ms(name) >= at_ms or (sql is None and registry.is_forgotten(name, at_ms)):
                return False
            if sql is not None:
                await self._put(Definition(name, sql, Origin.HTTP, options), at_ms)
                return True
            registered = registry.views.get(name)
            if registered is not None and registered.definition.origin is Origin.HTTP:
                self._drop(registered)
            self._save(name, at_ms)
            return True

    async def _put(self, definition: Definition, at_ms: int | None) -> PutResult:
        name = definition.name
        registered = self.installer.registry.views.get(name)
        if registered is not None:
            _refuse_configured(registered)
            is_broken = registered.status in (Status.BROKEN, Status.OUTDATED) and registered.replacement is None
            if registered.definition == definition and not is_broken:
                if at_ms is not None:
                    self._save(name, at_ms)
                return PutResult(created=False, building=_building(registered))
        self._require_stream()
        await self._install(definition)
        self._save(name, at_ms)
        return PutResult(created=registered is None, building=_building(self.installer.registry.views[name]))

    def _drop(self, registered: RegisteredView) -> None:
        _refuse_configured(registered)
        self._refuse_read(registered.definition.name)
        del self.installer.registry.views[registered.definition.name]
        self.installer.uninstall(registered.replacement)
        self.installer.uninstall(registered.installed)
        self.installer.unfollow_unread()

    async def plan(self, name: str, sql: str, options: ViewOptions) -> tuple[ViewPlan, Catalog]:
        """Returns the plan that a PUT would install, and the catalog it was made with. Raises `ApiError`."""
        definition = Definition(name, sql, Origin.HTTP, options)
        try:
            async with self.upstream.session() as session:
                fresh = await session.load_catalog(self._texts(definition))
                planning = self.installer.planning(fresh, definition, anew=fresh.tables)
                return await planning.plan(session, definition), fresh
        except UpstreamError as error:
            raise upstream_problem(error) from None
        except TableRefusedError as refused:
            raise ApiError("view_unsupported", refused.reason, refused.hint) from None

    def _refuse_read(self, name: str) -> None:
        """Raises ApiError(view_in_use) if other views read this one."""
        readers = sorted(reader.name for reader in self._readers(name))
        if readers:
            raise ApiError("view_in_use", f"View {name!r} is read by {', '.join(map(repr, readers))}.")

    def _readers(self, name: str) -> list[Definition]:
        """Returns the registered views that read a view."""
        return [
            registered.definition
            for registered in self.installer.registry.views.values()
            if any(i is not None and name in i.plan.reads_views for i in (registered.installed, registered.replacement))
        ]

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Serializes changes. Raises `ApiError` if the stream takes long to begin, so that an abandoned change is not
        applied later."""
        try:
            async with asyncio.timeout(None if self.installer.dispatcher.running else _PATIENCE_S):
                await self.lock.acquire()
        except TimeoutError:
            raise no_stream() from None
        try:
            yield
        finally:
            self.lock.release()

    def _require_stream(self) -> None:
        if not self.installer.dispatcher.running:
            raise no_stream()

    async def _install(self, definition: Definition) -> None:
        try:
            plans = await self._planned(definition)
        except UpstreamError as error:
            raise upstream_problem(error) from None
        except TableRefusedError as refused:
            again = isinstance(refused, TableAlteredError)
            raise ApiError("view_unsupported", refused.reason, refused.hint, retryable=again) from None
        self._require_stream()
        before = self.installer.registry.views.get(definition.name)
        was = None if before is None else before.definition
        for planned, plan in plans:
            self.installer.install(planned, plan)
        if self.installer.dispatcher.failure is not None:
            # The next engine gets the previous definition, and the change is not replicated.
            self._restore(definition.name, was)
            raise ApiError(
                "internal_error", f"View {definition.name!r} cannot be installed; the engine's log has the reason."
            )

    async def _planned(self, definition: Definition) -> list[tuple[Definition, ViewPlan]]:
        """Returns the plans of a view and of its readers, valid until the loop's next turn."""
        for _ in range(_LOOKS - 1):
            with suppress(TableAlteredError):
                return await self._planned_once(definition)
        return await self._planned_once(definition)

    async def _planned_once(self, definition: Definition) -> list[tuple[Definition, ViewPlan]]:
        """Plans once. Raises `TableAlteredError` if a table was altered meanwhile; the next attempt sees the new
        table."""
        async with self.upstream.session() as session:
            await self.repair.meet(session)
            since = self.repair.state
            plan, fresh = await self._prepared(session, definition)
            plans = [(definition, plan)]
            for reader in self._readers(definition.name):
                plan, fresh = await self._prepared_reader(session, reader, definition)
                plans.append((reader, plan))
            await self.installer.admit(session, [plan for _, plan in plans], fresh)
        for _, plan in plans:
            self.repair.require_unchanged(plan, since)
        return plans

    def _restore(self, name: str, was: Definition | None) -> None:
        registered = self.installer.registry.views[name]
        if was is not None:
            registered.definition = was
            return
        del self.installer.registry.views[name]
        self.installer.uninstall(registered.installed)

    async def _prepared_reader(
        self, session: UpstreamSession, reader: Definition, put: Definition
    ) -> tuple[ViewPlan, Catalog]:
        """Plans a view that reads the one that is put; otherwise like `_prepared`."""
        fresh = await session.load_catalog(self._texts(put))
        try:
            plan = await self.installer.planning(fresh, reader, put=put).plan(session, reader)
        except ApiError as error:
            raise ApiError("view_in_use", f"View {reader.name!r} reads it: {error.detail}", error.hint) from None
        return await self.installer.join(session, plan, fresh), fresh

    async def _prepared(self, session: UpstreamSession, definition: Definition) -> tuple[ViewPlan, Catalog]:
        """Returns the plan, after its tables are followed, and the catalog it was made with."""
        since = self.repair.state
        fresh = await session.load_catalog(self._texts(definition))
        outdated = self.repair.outdated(fresh)
        plan = await self.installer.planning(fresh, definition, anew=outdated).plan(session, definition)
        if await self.repair.renew(session, plan, outdated, fresh):
            await self.repair.mend(session, fresh, since)
        return await self.installer.join(session, plan, fresh), fresh

    def _texts(self, definition: Definition) -> list[str]:
        return [*self.installer.registry.texts(), definition.sql]

    def _save(self, name: str, at_ms: int | None) -> None:
        """Stores the views after a change."""
        self.installer.registry.note_change(name, wall_ms() if at_ms is None else at_ms)
        try:
            self.installer.registry.save()
        except StateError as error:
            log.error("the views cannot be stored", reason=str(error))
            raise ApiError(
                "internal_error",
                "The change is in effect, but cannot be kept over a restart; the log has the reason.",
            ) from None


def _refuse_configured(registered: RegisteredView) -> None:
    if registered.definition.origin is Origin.CONFIG:
        raise ApiError(
            "view_exists",
            f"View {registered.definition.name!r} is defined in the configuration file.",
            "Change it there and restart, or use another name.",
        )


def _building(registered: RegisteredView) -> bool:
    return registered.replacement is not None or registered.status in (Status.BUILDING, Status.OUTDATED)
