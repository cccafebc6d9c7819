"""Collations of MariaDB and MySQL, as the weights that their servers give each character (``WEIGHT_STRING``).

Two texts are equal exactly if their weights are, one after the other; which is less is said by the first weight that
differs. That is how the servers compare (MariaDB, ``strings/ctype-uca.inl``: ``strnncollsp``), so nothing is computed
here that they do not say. A character may have several weights (``ß`` those of ``ss``) or none (it is ignored). With
PAD SPACE the shorter text counts as followed by endless spaces. A collation of several levels compares whole texts by
their primary weights, then by their secondary ones, and so on.

*Invariants*: `Collation.normal` gives a text that equals the given one, the same for all that do. `Collation.order`
gives bytes that compare as the texts do; none is a prefix of another's, and `Collation.text` gives a text that has
them. A collation whose weights do not allow that is refused by its constructor.

Not here: reading weights from a server; weights taken apart (`collation_weights`).
"""

import re
from collections.abc import Container, Mapping
from itertools import pairwise

from dataflow.collation_weights import CodePoints, CollationWords, Implicit, Rest, Weight, is_computed

#: Behind a space's weight: whether what follows the run of them is less than another of them, nothing, or greater.
_BELOW, _END, _ABOVE = "\0", "\1", "\2"
#: The end with NO PAD is less than all weights: one that is 0 is written otherwise.
_NO_PAD_END, _ZERO, _WRITTEN_ZERO = "\0\0", "\0", "\0\1"
_SECOND_PLANE = 0x10000
_FIRST_PLANE_ONLY = frozenset({"utf8mb3", "utf8", "ucs2"})
#: A character that has no weight and that no contraction has: what is on its sides is not read together.
_BREAK = "\N{COMBINING GRAPHEME JOINER}"


