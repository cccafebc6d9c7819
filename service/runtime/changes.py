"""What users do to views: PUT, DELETE, and asking what a PUT would do.

Invariants: nothing is kept on disk that was not accepted; a name in the configuration file is not changed over HTTP.
"""

import asyncio
from dataclasses import dataclass

import structlog
from psycopg import AsyncConnection

from dataflow.plan.lookup import tables_read
from dataflow.plan.nodes import View
from dataflow.schema import Catalog
from service.errors import ApiError
from service.runtime.following import TableRefusedError
from service.runtime.installer import Installer
from service.runtime.planning import planned
from service.runtime.reads import no_stream, upstream_problem
from service.runtime.repair import Repair
from service.upstream.catalog import load_catalog
from service.upstream.connect import UpstreamError, UpstreamPool
from service.views import Definition, Origin, RegisteredView, StateError, Status

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of a PUT."""

    name: str
    created: bool
    building: bool


@dataclass(slots=True)
class Changes:
    """Changes of the registered views, one at a time."""

    installer: Installer
    repair: Repair
    pool: UpstreamPool
    lock: asyncio.Lock

    async def put(self, name: str, sql: str, *, create_only: bool) -> PutResult:
        """Registers a view, or replaces its SQL. Raises `ApiError`."""
        async with self.lock:
            registered = self.installer.registry.views.get(name)
            if registered is not None:
                if create_only:
                    raise ApiError("view_exists", f"There is a view {name!r} already.")
                _refuse_configured(registered)
                if registered.definition.sql == sql and registered.status is not Status.BROKEN:
                    return PutResult(name, created=False, building=_building(registered))
            self._require_stream()
            await self._install(Definition(name, sql, Origin.HTTP))
            self._save()
            return PutResult(name, created=registered is None, building=_building(self.installer.registry.views[name]))

    async def drop(self, name: str) -> None:
        """Forgets a view. Raises `ApiError`."""
        async with self.lock:
            registered = self.installer.registry.views.get(name)
            if registered is None:
                raise ApiError("view_not_found", f"There is no view {name!r}.")
            _refuse_configured(registered)
            del self.installer.registry.views[name]
            self.installer.uninstall(registered.replacement)
            self.installer.uninstall(registered.installed)
            self.installer.unfollow_unread()
            self._save()

    async def plan(self, name: str, sql: str) -> tuple[View, Catalog]:
        """The plan that a PUT would install, and the catalog it was made with. Raises `ApiError`."""
        try:
            async with self.pool.connection() as connection:
                fresh = await load_catalog(connection)
        except UpstreamError as error:
            raise upstream_problem(error) from None
        return planned(name, sql, fresh), fresh

    def _require_stream(self) -> None:
        if not self.installer.dispatcher.running:
            raise no_stream()

    async def _install(self, definition: Definition) -> None:
        try:
            async with self.pool.connection() as connection:
                view = await self._prepared(connection, definition)
        except UpstreamError as error:
            raise upstream_problem(error) from None
        except TableRefusedError as refused:
            raise ApiError("view_unsupported", refused.reason, refused.hint) from None
        self._require_stream()
        self.installer.install(definition, view)
        if self.installer.dispatcher.failure is not None:
            raise ApiError(
                "internal_error", f"View {definition.name!r} cannot be installed; the engine's log says more."
            )

    async def _prepared(self, connection: AsyncConnection, definition: Definition) -> View:
        """The plan, all of whose tables are followed."""
        fresh = await load_catalog(connection)
        view = planned(definition.name, definition.sql, fresh)
        outdated = self.repair.outdated(view, fresh)
        if outdated:
            # The stream decodes these as they were: what reads them is made anew together with this view.
            self.repair.break_views(outdated, "The table has other columns now; the view is being planned anew.")
            await self.repair.mend(connection, fresh)
        view = planned(definition.name, definition.sql, self.installer.following.planning_catalog(fresh))
        await self.installer.join(connection, tables_read(view), fresh)
        return view

    def _save(self) -> None:
        try:
            self.installer.registry.save()
        except StateError as error:
            log.error("views cannot be kept", reason=str(error))
            raise ApiError(
                "internal_error", "The change is in effect, but cannot be kept over a restart; the log says why."
            ) from None


def _refuse_configured(registered: RegisteredView) -> None:
    if registered.definition.origin is Origin.CONFIG:
        raise ApiError(
            "view_exists",
            f"View {registered.definition.name!r} is defined in the configuration file.",
            "Change it there and restart, or use another name.",
        )


def _building(registered: RegisteredView) -> bool:
    return registered.replacement is not None or registered.status is Status.BUILDING
