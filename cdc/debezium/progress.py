"""Progress of an assembler behind a delivered transaction: all that another one needs in order to continue there.

Events of undelivered transactions are not part of it: they are read again.

Not here: offsets of the topics (`read_offsets`), all of a place (`place`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple


class Delivered(NamedTuple):
    """Positions behind a delivered transaction. `continuable`: another assembler can continue there."""

    position: int
    #: Position of the last transaction itself.
    own_position: int
    #: Highest position of an END that was delivered or dropped.
    last_end: int
    #: Number of keys that had ever been added to the history.
    added: int
    continuable: bool


@dataclass(frozen=True, slots=True)
class AssemblyProgress:
    """Delivered transactions, as JSON can have them. The first fields are those of `history`."""

    horizon: int
    floor: int
    near: int
    delivered: int
    newest_ms: int
    #: Keys of finished transactions, oldest first.
    done: list[Any]
    #: Up to which everything has been delivered.
    position: int
    #: Highest position of an END that was delivered or dropped.
    last_end: int
    #: By collection, the offset of the transaction topic from which on all its events are read.
    since: dict[str, int]
