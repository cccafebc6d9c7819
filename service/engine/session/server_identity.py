"""Server identity of log positions: after a fail-over, the same numbers may denote other places in another log.

*Invariants*: the last position of each lost log is remembered for as long as this process lives.

Not here: detection of a fail-over (`service.engine.upstream.server_check`).
"""

import structlog

from dataflow.types import Position
from service.ground.errors import ApiError
from service.ground.version import version_text

log = structlog.get_logger()


class Lineage:
    """Identity of the current log.

    *State*: `server`, the server followed last, and the highest position of any lost log.
    """

    def __init__(self) -> None:
        self.server = ""
        self._gone: Position = 0

    def began(self, server: str, end: Position, applied: Position) -> None:
        """Records the start of a stream of `server` whose log currently ends at `end`; `applied` is the position
        reached before it."""
        before, self.server = self.server, server or self.server
        if before and self.server != before:
            log.error(
                "ANOTHER DATABASE SERVER answers: continuity is lost, everything is evicted, and versions of the old "
                "one mean nothing",
                before=before,
                now=self.server,
                was_at=version_text(applied),
                is_at=version_text(end),
            )
        elif end < applied:
            log.error(
                "THE DATABASE'S LOG IS ANOTHER ONE, which ends before what was applied: continuity is lost, and "
                "everything is evicted",
                was_at=version_text(applied),
                is_at=version_text(end),
            )
        else:
            return
        self._gone = max(self._gone, applied)

    def continues(self, server: str) -> None:
        """Records that the stream goes on in the same log on another server, a promoted standby."""
        self.server = server

    def may_be_gone(self, position: Position) -> bool:
        """True if a position may belong to a lost log."""
        return position <= self._gone

    def refuse(self, position: Position, end: Position) -> None:
        """Raises ApiError(bad_request) if a position that may belong to a lost log is beyond `end`, the end of the
        current log."""
        if position > end:
            raise ApiError(
                "bad_request",
                f"{version_text(position)} is a version of a replaced database server; the current one "
                f"is at {version_text(end)}.",
                "Read without it, and go on with the version of that answer.",
            )
