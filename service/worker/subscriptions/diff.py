"""Difference of two answers: removed and added rows, and their places.

*Invariants*: a `Change` rebuilds the second list of rows from the first, including order and equal rows.

*Theory*: rows that stay are a subsequence of both lists. After the common prefix and suffix, the k-th of equal rows
in the first list is paired with the k-th in the second; the longest sequence of pairs that do not cross stays
(patience sorting), and the other rows are removed and added. The result is always correct, and minimal unless equal
rows move.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

#: Tokens that determine where a row ends: strings, which may contain anything, and brackets.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Change:
    """Removed rows with their places in the old list, and added rows with their places in the new one; both
    ascending."""

    removed: list[bytes]
    removed_at: list[int]
    added: list[bytes]
    added_at: list[int]


def split_rows(rows: bytes) -> list[bytes]:
    """Split a JSON array of objects, without blanks between them, into the objects' bytes."""
    name_end = rows.find(b'":') + 2
    if name_end > 1:
        # All rows begin alike, and within a string the quote would be escaped.
        head = rows[1:name_end]
        pieces = rows[name_end:-2].split(b"}," + head)
        if rows.count(b"{") == len(pieces):
            # Nor can the match be nested: there are no other braces.
            return [b"%b%b}" % (head, piece) for piece in pieces]
    return _split_deep(rows)


def _split_deep(rows: bytes) -> list[bytes]:
    """Split rows that contain braces."""
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
    """Return the change from `old` to `new`."""
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
    """Apply a change, as a subscriber does."""
    rows = list(old)
    for at in reversed(change.removed_at):
        del rows[at]
    for at, row in zip(change.added_at, change.added, strict=True):
        rows.insert(at, row)
    return rows


def _staying(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[set[int], set[int]]:
    """Return the places of rows that stay, in both lists."""
    if not old or not new:
        return set(), set()
    places: dict[bytes, list[int]] = {}
    for at in range(len(new) - 1, -1, -1):
        places.setdefault(new[at], []).append(at)
    pairs = [(at, left.pop()) for at, row in enumerate(old) if (left := places.get(row))]
    kept = _longest_ascending([to for _, to in pairs])
    return {pairs[i][0] for i in kept}, {pairs[i][1] for i in kept}


def _longest_ascending(numbers: Sequence[int]) -> list[int]:
    """Return the places of a longest strictly ascending subsequence of distinct numbers."""
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
