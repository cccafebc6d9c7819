"""The table ``[adhoc]``: queries that name no view (docs/adhoc.md)."""

from pydantic import ByteSize, Field

from service.settings.sections import Section


class AdhocSettings(Section):
    """``POST /v1/query``. Off unless it is switched on; with ``[auth]`` a token needs the right ``query``, too."""

    enabled: bool = False
    #: Queries that run upstream at once, of all clients.
    concurrent_queries: int = Field(default=2, ge=1, le=100)
    #: A larger answer of the database is refused.
    limit_rows: int = Field(default=10_000, ge=1)
    limit_bytes: ByteSize = ByteSize(16 << 20)
    #: A query that was run upstream so many times becomes a view; 0: none does.
    install_after: int = Field(default=10, ge=0)
    #: So many at most.
    max_views: int = Field(default=100, ge=0, le=10_000)
    #: One that is not read for so long is dropped.
    unused_s: float = Field(default=3600.0, gt=0)
