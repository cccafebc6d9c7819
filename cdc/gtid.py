"""Global transaction ids: sets of MySQL's transactions, positions in MariaDB's domains. Pure.

MySQL numbers the transactions of each *source* (a server's UUID, since 8.3 optionally with a tag) and lists the
executed ones as ``uuid:1-5:7:tag:1-3,uuid:…`` (MySQL manual, "GTID Format and Storage"). MariaDB numbers the
transactions of each *domain* and gives the last one as ``domain-server-number,…`` (MariaDB manual, "Global Transaction
ID").

An id is one integer: the source, or the domain and the server, and below them the number in `NUMBER_BITS` bits. The
integer is the same in every process. `CommittedTransaction.id` is such an integer for MySQL.

*Invariants*: sets and positions are immutable; two that have the same transactions are equal and print the same.

Not here: which transactions a lookup saw (`mysql.bracket`), positions in the log (`mysql.position`).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final, Self, TypeAlias
from uuid import UUID

NUMBER_BITS: Final = 64
_NUMBER = (1 << NUMBER_BITS) - 1
_UUID_BITS, _SERVER_BITS = 128, 32
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_OWNERS = re.compile(r"#\d+")


def source_of(uuid: bytes, tag: str = "") -> int:
    """Return the source of a server's UUID (16 bytes) and a tag of its transactions."""
    return int.from_bytes(tag.lower().encode()) << _UUID_BITS | int.from_bytes(uuid)


def transaction_id(source: int, number: int) -> int:
    """Return the id of a source's transaction (`source_of`) as one integer."""
    return source << NUMBER_BITS | number


def parse_gtid(text: str) -> int:
    """Parse ``uuid:7`` or ``uuid:tag:7`` into an id. Raises ValueError with an example."""
    uuid, *rest = text.strip().split(":")
    try:
        number = int(rest[-1])
        if len(rest) > 2 or number < 1:
            raise ValueError
        return transaction_id(_parse_source(uuid, rest[0] if len(rest) == 2 else ""), number)
    except (ValueError, IndexError):
        raise ValueError(f"{text!r} is not the id of a transaction such as {UUID(int=0)}:7.") from None


def format_gtid(transaction: int) -> str:
    """Format an id as ``uuid:7`` or ``uuid:tag:7``."""
    uuid, tag = _names_of(transaction >> NUMBER_BITS)
    return ":".join((uuid, *([tag] if tag else []), str(transaction & _NUMBER)))


def _parse_source(uuid: str, tag: str) -> int:
    if tag and not _TAG.fullmatch(tag.lower()):
        raise ValueError(f"{tag!r} is no tag")
    return source_of(UUID(uuid.strip()).bytes, tag)


def _names_of(source: int) -> tuple[str, str]:
    tag = source >> _UUID_BITS
    uuid = UUID(int=source & ((1 << _UUID_BITS) - 1))
    return str(uuid), tag.to_bytes((tag.bit_length() + 7) // 8).decode()


class GtidSet:
    """A set of MySQL's transactions, as in ``gtid_executed``."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: Mapping[int, tuple[int, ...]] | None = None) -> None:
        #: By source: starts and ends (exclusive) of disjoint intervals, ascending.
        self._bounds: dict[int, tuple[int, ...]] = dict(bounds or {})

    @classmethod
    def of(cls, transactions: Iterable[int]) -> Self:
        """Return the set of these transactions."""
        found: dict[int, list[tuple[int, int]]] = {}
        for transaction in transactions:
            number = transaction & _NUMBER
            found.setdefault(transaction >> NUMBER_BITS, []).append((number, number + 1))
        return cls({source: _merged(intervals) for source, intervals in found.items()})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a set as the server prints it, on any number of lines. Raises ValueError with an example."""
        found: dict[int, list[tuple[int, int]]] = {}
        try:
            for part in filter(None, (part.strip() for part in text.split(","))):
                uuid, *rest = part.split(":")
                source = _parse_source(uuid, "")
                for word in map(str.strip, rest):
                    match = _INTERVAL.fullmatch(word)
                    if match is None:
                        source = _parse_source(uuid, word)
                    else:
                        first, last = int(match[1]), int(match[2] or match[1])
                        if not 0 < first < 1 << 63 or last >= 1 << 63:
                            raise ValueError
                        found.setdefault(source, []).extend([(first, last + 1)] if first <= last else ())
        except ValueError:
            raise ValueError(f"{text!r} is not a set of transactions such as {UUID(int=0)}:1-5:7.") from None
        return cls({source: _merged(intervals) for source, intervals in found.items() if intervals})

    @classmethod
    def parse_owned(cls, text: str) -> Self:
        """Parse ``gtid_owned``: transactions that have an id and are not executed yet, each with its thread."""
        return cls.parse(_OWNERS.sub("", text))

    def __contains__(self, transaction: int) -> bool:
        bounds = self._bounds.get(transaction >> NUMBER_BITS)
        return bounds is not None and bisect_right(bounds, transaction & _NUMBER) % 2 == 1

    def __le__(self, other: "GtidSet") -> bool:
        """Return whether `other` has all of these."""
        return all(
            _within(first, end, other._bounds.get(source, ()))
            for source, bounds in self._bounds.items()
            for first, end in _pairs(bounds)
        )

    def __or__(self, other: "GtidSet") -> "GtidSet":
        sources = self._bounds.keys() | other._bounds.keys()
        pairs = {s: chain(_pairs(self._bounds.get(s, ())), _pairs(other._bounds.get(s, ()))) for s in sources}
        return GtidSet({source: _merged(intervals) for source, intervals in pairs.items()})

    def add(self, transaction: int) -> "GtidSet":
        """Return this set with one more transaction."""
        return self if transaction in self else self | GtidSet.of([transaction])

    def extended(self, transactions: Iterable[int]) -> "GtidSet":
        """Return this set with more transactions."""
        return self | GtidSet.of(transactions)

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return self._bounds == other._bounds if isinstance(other, GtidSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._bounds.items()))

    def __str__(self) -> str:
        by_uuid: dict[str, list[str]] = {}
        for (uuid, tag), source in sorted((_names_of(source), source) for source in self._bounds):
            words = by_uuid.setdefault(uuid, [uuid])
            words += [tag] if tag else []
            words += [f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in _pairs(self._bounds[source])]
        return ",".join(map(":".join, by_uuid.values()))

    def __repr__(self) -> str:
        return f"GtidSet({str(self)!r})"


