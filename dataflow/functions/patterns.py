"""ILIKE, ESCAPE and regular expressions.

Of PostgreSQL's advanced regular expressions those are taken whose language is RE2's as well: literals, ``.``,
bracket expressions of characters and ranges, ``^ $ | ( ) (?: )`` and quantifiers. Whether such an expression matches
somewhere is the same question to both, whatever they prefer to match. All else is refused: back references, look
around, word boundaries, options, and classes of characters, which depend on the locale.

Both are automata: no text takes longer than its length times the expression's. Python's own expressions backtrack, and
serve only where there is nothing to go back for.

Not here: how LIKE is matched (`like`).
"""

import re
from functools import lru_cache
from typing import Any

import re2

from dataflow import bounds
from dataflow.errors import EvaluationError
from dataflow.functions import folding
from dataflow.functions.like import like_matcher
from dataflow.functions.signature import Table, refused, signature

_MAX_REPEATS = 255
#: Characters of an expression; expressions that are remembered, each with at most so many bytes of states.
_MAX_LENGTH, _EXPRESSIONS, _MAX_STATE_BYTES = 1000, 64, 4 << 20
_OPTIONS = re2.Options()
_OPTIONS.max_mem = _MAX_STATE_BYTES
_OPTIONS.never_capture = True
_OPTIONS.log_errors = False
#: Characters that a backslash makes literal.
_ESCAPABLE = frozenset("\\.^$*+?()[]{}|/-_%@#&!\"'~`<>=,:; ")
_BOUND = re.compile(r"\{([0-9]{1,3})(?:(,)([0-9]{1,3})?)?\}")


# --- LIKE -----------------------------------------------------------------------------------------------------------


def _like(text: str, pattern: str) -> str:
    return "t" if like_matcher(pattern)(text) else "f"


def _ilike(kind: str, text: str, pattern: str) -> str:
    return _like(folding.lower(kind, text), folding.lower(kind, pattern))


def _like_escape(pattern: str, escape: str) -> str:
    """The pattern with backslash for its escape character (like_match.c: do_like_escape)."""
    if not escape:
        return pattern.replace("\\", "\\\\")
    if len(escape) != 1:
        raise EvaluationError("invalid escape string")
    if escape == "\\":
        return pattern
    result: list[str] = []
    after_escape = False
    for c in pattern:
        if c == escape and not after_escape:
            result.append("\\")
            after_escape = True
            continue
        result.append("\\\\" if c == "\\" and not after_escape else c)
        after_escape = False
    return "".join(result)


# --- regular expressions ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=_EXPRESSIONS)
def regular_expression(pattern: str, ignore_case: bool) -> Any:
    """The pattern for RE2. ValueError says what of it is not taken."""
    if len(pattern) > _MAX_LENGTH:
        raise ValueError(f"more than {_MAX_LENGTH} characters are not taken")
    if ignore_case and not pattern.isascii():
        raise ValueError("beyond ASCII, upper and lower case depend on the locale")
    try:
        return re2.compile("(?s)" + "".join(_Translation(pattern, ignore_case).parts()), _OPTIONS)
    except re2.error as error:
        raise ValueError(f"it is not understood: {error}") from error


class _Translation:
    """One pass over a pattern."""

    def __init__(self, pattern: str, ignore_case: bool = False) -> None:
        self._pattern = pattern
        self._ignore_case = ignore_case
        self._position = 0
        self.quantifiers = 0
        self.branches = False
        self.lazy = False
        #: Whether the last piece is a quantifier.
        self.ends_quantified = False

    def parts(self) -> list[str]:
        """The pieces of Python's pattern."""
        if self._pattern.startswith("***"):
            raise ValueError("directors are not taken")
        parts: list[str] = []
        quantifiable = False
        while self._position < len(self._pattern):
            piece, quantifiable = self._piece(self._pattern[self._position], quantifiable)
            parts.append(piece)
        return parts

    def _piece(self, c: str, quantifiable: bool) -> tuple[str, bool]:
        """Translates the next characters; also says whether a quantifier may follow."""
        self._position += 1
        self.branches = self.branches or c in "(|"
        self.ends_quantified = c in "*+?{"
        if self.ends_quantified:
            self.quantifiers += 1
            return self._quantifier(c, quantifiable), False
        match c:
            case "\\":
                return self._escape(), True
            case "[":
                return self._bracket(), True
            case "(":
                return self._group(), False
            case ")" | ".":
                return c, True
            case "^":
                return r"\A", False
            case "$":
                return r"\z", False
            case "|":
                return c, False
            case _:
                return self._character(c), True

    def _character(self, c: str) -> str:
        """A literal. RE2 would ignore case by Unicode's tables, where K is a Kelvin sign, too."""
        return f"[{c}{c.swapcase()}]" if self._ignore_case and c.isalpha() else re.escape(c)

    def _quantifier(self, c: str, quantifiable: bool) -> str:
        if not quantifiable:
            raise ValueError(f"{c} stands where nothing can be repeated")
        if c == "{":
            found = _BOUND.match(self._pattern, self._position - 1)
            if found is None or max(int(found[1]), int(found[3] or 0)) > _MAX_REPEATS:
                raise ValueError("the bounds of { } are not understood")
            self._position = found.end()
            c = found[0]
        if self._pattern[self._position : self._position + 1] == "?":
            # Fewest or most: a match is a match.
            self._position += 1
            self.lazy = True
        return c

    def _escape(self) -> str:
        following = self._pattern[self._position : self._position + 1]
        if following == "d":
            self._position += 1
            return "[0-9]"
        if not following or following not in _ESCAPABLE:
            raise ValueError(f"the escape \\{following} is not taken")
        self._position += 1
        return re.escape(following)

    def _group(self) -> str:
        if self._pattern.startswith("?:", self._position):
            self._position += 2
            return "(?:"
        if self._pattern.startswith("?", self._position):
            raise ValueError("look around and options are not taken")
        return "("

    def _bracket(self) -> str:
        end = self._pattern.find("]", self._position + 1)
        inside = self._pattern[self._position : end]
        negated = inside.startswith("^")
        members = inside[negated:]
        if end < 0 or not members or any(c in "\\[]" for c in members):
            raise ValueError("a bracket expression with classes or escapes is not taken")
        self._position = end + 1
        return f"[{'^' if negated else ''}{_members(members, self._ignore_case)}]"


