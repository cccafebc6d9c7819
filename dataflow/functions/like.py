"""LIKE without backtracking: the pieces between ``%`` are searched one behind the other.

The leftmost place of a piece leaves most of the text to the pieces behind it, so no choice is ever taken back. A piece
of characters is found by `str.find`, in linear time; one with ``_`` has a fixed length, so each place costs at most
that many steps, as in the upstream (like_match.c), and their product is bounded.

Not here: ILIKE, ESCAPE and regular expressions (`patterns`).
"""

import re
from collections.abc import Callable
from functools import partial
from operator import eq
from typing import Protocol

from dataflow.errors import EvaluationError
from dataflow.memo import remembered

Match = Callable[[str], bool]

#: Escaped characters (a lone backslash at the end), ``%``, ``_``, and runs of others.
_TOKEN = re.compile(r"\\.?|[%_]|[^%_\\]+", re.DOTALL)
#: Characters of a pattern, parts and characters of its pieces with ``_``, and steps that one match may take.
_MAX_PATTERN, _MAX_WILD, _MAX_STEPS = 100_000, 1000, 10**8


class _Piece(Protocol):
    """Characters of a pattern without ``%`` among them."""

    @property
    def length(self) -> int: ...

    def at(self, text: str, position: int) -> bool:
        """Return whether it is at that place of the text."""
        ...

    def find(self, text: str, start: int, end: int) -> int:
        """Its first place between `start` and `end`, or -1."""
        ...


class _Literal:
    __slots__ = ("length", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.length = len(text)

    def at(self, text: str, position: int) -> bool:
        return text.startswith(self.text, position)

    def find(self, text: str, start: int, end: int) -> int:
        return text.find(self.text, start, end)


class _Wild:
    """A piece with ``_``. An expression of fixed length without quantifiers has one way to match at each place."""

    __slots__ = ("_pattern", "length")

    def __init__(self, parts: list[str | None]) -> None:
        self.length = sum(1 if part is None else len(part) for part in parts)
        if self.length > _MAX_WILD:
            raise EvaluationError("not computed: a LIKE pattern with _ in a piece of too many characters")
        self._pattern = re.compile("".join("." if p is None else re.escape(p) for p in parts), re.DOTALL)

    def at(self, text: str, position: int) -> bool:
        return self._pattern.match(text, position) is not None

    def find(self, text: str, start: int, end: int) -> int:
        found = self._pattern.search(text, start, end)
        return -1 if found is None else found.start()


@remembered(entries=500)
def like_matcher(pattern: str) -> Match:
    """Compiles a pattern to a predicate over texts. ValueError if that ends with a backslash that escapes nothing."""
    if len(pattern) > _MAX_PATTERN:
        raise EvaluationError(f"not computed: a LIKE pattern of more than {_MAX_PATTERN} characters")
    pieces = _pieces(pattern)
    match pieces:
        case [_Literal() as whole]:
            return partial(eq, whole.text)
        case [_Literal() as first, _Literal(length=0)]:
            return lambda text: text.startswith(first.text)
        case [_Literal(length=0), _Literal() as last]:
            return lambda text: text.endswith(last.text)
        case [_Literal(length=0), _Literal() as inner, _Literal(length=0)]:
            return lambda text: inner.text in text
        case _:
            return _in_order(pieces)


def collated_matcher(pattern: str, characters: Callable[[str], str]) -> Match:
    """Compiles a pattern as `like_matcher` does, but that a backslash at its end is itself; equal characters are those
    that `characters` makes the same. (MariaDB, ``ctype-utf8.c``: ``my_wildcmp_unicode_impl``.)"""

    def written(token: str) -> str:
        if token in ("%", "_"):
            return token
        escaped = token[0] == "\\" and len(token) > 1
        return "".join(f"\\{c}" for c in characters(token[1:] if escaped else token))

    matches = like_matcher("".join(map(written, _TOKEN.findall(pattern))))
    return lambda text: matches(characters(text))


def _in_order(pieces: list[_Piece]) -> Match:
    first, inner, last = pieces[0], pieces[1:-1], pieces[-1]
    least = sum(piece.length for piece in pieces)
    wild = sum(piece.length for piece in pieces if isinstance(piece, _Wild))

    def matches(text: str) -> bool:
        end = len(text) - last.length
        if len(text) < least or not first.at(text, 0) or not last.at(text, end):
            return False
        if len(text) * wild > _MAX_STEPS:
            raise EvaluationError("not computed: LIKE with _ of a text that long")
        position = first.length
        for piece in inner:
            position = piece.find(text, position, end)
            if position < 0:
                return False
            position += piece.length
        return len(pieces) > 1 or len(text) == least

    return matches


def _pieces(pattern: str) -> list[_Piece]:
    """Splits a pattern at ``%``; empty pieces only at the ends."""
    pieces: list[list[str | None]] = [[]]
    for token in _TOKEN.findall(pattern):
        match token[0]:
            case "%":
                pieces.append([])
            case "_":
                pieces[-1].append(None)
            case "\\":
                if len(token) == 1:
                    raise ValueError("A LIKE pattern that ends with its escape character is not computed")
                pieces[-1].append(token[1])
            case _:
                pieces[-1].append(token)
    if sum(len(piece) for piece in pieces if None in piece) > _MAX_WILD:
        raise EvaluationError(f"not computed: a LIKE pattern with _ in pieces of more than {_MAX_WILD} parts")
    kept = [piece for i, piece in enumerate(pieces) if piece or i in (0, len(pieces) - 1)]
    return [_Wild(piece) if None in piece else _Literal("".join(p for p in piece if p)) for piece in kept]
