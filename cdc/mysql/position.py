"""Positions of MariaDB and MySQL: a place in the binary log as one number, and snapshots that are prefixes of it.

A binary log is a sequence of numbered files (``binlog.000012``); a place in it is the file's number and an offset. The
two are one integer in the log's order, `OFFSET_BITS` of which are the offset (MariaDB manual, "Binary Log Formats").
Its bit `KIND` is set, which no LSN of PostgreSQL reaches: a position says itself which kind it is.

*Invariants*: positions compare as the places do. A snapshot is a prefix of the log, of which is known that it ends
between two places.

Not here: who takes a snapshot (`service.upstream.mysql`).
"""

from dataclasses import dataclass
from typing import Self

OFFSET_BITS = 40
KIND = 1 << 62
_OFFSET = (1 << OFFSET_BITS) - 1
#: Files are numbered with at most this (MariaDB: six digits, and on beyond them).
_LAST_FILE = (1 << (62 - OFFSET_BITS)) - 1


def position_of(file: str, offset: int) -> int:
    """The position of an offset in a file of the binary log. ValueError if the file's name has no number."""
    number = file.rpartition(".")[2]
    if not number.isdecimal() or int(number) > _LAST_FILE:
        raise ValueError(f"{file!r} is no file of a binary log: its name does not end with a number.")
    return KIND | (int(number) << OFFSET_BITS) | offset


def format_position(position: int) -> str:
    """``12:345``: file 12, offset 345."""
    return f"{(position ^ KIND) >> OFFSET_BITS}:{position & _OFFSET}"


def parse_position(text: str) -> int:
    """``12:345``, or with the file's name ``binlog.000012:345``. ValueError says what a position looks like."""
    file, colon, offset = text.rpartition(":")
    try:
        if not colon or not offset.isdecimal() or int(offset) > _OFFSET:
            raise ValueError
        return position_of(file, int(offset))
    except ValueError:
        raise ValueError(f"{text!r} is not a position such as binlog.000012:345.") from None


@dataclass(frozen=True, slots=True)
class BinlogSnapshot:
    """What a consistent snapshot saw: all that ends at or before `seen`, nothing that ends behind `position`.

    Usually they are the same place (`seen` need not be said then). What lies between the two is unsure.
    """

    position: int
    seen: int = -1

    def __post_init__(self) -> None:
        if self.seen < 0:
            object.__setattr__(self, "seen", self.position)

    @property
    def exact(self) -> bool:
        """Whether nothing is unsure."""
        return self.seen == self.position

    def sees(self, transaction: int, end: int) -> bool:  # noqa: ARG002  (a transaction is its position)
        """Whether that committed transaction was visible for sure."""
        return end <= self.seen

    def unsure(self, transaction: int, end: int) -> bool:  # noqa: ARG002
        """Whether it may have been visible or not."""
        return self.seen < end <= self.position

    def covers(self, other: "BinlogSnapshot") -> bool:
        """Whether everything that `other` may see is seen here for sure."""
        return other.position <= self.seen

    def finished(self, other: "BinlogSnapshot") -> bool:
        """Whether all that the stream may lack of a table that joined at `other` is seen: the log has every table."""
        return other.position <= self.seen

    def closed(self) -> Self:
        """Return this snapshot: it names a place in the log, before which every transaction has ended."""
        return self