def _members(members: str, ignore_case: bool) -> str:
    parts: list[str] = []
    position = 0
    while position < len(members):
        first = members[position]
        if members[position + 1 : position + 2] == "-" and position + 2 < len(members):
            last = members[position + 2]
            if first == "-" or last == "-" or last < first:
                raise ValueError("a range in a bracket expression is not understood")
            parts.append(f"{re.escape(first)}-{re.escape(last)}")
            position += 3
        else:
            last = first
            parts.append(re.escape(first))
            position += 1
        if ignore_case:
            parts += [chr(c).swapcase() for c in range(ord(first), ord(last) + 1) if chr(c).isalpha()]
    return "".join(parts)


@lru_cache(maxsize=_EXPRESSIONS)
def _one_way(pattern: str) -> Any:
    """A pattern of which there is only one way to match: at most one quantifier, no branches. ValueError otherwise.

    Where nothing follows the quantifier, Python's own expressions have nothing to go back for either, and find a match
    in a twentieth of the time that RE2's Python binding takes.
    """
    translation = _Translation(pattern)
    # Looked at first: RE2 would give up lazy quantifiers' preferences, which matter here.
    parts = translation.parts()
    if translation.branches or translation.quantifiers > 1 or translation.lazy:
        raise ValueError("what it matches, and not only whether it does, may differ")
    compiled = regular_expression(pattern, False)
    if translation.quantifiers and not translation.ends_quantified:
        return compiled
    return re.compile("(?s)" + "".join(r"\Z" if part == r"\z" else part for part in parts))


def found(text: str, pattern: str) -> str | None:
    """SUBSTRING by a regular expression: what matches first, if anything does. ValueError as `regexp_replace`."""
    matched = _one_way(pattern).search(text)
    result: str | None = None if matched is None else matched[0]
    return result


def regexp_replace(text: str, pattern: str, replacement: str, flags: str = "") -> str:
    """REGEXP_REPLACE. ValueError if the pattern, the replacement or a flag is not taken."""
    if "\\" in replacement:
        raise ValueError("references in the replacement are not taken")
    if not set(flags) <= {"g"}:
        raise ValueError(f"the flags {flags!r} are not taken")
    count = 0 if "g" in flags else 1
    compiled = _one_way(pattern)
    if compiled.search("") is not None:
        raise ValueError("it matches nothing at all, too")
    length = len(text)

    def replaced(_: object) -> str:
        nonlocal length
        length = bounds.bounded(length + len(replacement))
        return replacement

    result: str = compiled.sub(replaced, text, count=count)
    return result


def _matches(text: str, pattern: str) -> str:
    return "t" if regular_expression(pattern, False).search(text.encode()) else "f"


def _imatches(kind: str, text: str, pattern: str) -> str:
    if not folding.folds_ascii_plainly(kind):
        raise EvaluationError("upper and lower case of ASCII letters are a language's own")
    return "t" if regular_expression(pattern, True).search(text.encode()) else "f"


PATTERNS: Table = {
    "like": (
        signature("text text", "bool", _like),
        signature("bpchar text", "bool", _like),
        *refused("bytea bytea -> bool"),
    ),
    "ilike": (
        signature("text text", "bool", _ilike, folding=True),
        signature("bpchar text", "bool", _ilike, folding=True),
    ),
    "like_escape": (signature("text text", "text", _like_escape), *refused("bytea bytea -> bytea")),
    "matches": (signature("text text", "bool", _matches), signature("bpchar text", "bool", _matches)),
    "regexp_replace": (
        signature("text text text", "text", regexp_replace),
        signature("text text text text", "text", regexp_replace),
        *refused(
            "text text text int4 -> text", "text text text int4 int4 -> text", "text text text int4 int4 text -> text"
        ),
    ),
    "imatches": (
        signature("text text", "bool", _imatches, folding=True),
        signature("bpchar text", "bool", _imatches, folding=True),
    ),
}
