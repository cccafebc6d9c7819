"""How a view's answers are served, as far as workers need to know: the options of its definition."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Serving:
    """Part of a view's entry in the catalog."""

    #: The Cache-Control header of its answers; None: the service's own.
    cache_control: str | None = None
    #: A read that misses is answered by the upstream, also while the view is being built.
    forwards: bool = False
    #: Integers of 64 bits are strings.
    bigint_text: bool = False


#: Nothing was asked for.
SERVING = Serving()
