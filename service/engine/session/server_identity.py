"""Of which server's log positions are. After a fail-over the same numbers may be places in another log.

*Invariants*: what a log that is gone had come to is remembered for as long as this process lives.

Not here: who notices that another server answers (`service.engine.upstream.server_check`).
"""

import structlog

from dataflow.types import Position
from service.ground.errors import ApiError
from service.ground.version import version_text

log = structlog.get_logger()


class Lineage:
    """*State*: `server`, the last one followed, and the furthest position of logs that are gone."""

    def __init__(self) -> None:
        self.server = ""
        self._gone: Position = 0

    def began(self, server: str, end: Position, applied: Position) -> None:
        """A stream of `server` begins, whose log ends at `end` now; before it, `applied` had been reached."""
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

    def may_be_gone(self, position: Position) -> bool:
        """Whether a position may be one of a log that is gone."""
        return position <= self._gone

    def refuse(self, position: Position, end: Position) -> None:
        """ApiError ``bad_request`` if a position that may be gone is one that the log, which ends at `end`, lacks."""
        if position > end:
            raise ApiError(
                "bad_request",
                f"{version_text(position)} is a version of a replaced database server; the current one "
                f"is at {version_text(end)}.",
                "Read without it, and go on with the version of that answer.",
            )
