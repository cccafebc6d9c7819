"""Ad-hoc queries between processes: the view that answers one, and the names of views made of queries.

Not here: how it is found out (`service.engine.adhoc.match`), what a worker does about it (`queries`).
"""

import re
from dataclasses import dataclass

from dataflow.types import ViewId

PREFIX = "adhoc_"
HASH_DIGITS = 16
_NAME = re.compile(f"{PREFIX}[0-9a-f]{{{HASH_DIGITS}}}")


def is_of_query(view: str) -> bool:
    """Return whether a name is one that views of queries have."""
    return view.startswith(PREFIX) and _NAME.fullmatch(view) is not None


@dataclass(frozen=True, slots=True)
class Match:
    """A query is a read of `view`. `constants` are values of its parameters; `given` has the query's parameters whose
    values the others take, by the view's names."""

    view: str
    id: ViewId
    constants: dict[str, str | list[str]]
    given: dict[str, str]
