"""The views that a worker knows, as its routes ask for them: those of one leaf store (`reads`) or of several shards."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from dataflow.types import Position
from service.web.principal import Principal

if TYPE_CHECKING:
    from service.worker.reads.reads import ReadLimits, ViewRoute


class KnownViews(Protocol):
    """What parses requests needs to know."""

    @property
    def limits(self) -> "ReadLimits":
        """Bounds of requests."""
        ...

    @property
    def routes(self) -> "Mapping[str, ViewRoute]":
        """The listed views by name."""
        ...

    @property
    def catalog(self) -> object:
        """Another object whenever the views have changed."""
        ...

    def refresh(self) -> None:
        """Follow the catalog."""
        ...

    def route(self, name: str, principal: Principal | None) -> "ViewRoute":
        """A view that can be read. ApiError."""
        ...

    def listed(self, name: str, principal: Principal | None) -> "ViewRoute":
        """As `route`, in the catalog that was seen last. ApiError."""
        ...

    async def checkpoint(self) -> Position:
        """The upstream's position now. ApiError."""
        ...
