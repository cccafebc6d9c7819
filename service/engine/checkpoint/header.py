"""Header of a checkpoint: what must be as it was for its state to be used."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Self

from cdc.change import TableLayout
from dataflow.canonical import Digests
from dataflow.schema import Table
from dataflow.types import Position, ViewId


@dataclass(frozen=True, slots=True)
class CheckpointHeader:
    """The first frame: JSON, readable by all versions."""

    #: `program_digest` of the writer.
    program: str
    #: Where the change stream continues (`cdc.stream.StreamPlace`).
    place: str
    position: Position
    #: Wall clock time at which the position was the database's current state.
    at_ms: int
    #: Digests of the followed tables' definitions and layouts; none of tables that have no digest.
    tables: dict[str, str]
    #: By the id of a view, how its rows are stored beside what its plan says.
    encodings: dict[str, str]
    #: Rule by which keys are divided among several engines (`service.sharding.homes`); empty for one.
    homes: str = ""

    def body(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Returns the header of a first frame. Raises ValueError for any other text."""
        try:
            return cls(**json.loads(body))
        except TypeError as problem:
            raise ValueError(str(problem)) from None

    def changed(self, now: Mapping[str, str], tables: Iterable[str]) -> frozenset[str]:
        """Returns those of `tables` that are not as they were, or were not followed."""
        return frozenset(name for name in tables if name not in now or self.tables.get(name) != now[name])

    def stores_as(self, former: int, encoding: str) -> bool:
        """Returns whether the rows of the view that had the id `former` were stored in this way."""
        return self.encodings.get(str(former)) == encoding


def table_digests(tables: Mapping[str, Table], layouts: Mapping[str, TableLayout]) -> dict[str, str]:
    """Returns digests of the followed tables: equal ones have rows of the same form and meaning, and the stream has all
    changes in between."""
    digests = Digests()
    found = {}
    for name, layout in layouts.items():
        table = tables.get(name)
        if table is not None:
            try:
                of = (layout, layout.marks, table.columns, table.keys, table.identity, table.cascades)
                found[name] = digests.of(of).hex()
            except TypeError:
                continue
    return found


def encoding_keys(encodings: Mapping[ViewId, str]) -> dict[str, str]:
    """Returns the encodings as a header has them."""
    return {str(view): encoding for view, encoding in encodings.items()}