def _pairs(bounds: tuple[int, ...]) -> Iterable[tuple[int, int]]:
    return zip(bounds[::2], bounds[1::2], strict=True)


def _within(first: int, end: int, bounds: tuple[int, ...]) -> bool:
    """Return whether one of the intervals contains the given one."""
    at = bisect_right(bounds, first)
    return at % 2 == 1 and end <= bounds[at]


def _merged(intervals: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Sort intervals, and join those that touch."""
    bounds: list[int] = []
    for first, end in sorted(intervals):
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += (first, end)
    return tuple(bounds)


# ── MariaDB ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def mariadb_id(domain: int, server: int, number: int) -> int:
    """Return the id of one of MariaDB's transactions as one integer."""
    return (domain << _SERVER_BITS | server) << NUMBER_BITS | number


class GtidPosition:
    """MariaDB's position: the last transaction of each domain, as in ``gtid_binlog_pos``.

    A transaction is included by its number, whichever server it comes from: numbers of a domain ascend in the log.
    """

    __slots__ = ("_last",)

    def __init__(self, last: Mapping[int, int] | None = None) -> None:
        #: By domain: the last transaction.
        self._last: dict[int, int] = dict(last or {})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a position as the server prints it. Raises ValueError with an example."""
        last: dict[int, int] = {}
        try:
            for part in filter(None, (part.strip() for part in text.split(","))):
                domain, server, number = map(int, part.split("-"))
                if domain in last or min(domain, server, number) < 0 or max(domain, server) >= 1 << _SERVER_BITS:
                    raise ValueError
                if number > _NUMBER:
                    raise ValueError
                last[domain] = mariadb_id(domain, server, number)
        except ValueError:
            raise ValueError(f"{text!r} is not a position such as 0-1-100,1-2-7.") from None
        return cls(last)

    def __contains__(self, transaction: int) -> bool:
        last = self._last.get(_domain_of(transaction))
        return last is not None and transaction & _NUMBER <= last & _NUMBER

    def __le__(self, other: "GtidPosition") -> bool:
        """Return whether `other` is at least as far in every domain."""
        return all(last in other for last in self._last.values())

    def __or__(self, other: "GtidPosition") -> "GtidPosition":
        """Return the later position of each domain."""
        position = self
        for last in other._last.values():
            position = position.add(last)
        return position

    def add(self, transaction: int) -> "GtidPosition":
        """Return this position, moved to the transaction if that is later in its domain."""
        if transaction in self:
            return self
        return GtidPosition(self._last | {_domain_of(transaction): transaction})

    def extended(self, transactions: Iterable[int]) -> "GtidPosition":
        """Return this position, moved to those of the transactions that are later in their domains."""
        last = dict(self._last)
        for transaction in transactions:
            domain = _domain_of(transaction)
            if domain not in last or transaction & _NUMBER > last[domain] & _NUMBER:
                last[domain] = transaction
        return GtidPosition(last)

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return self._last == other._last if isinstance(other, GtidPosition) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._last.values()))

    def __str__(self) -> str:
        words = []
        for domain, last in sorted(self._last.items()):
            server = (last >> NUMBER_BITS) & ((1 << _SERVER_BITS) - 1)
            words.append(f"{domain}-{server}-{last & _NUMBER}")
        return ",".join(words)

    def __repr__(self) -> str:
        return f"GtidPosition({str(self)!r})"


def _domain_of(transaction: int) -> int:
    return transaction >> NUMBER_BITS + _SERVER_BITS


# ── Either ───────────────────────────────────────────────────────────────────────────────────────────────────────────

#: Executed transactions of MySQL, or MariaDB's position.
Gtids: TypeAlias = GtidSet | GtidPosition
_POSITION = re.compile(r"\d{1,10}-\d{1,10}-\d{1,20}(\s*,\s*\d{1,10}-\d{1,10}-\d{1,20})*", re.ASCII)
_SET = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\s*:", re.ASCII | re.IGNORECASE)


def looks_like_gtids(text: str) -> bool:
    """Return whether a text can only be meant as global ids."""
    return _POSITION.fullmatch(text) is not None or _SET.match(text) is not None


def parse_gtids(text: str) -> Gtids:
    """Parse MariaDB's ``0-1-42,1-1-7`` or MySQL's ``uuid:1-5:7``. Raises ValueError with an example."""
    return GtidPosition.parse(text) if _POSITION.fullmatch(text) else GtidSet.parse(text)
