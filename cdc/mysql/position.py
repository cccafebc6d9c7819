"""Positions of MariaDB and MySQL: file and offset of the binary log as one integer, and snapshots of MariaDB.

A binary log is a sequence of numbered files (``binlog.000012``); a position is a file's number and an offset, in the
lower `OFFSET_BITS` bits (MariaDB manual, "Binary Log Formats"). Bit `KIND` is set, which no LSN of PostgreSQL reaches,
so a position shows which kind it is.

*Invariants*: positions compare in the order of the log. A snapshot is a prefix of the log that ends between two known
positions.

Not here: taking snapshots (`service.engine.databases.mysql`).
"""

from dataclasses import dataclass
from typing import Self

OFFSET_BITS = 40
KIND = 1 << 62
_OFFSET = (1 << OFFSET_BITS) - 1
#: Largest number of a file (MariaDB: six digits, more when these are used up).
_LAST_FILE = (1 << (62 - OFFSET_BITS)) - 1


def position_of(file: str, offset: int) -> int:
    """Return the position of an offset in a file of the binary log. Raises ValueError: the name has no number."""
    number = file.rpartition(".")[2]
    if not number.isdecimal() or int(number) > _LAST_FILE:
        raise ValueError(f"{file!r} is not a file of a binary log: its name does not end with a number.")
    return KIND | (int(number) << OFFSET_BITS) | offset


def format_position(position: int) -> str:
    """Format a position as ``12:345``: file 12, offset 345."""
    return f"{(position ^ KIND) >> OFFSET_BITS}:{position & _OFFSET}"


def parse_position(text: str) -> int:
    """Parse ``12:345``, or ``binlog.000012:345`` with the file's name. Raises ValueError with an example."""
    file, colon, offset = text.rpartition(":")
    try:
        if not colon or not offset.isdecimal() or int(offset) > _OFFSET:
            raise ValueError
        return position_of(file, int(offset))
    except ValueError:
        raise ValueError(f"{text!r} is not a position such as binlog.000012:345.") from None


@dataclass(frozen=True, slots=True)
class BinlogSnapshot:
    """A consistent snapshot: it saw all that ends at or before `seen`, and nothing that ends after `position`.

    The two are usually the same position (`seen` defaults to it). Transactions between the two are unsure.
    """

    position: int
    seen: int = -1

    def __post_init__(self) -> None:
        if self.seen < 0:
            object.__setattr__(self, "seen", self.position)

    @property
    def exact(self) -> bool:
        """True if no transaction is unsure."""
        return self.seen == self.position

    def sees(self, transaction: int, end: int) -> bool:  # noqa: ARG002  (a transaction is its position)
        """Return whether the committed transaction was certainly visible."""
        return end <= self.seen

    def unsure(self, transaction: int, end: int) -> bool:  # noqa: ARG002
        """Return whether the transaction may or may not have been visible."""
        return self.seen < end <= self.position

    def covers(self, other: "BinlogSnapshot") -> bool:
        """Return whether this certainly sees everything that `other` may see."""
        return other.position <= self.seen

    def finished(self, other: "BinlogSnapshot") -> bool:
        """Return whether this sees what the stream lacks of a table that joined at `other`: the log has all tables."""
        return other.position <= self.seen

    def closed(self) -> Self:
        """Return this snapshot: it names a place in the log, before which every transaction has ended."""
        return self
