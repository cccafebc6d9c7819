"""A side of a comparison: a server of a site's reads, and the application that takes its writes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from load.site import SiteDefinition


class SideError(RuntimeError):
    """A side does not start, or does not answer as it must; the text says what to look at."""


@dataclass(frozen=True, slots=True)
class UpstreamDatabase:
    """The database that a site's data is in: its URL and how to find its processes."""

    url: str
    pids: Callable[[], list[int]]


@dataclass(frozen=True, slots=True)
class Side:
    name: str
    #: ``http://127.0.0.1:port`` of reads and of writes. Nobody answers writes that the site does not have.
    reads_url: str
    writes_url: str
    #: All processes that serve it (the database's included) of this moment: pinned, and their CPU time counted.
    pids: Callable[[], list[int]]
    #: What it takes to serve the reads: resident bytes of all processes but the database's (memory that several share
    #: is counted once), and what the cache says of its own state (0: there is none).
    resident_bytes: Callable[[], int]
    state_bytes: Callable[[], int]
    #: Forgets everything that is cached, so that a run begins cold; does nothing where nothing is.
    flush: Callable[[], None] = lambda: None
    #: The admin port of an Upquery side.
    admin_url: str | None = None


class StartSide(Protocol):
    """Starts a side; it is stopped at the end."""

    def __call__(self, upstream: UpstreamDatabase, site: SiteDefinition) -> AbstractContextManager[Side]: ...
