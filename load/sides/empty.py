"""The upper limit: an ASGI application with one constant answer, on the same server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from load import processes
from load.peers.configuration import PeerConfiguration
from load.sides.application import running_application
from load.sides.side import Side, StartSide, UpstreamDatabase
from load.site import SiteDefinition

#: As many as a hit has.
_HEADERS = (
    ("content-type", "application/json"),
    ("etag", 'W/"0123456789abcdef0123456789abcdef"'),
    ("cache-status", "peer; hit"),
    ("upquery-version", "pg:0/16B3748"),
    ("upquery-age-ms", "0"),
    ("cache-control", "no-cache"),
    ("server-timing", "leaf;dur=0.010"),
)
_BODY = '{"rows":[{"id":7,"title":"a title of the usual length","author":"elena","votes":42}],"version":"pg:0/16B3748"}'


def empty(headers: Sequence[tuple[str, str]] = _HEADERS, body: str = _BODY) -> StartSide:
    """The headers (``content-length`` is added) and the body that everybody gets."""

    @contextmanager
    def start(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Side]:
        options = {"headers": tuple(headers), "body": body}
        with running_application(PeerConfiguration("empty", site, upstream.url, options)) as app:
            yield Side(
                name="an empty response",
                reads_url=app.url,
                writes_url=app.url,
                pids=lambda: [app.pid],
                resident_bytes=lambda: processes.resident_bytes([app.pid]),
                state_bytes=lambda: 0,
            )

    return start
