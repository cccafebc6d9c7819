"""Interface of a worker's views for its routes: of one leaf store (`reads`) or of several shards."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from dataflow.types import Position
from service.settings.sections import HttpSettings
from service.web.principal import Principal

if TYPE_CHECKING:
    from service.worker.reads.reads import ViewRoute


class KnownViews(Protocol):
    """The views by which requests are parsed."""

    @property
    def limits(self) -> HttpSettings: ...

    @property
    def routes(self) -> "Mapping[str, ViewRoute]":
        """The listed views by name."""
        ...

    @property
    def catalog(self) -> object:
        """An object that is replaced whenever the views change."""
        ...

    def refresh(self) -> None:
        """Follow the catalog."""
        ...

    def route(self, name: str, principal: Principal | None) -> "ViewRoute":
        """Follow the catalog and return a readable view. Raises ApiError."""
        ...

    def listed(self, name: str, principal: Principal | None) -> "ViewRoute":
        """Return a readable view of the latest known catalog. Raises ApiError."""
        ...

    async def checkpoint(self) -> Position:
        """Return the upstream's current position. Raises ApiError."""
        ...
