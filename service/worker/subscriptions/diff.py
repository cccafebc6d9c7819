"""From one answer to the next: which rows went and which came, and where.

*Invariants*: what a `Change` says of two lists of rows rebuilds the second from the first, with order and equal rows.

*Theory*: rows that stay are a subsequence of both lists. Behind what both begin and end with, the k-th of equal rows
before is taken to be the k-th of them after; of these pairs the longest run that does not cross stays (patience
sorting), and the others move: they are removed and added. That is right whatever moved, and the least that moves
unless equal rows do.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

#: What a row's end depends on: strings, which may contain anything, and brackets.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that went, with their places in the old list, and rows that came, with their places in the new one; both
    ascending."""

    removed: list[bytes]
    removed_at: list[int]
    added: list[bytes]
    added_at: list[int]


def split_rows(rows: bytes) -> list[bytes]:
    """The objects of a JSON array of objects, without blanks between them, byte for byte."""
    name_end = rows.find(b'":') + 2
    if name_end > 1:
        # All begin alike, and what a row begins with cannot be within a string: that would have its quote escaped.
        head = rows[1:name_end]
        pieces = rows[name_end:-2].split(b"}," + head)
        if rows.count(b"{") == len(pieces):
            # Nor can it be deeper inside: there is no brace but theirs.
            return [b"%b%b}" % (head, piece) for piece in pieces]
    return _split_deep(rows)


def _split_deep(rows: bytes) -> list[bytes]:
    """As `split_rows`, where there are braces within rows."""
    found = []
    depth = start = 0
    for token in _TOKENS.finditer(rows, 1, len(rows) - 1):
        first = rows[token.start()]
        if first in b"{[":
            if not depth:
                start = token.start()
            depth += 1
        elif first in b"}]":
            depth -= 1
            if not depth:
                found.append(rows[start : token.end()])
    return found


def diff(old: Sequence[bytes], new: Sequence[bytes]) -> Change:
    """What leads from `old` to `new`."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    stay_old, stay_new = _staying(old[head : len(old) - tail], new[head : len(new) - tail])
    removed_at = [at for at in range(head, len(old) - tail) if at - head not in stay_old]
    added_at = [at for at in range(head, len(new) - tail) if at - head not in stay_new]
    return Change([old[at] for at in removed_at], removed_at, [new[at] for at in added_at], added_at)


def rebuilt(old: Sequence[bytes], change: Change) -> list[bytes]:
    """What a subscriber makes of a change."""
    rows = list(old)
    for at in reversed(change.removed_at):
        del rows[at]
    for at, row in zip(change.added_at, change.added, strict=True):
        rows.insert(at, row)
    return rows


def _staying(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[set[int], set[int]]:
    """Places of rows that stay, in both lists."""
    if not old or not new:
        return set(), set()
    places: dict[bytes, list[int]] = {}
    for at in range(len(new) - 1, -1, -1):
        places.setdefault(new[at], []).append(at)
    pairs = [(at, left.pop()) for at, row in enumerate(old) if (left := places.get(row))]
    kept = _longest_ascending([to for _, to in pairs])
    return {pairs[i][0] for i in kept}, {pairs[i][1] for i in kept}


def _longest_ascending(numbers: Sequence[int]) -> list[int]:
    """Places of a longest strictly ascending subsequence of distinct numbers."""
    ends: list[int] = []
    end_at: list[int] = []
    before: list[int] = []
    for at, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(end_at[length - 1] if length else -1)
        if length == len(ends):
            ends.append(number)
            end_at.append(at)
        else:
            ends[length] = number
            end_at[length] = at
    found = []
    at = end_at[-1] if end_at else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found
