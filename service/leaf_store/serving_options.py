"""How a view's answers are served, as far as workers need to know: the options of its definition."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OnLag(StrEnum):
    """What a read does when answers are older than the view allows."""

    SERVE = "serve"
    WAIT = "wait"
    #: The upstream answers.
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class Serving:
    """Part of a view's entry in the catalog."""

    #: The Cache-Control header of its answers; None: the service's own.
    cache_control: str | None = None
    #: A read that misses is answered by the upstream, also while the view is being built.
    forwards: bool = False
    #: Integers of 64 bits are strings.
    bigint_text: bool = False
    #: How far behind the upstream answers may be, and what is done when they are further.
    max_lag_ms: int | None = None
    on_lag: OnLag = OnLag.SERVE
    #: For how long an answer may be given that was good, while it is computed again; 0: not at all.
    stale_ms: int = 0
    #: Answers too large to be held are sent as the upstream's rows come.
    streams: bool = False
    #: It is not in the document: nobody has named it.
    hidden: bool = False

    @staticmethod
    def of(fields: dict[str, Any]) -> "Serving":
        """From its record."""
        return Serving(**{**fields, "on_lag": OnLag(fields["on_lag"])})


#: Nothing was asked for.
SERVING = Serving()
