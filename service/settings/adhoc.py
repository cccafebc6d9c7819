"""The table ``[adhoc]``: ad-hoc queries (docs/adhoc.md)."""

from pydantic import ByteSize, Field

from service.settings.sections import Section


class AdhocSettings(Section):
    """``POST /v1/query``. Off by default; with ``[auth]`` a token also needs the right ``query``."""

    enabled: bool = False
    #: Maximum concurrent queries upstream, of all clients.
    concurrent_queries: int = Field(default=2, ge=1, le=100)
    #: Maximum rows of an answer of the database; larger ones get 413.
    limit_rows: int = Field(default=10_000, ge=1)
    #: Maximum size of an answer of the database, likewise.
    limit_bytes: ByteSize = ByteSize(16 << 20)
    #: Runs upstream after which a query becomes a view; 0: never.
    install_after: int = Field(default=10, ge=0)
    #: Maximum number of such views.
    max_views: int = Field(default=100, ge=0, le=10_000)
    #: Seconds without reads after which such a view is dropped.
    unused_s: float = Field(default=3600.0, gt=0)