class Collation:
    """A collation by its weights; equal and hashed by name. ValueError if the weights do not give normal forms.

    `weights`: by code point, of the characters that the collation's character set has but those of `rest`; all of them
    read from the server, none guessed. `contractions`: the weights of runs of characters where these are not the
    weights of the characters one after the other (all such runs that the collation has).
    """

    __slots__ = (
        "_ambiguous",
        "_ascii",
        "_characters",
        "_contracted",
        "_levels",
        "_normal",
        "_pairs",
        "_single",
        "_unweighted",
        "_words",
        "folding",
        "name",
        "pad_space",
    )

    def __init__(
        self,
        name: str,
        weights: Mapping[int, Weight],
        *,
        pad_space: bool,
        rest: Rest = None,
        unit_bytes: int = 2,
        contractions: Mapping[str, Weight] | None = None,
    ) -> None:
        self.name = name
        self.pad_space = pad_space
        #: Code points of the character set's characters; None: all there are.
        self._characters: Container[int] | None = None
        if unit_bytes == 1:
            self._characters = frozenset(weights)
        elif self.charset in _FIRST_PLANE_ONLY:
            self._characters = range(0x10000)
        #: Upper and lower case (`dataflow.functions.folding`); empty if they are not known.
        self.folding = ""
        self._single: _SingleCharacters | None = None
        self._words = words = CollationWords(weights, rest, unit_bytes, contractions or {})
        self._normal = words.representatives
        self._unweighted = _Unweighted(weights, rest)
        #: The same for bytes: a table, and what is left out.
        self._ascii = _ascii(words.representatives)
        self._ambiguous = words.ambiguous
        self._contracted = _alternatives(contractions) if contractions else None
        self._pairs = _pairs(contractions) if contractions else None
        if contractions and (words.representatives.get(ord(_BREAK)) != "" or any(map(str.isascii, contractions))):
            raise ValueError("contractions cannot be distinguished")
        space = words.unit_of(" ") if pad_space else [""] * words.levels
        #: By level: the weights of characters, and of a space where texts are padded.
        self._levels = [(words.symbols(level), pad) for level, pad in enumerate(space)]

    @classmethod
    def binary(cls, name: str, *, pad_space: bool) -> "Collation":
        """A collation whose characters weigh their code points: ``_bin``."""
        return cls(name, {}, pad_space=pad_space, rest=CodePoints())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Collation) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Collation({self.name!r})"

    @property
    def charset(self) -> str:
        """The character set whose texts it compares."""
        return self.name.partition("_")[0]

    def has(self, text: str) -> bool:
        """Return whether the character set has all of a text's characters. (What else is compared with, servers
        refuse.)"""
        return self._characters is None or all(ord(c) in self._characters for c in text)

    @property
    def compares_characters(self) -> bool:
        """Return whether LIKE takes those characters as equal that `characters` makes the same."""
        return len(self._levels) == 1

    def characters(self, text: str) -> str:
        """The text with the same character for all that are equal when they are compared one by one, as in LIKE."""
        if self._single is None:
            self._single = _SingleCharacters(self._normal, self._unweighted)
        return text.translate(self._single)

    def normal(self, text: str) -> str:
        """The text that stands for all that equal this one."""
        if text.isascii():
            # Faster than texts are translated.
            text = text.encode().translate(*self._ascii).decode()
            return text.rstrip(" ") if self.pad_space else text
        text = text.translate(self._normal) if self._contracted is None else self._uncontracted(text)
        if self._ambiguous is not None and self._ambiguous.search(text):
            text = self._words.read_again(text)
        return self._apart(text)

    def _apart(self, text: str) -> str:
        """A text of representatives so that it is read as such, without the spaces that do not count."""
        if self._pairs is not None:
            text = self._pairs.sub(rf"\g<0>{_BREAK}", text)
        return text.rstrip(" ") if self.pad_space else text

    def _uncontracted(self, text: str) -> str:
        assert self._contracted is not None
        parts: list[str] = []
        start = 0
        for found in self._contracted.finditer(text):
            parts.append(text[start : found.start()].translate(self._normal))
            parts.append(self._words.contractions[found[0]])
            start = found.end()
        parts.append(text[start:].translate(self._normal))
        return "".join(parts)

    def order(self, text: str) -> bytes:
        """Bytes that compare as the texts do. None is a prefix of another."""
        text = self.normal(text)
        if self._pairs is not None:
            text = text.replace(_BREAK, "")
        parts = []
        if not self.pad_space:
            for symbols, _ in self._levels:
                parts.append(text.translate(symbols).replace(_ZERO, _WRITTEN_ZERO) + _NO_PAD_END)
            return "".join(parts).encode(*_ENCODING)
        for symbols, pad in self._levels:
            level = text.translate(symbols).rstrip(pad)
            parts += (_spaced(level, pad) if pad in level else level, pad, _END)
        return "".join(parts).encode(*_ENCODING)

    def text(self, data: bytes) -> tuple[str, int]:
        """The normal form of the texts whose order `data` begins with, and how long that is. ValueError if none has."""
        levels: list[list[str]] = []
        start = 0
        for _, pad in self._levels:
            mark = (pad + _END if pad else _NO_PAD_END).encode(*_ENCODING)
            end = data.index(mark, start)
            level = data[start:end].decode(*_ENCODING)
            if pad:
                level = re.sub(f"{re.escape(pad)}[{_BELOW}{_ABOVE}]", lambda found: found[0][0], level)
            else:
                level = level.replace(_WRITTEN_ZERO, _ZERO)
            levels.append(self._words.tokens(level) if not levels else list(level))
            start = end + len(mark)
        if self.pad_space and len(levels) > 1:
            levels = self._padded(levels)
        text = self._words.text(levels)
        while text is None and self.pad_space and len(levels[0]) < start:
            # Some character's last weight is a space's, and has been cut.
            levels = [[*level, pad] for level, (_, pad) in zip(levels, self._levels, strict=True)]
            text = self._words.text(levels)
        if text is None:
            raise ValueError("no text has these weights")
        return self._apart(text), start

    def _padded(self, levels: list[list[str]]) -> list[list[str]]:
        """All levels as far as the longest goes: those that ended in spaces have been cut."""
        pads = [pad for _, pad in self._levels]
        count = max(map(len, levels[1:]))
        others = [level + [pad] * (count - len(level)) for level, pad in zip(levels[1:], pads[1:], strict=True)]
        full = sum(map(self._words.is_full, others[0]))
        first = levels[0] + [pads[0]] * (full - len(levels[0]))
        # The other levels of spaces and what is like them on these levels.
        missing = len(first) - full
        return [first, *(level + [pad] * missing for level, pad in zip(others, pads[1:], strict=True))]


