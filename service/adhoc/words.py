"""What the engine process says of a query that a view answers.

Not here: how it is found out (`matching`), what a worker does about it (`queries`).
"""

from dataclasses import asdict, dataclass
from typing import Any

from dataflow.types import ViewId


@dataclass(frozen=True, slots=True)
class Match:
    """A query is a read of `view`. `constants` are values of its parameters; `given` has the query's parameters whose
    values the others take, by the view's names."""

    view: str
    id: ViewId
    constants: dict[str, str | list[str]]
    given: dict[str, str]

    def to_wire(self) -> dict[str, Any]:
        """Its JSON form."""
        return asdict(self)

    @staticmethod
    def of(fields: dict[str, Any]) -> "Match":
        """From its JSON form."""
        return Match(fields["view"], ViewId(fields["id"]), fields["constants"], fields["given"])
