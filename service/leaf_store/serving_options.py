"""Options of a view's definition that workers need."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OnLag(StrEnum):
    """Handling of reads when answers are older than the view allows."""

    SERVE = "serve"
    WAIT = "wait"
    #: The upstream answers.
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class Serving:
    """Part of a view's entry in the catalog."""

    #: The Cache-Control header of its answers; None: the service's default.
    cache_control: str | None = None
    #: A miss is answered by the upstream, also while the view is being built.
    forwards: bool = False
    #: 64-bit integers are rendered as strings.
    bigint_text: bool = False
    #: Maximum age of answers, and the handling of older ones.
    max_lag_ms: int | None = None
    on_lag: OnLag = OnLag.SERVE
    #: Time for which an outdated answer may be returned while it is recomputed; 0: never.
    stale_ms: int = 0
    #: Answers too large for the store are streamed as the upstream returns them.
    streams: bool = False
    #: The view has no name of its own and is left out of the OpenAPI document.
    hidden: bool = False

    @staticmethod
    def of(fields: dict[str, Any]) -> "Serving":
        return Serving(**{**fields, "on_lag": OnLag(fields["on_lag"])})


#: The defaults.
SERVING = Serving()