class _Unweighted:
    """Characters of which the server has no weights, but computes some or has one for all: LIKE compares these as they
    are."""

    __slots__ = ("_beyond", "_computed", "_rest")

    def __init__(self, weights: Mapping[int, Weight], rest: Rest) -> None:
        self._computed = frozenset(code for code, weight in weights.items() if is_computed(code, weight))
        self._beyond = isinstance(rest, bytes) and bool(self._computed)
        self._rest = rest if isinstance(rest, Implicit) else None

    def __contains__(self, code: int) -> bool:
        if code in self._computed or (self._beyond and code >= _SECOND_PLANE):
            return True
        return self._rest is not None and self._rest.primary(code) is not None


class _SingleCharacters(dict[int, int]):
    """Characters by the first of those that LIKE takes as equal: those that are written alike, but for some that equal
    themselves only (MariaDB, ``ctype-uca.inl``: ``my_uca_charcmp``)."""

    def __init__(self, normal: Mapping[int, int | str], unweighted: _Unweighted) -> None:
        super().__init__()
        self._normal, self._unweighted = normal, unweighted
        self._first: dict[int | str, int] = {}
        for code in normal:
            if code not in unweighted:
                written = self._written(code)
                self._first[written] = min(code, self._first.get(written, code))

    def _written(self, code: int) -> int | str:
        try:
            written = self._normal[code]
        except LookupError:
            return code
        return ord(written) if isinstance(written, str) and len(written) == 1 else written

    def __missing__(self, code: int) -> int:
        self[code] = found = code if code in self._unweighted else self._first.get(self._written(code), code)
        return found


def _ascii(representatives: Mapping[int, int | str]) -> tuple[bytes, bytes]:
    """ValueError if characters of ASCII are not written as one of them."""
    written = [representatives.get(code, code) for code in range(128)]
    kept = [code if number == "" else number for code, number in enumerate(written)]
    ignored = bytes(code for code, number in enumerate(written) if number == "")
    return bytes(kept) + bytes(128), ignored  # type: ignore[arg-type]


_ENCODING = ("utf-8", "surrogatepass")


def _spaced(level: str, pad: str) -> str:
    """Weights, the last no space's, each of a space with the mark of how what follows compares with more of them."""
    segments = level.split(pad)
    parts = [segments.pop()]
    mark = pad + (_BELOW if parts[0] < pad else _ABOVE)
    for segment in reversed(segments):
        parts += (mark, segment)
        if segment:
            mark = pad + (_BELOW if segment < pad else _ABOVE)
    parts.reverse()
    return "".join(parts)


def _alternatives(contractions: Mapping[str, Weight]) -> re.Pattern[str]:
    """The longest contraction at a place comes first."""
    return re.compile("|".join(map(re.escape, sorted(contractions, key=lambda text: (-len(text), text)))))


def _pairs(contractions: Mapping[str, Weight]) -> re.Pattern[str]:
    """A character before one that follows it in a contraction."""
    following: dict[str, set[str]] = {}
    for text in contractions:
        for a, b in pairwise(text):
            following.setdefault(a, set()).add(b)
    return re.compile("|".join(f"{re.escape(a)}(?=[{re.escape(''.join(sorted(b)))}])" for a, b in following.items()))


__all__ = ["CodePoints", "Collation", "Implicit", "Rest", "Weight"]
