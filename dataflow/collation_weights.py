"""The weights of a collation's characters taken apart: which text stands for all that weigh the same.

A *unit* is one weight of the first level with what belongs to it on the others: a string per level, whose characters
are the weights' numbers ("" where there is none). A *word* is the units of one character. *Primitive* words are not made
of other ones; each has a *representative*, the character that stands for all with that word.

*Invariants*: units are made of primitive words in at most one way (no primitive word begins with another), so their
representatives are a normal form.

Not here: comparing texts (`collations`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Of one character: bytes as WEIGHT_STRING has them; of a collation of several levels, those of each (LEVEL n).
Weight = bytes | tuple[bytes, ...]
Unit = tuple[str, ...]
Word = tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class Implicit:
    """Characters whose weights are computed (UTS #10, 10.1.3): ``base + (code >> 15)``, ``code & 0x7FFF | 0x8000``."""

    #: First and last code point, inclusive, and base.
    runs: tuple[tuple[int, int, int], ...]
    #: What belongs to both on further levels.
    others: tuple[int, ...] = (0x20, 0x02)

    def primary(self, code: int) -> str | None:
        """The weights of a character; None if they are not computed."""
        for first, last, base in self.runs:
            if first <= code <= last:
                return chr(base + (code >> 15)) + chr(code & 0x7FFF | 0x8000)
        return None

    def character(self, primary: str) -> str | None:
        """The character that has these weights."""
        lead, trail = map(ord, primary)
        for first, last, base in self.runs:
            if base <= lead and first <= (code := (lead - base) << 15 | trail & 0x7FFF) <= last:
                return chr(code)
        return None


@dataclass(frozen=True, slots=True)
class CodePoints:
    """All characters, and their weights are their numbers."""


#: What characters weigh that are not listed: all the same (one of them must be listed), or by a rule. Those that it
#: says nothing of are not of the collation's character set, and differ from all others.
Rest = bytes | Implicit | CodePoints | None

#: Computed weights begin with one of these.
_LEADS = range(0xFB40, 0xFC00)
#: Before the number of a character that is not of the character set; greater than all weights there are.
_FOREIGN = chr(0x10FFFF)
_NO_WORDS: Mapping[Word, str] = {}


class Words:
    """The words of a collation. ValueError if their representatives are no normal forms."""

    def __init__(
        self, weights: Mapping[int, Weight], rest: Rest, unit_bytes: int, contractions: Mapping[str, Weight]
    ) -> None:
        self._rest = rest
        self._unit_bytes = unit_bytes
        self.levels = max((len(w) for w in weights.values() if isinstance(w, tuple)), default=1)
        self._others = tuple(map(chr, rest.others[: self.levels - 1])) if isinstance(rest, Implicit) else ()
        #: Second-level weights of units that have one of the first level.
        self._full = _full_units(weights.values()) if self.levels > 1 else frozenset()
        made: dict[Weight, Word] = {}
        for weight in (*weights.values(), *contractions.values()):
            if weight not in made:
                made[weight] = self._word(weight)
        #: The representatives of primitive words, by their first unit.
        self._primitives: dict[Unit, dict[Word, str]] = {}
        self._choose({code: made[weight] for code, weight in weights.items()})
        written = {weight: self._written(word) for weight, word in made.items()}
        #: What contractions are written as.
        self.contractions = {text: written[weight] for text, weight in contractions.items()}
        #: What characters are written as, by code point; those that stand for themselves are left out.
        self.representatives: dict[int, int | str] = {}
        for code, weight in weights.items():
            text = written[weight]
            if text != chr(code):
                self.representatives[code] = ord(text) if len(text) == 1 else text
        if isinstance(rest, bytes):
            self.representatives = _Constant(self.representatives, written[rest], weights)

    # --- from weights to words --------------------------------------------------------------------------------------

    def tokens(self, units: Iterable[str]) -> list[str]:
        """The weights of the first level, those together that belong together."""
        tokens: list[str] = []
        following = iter(units)
        for unit in following:
            lead = unit == _FOREIGN or (isinstance(self._rest, Implicit) and ord(unit) in _LEADS)
            tokens.append(unit + next(following, "") if lead else unit)
        return tokens

    def _word(self, weight: Weight) -> Word:
        levels = weight if isinstance(weight, tuple) else (weight,)
        first, *others = (_characters(data, self._unit_bytes) for data in levels)
        return tuple(self._units([self.tokens(first), *others]))

    def _units(self, levels: Sequence[Sequence[str]]) -> Iterator[Unit]:
        """The units that have these weights on the levels."""
        if len(levels) != self.levels or any(len(level) != len(levels[1]) for level in levels[2:]):
            raise ValueError("weights of several levels do not go together")
        if self.levels == 1:
            yield from ((token,) for token in levels[0])
            return
        tokens = iter(levels[0])
        for others in zip(*levels[1:], strict=True):
            primary = next(tokens, None) if self.is_full(others[0]) else ""
            if primary is None:
                raise ValueError("weights of several levels do not go together")
            yield (primary, *others)
        if next(tokens, None) is not None:
            raise ValueError("weights of several levels do not go together")

    def is_full(self, second: str) -> bool:
        """Whether a unit with this weight on the second level has one on the first."""
        return second in self._full

    # --- from words to texts ----------------------------------------------------------------------------------------

    def _choose(self, words: Mapping[int, Word]) -> None:
        """Finds the primitive words and the representative of each: a small letter if there is one."""
        best: dict[Word, tuple[bool, int]] = {}
        for code, word in words.items():
            rank = (not 0x61 <= code <= 0x7A, code)
            if word and (word not in best or rank < best[word]):
                best[word] = rank
        for word in sorted(best, key=lambda word: (len(word), best[word])):
            if self._parsed(word) is None:
                self._primitives.setdefault(word[0], {})[word] = chr(best[word][1])
        for first, group in self._primitives.items():
            if self._computed(first) is not None or any(b[: len(a)] == a for a, b in pairwise(sorted(group))):
                raise ValueError("the weights of a character begin with those of another")

    def _computed(self, unit: Unit) -> str | None:
        """The character that is not listed and has this unit."""
        primary = unit[0]
        if isinstance(self._rest, CodePoints):
            return primary
        if len(primary) != 2:
            return None
        if primary[0] == _FOREIGN:
            return primary[1]
        if not isinstance(self._rest, Implicit) or unit[1:] != self._others:
            return None
        return self._rest.character(primary)

    def _parsed(self, units: Word) -> str | None:
        """The representatives of units; None if they are not made of known words."""
        parts: list[str] = []
        start = 0
        while start < len(units):
            unit = units[start]
            for word, text in self._primitives.get(unit, _NO_WORDS).items():
                if units[start : start + len(word)] == word:
                    parts.append(text)
                    start += len(word)
                    break
            else:
                computed = self._computed(unit)
                if computed is None:
                    return None
                parts.append(computed)
                start += 1
        return "".join(parts)

    def _written(self, word: Word) -> str:
        text = self._parsed(word)
        if text is None:
            raise ValueError("no characters have the weights of a contraction")
        return text

    def text(self, levels: Sequence[Sequence[str]]) -> str:
        """The normal form of the text that has these weights on the levels. ValueError if none has."""
        return self._written(tuple(self._units(levels)))

    # --- from texts to weights --------------------------------------------------------------------------------------

    def unit_of(self, character: str) -> Unit:
        """The unit of a representative that has one only; ValueError if it has several."""
        for group in self._primitives.values():
            for word, text in group.items():
                if text == character and len(word) == 1:
                    return word[0]
        if isinstance(self._rest, CodePoints):
            return (character,)
        raise ValueError(f"{character!r} has not one weight")

    def symbols(self, level: int) -> Mapping[int, str]:
        """The weights on a level of each representative, for `str.translate`."""
        table: dict[int, str] = {} if isinstance(self._rest, CodePoints) else _Symbols(self._rest, level, self._others)
        for group in self._primitives.values():
            for word, text in group.items():
                table[ord(text)] = "".join([unit[level] for unit in word])
        return table


class _Constant(dict[int, int | str]):
    """Representatives, where all characters that are not listed have the same one."""

    def __init__(self, listed: Mapping[int, int | str], text: str, weights: Mapping[int, Weight]) -> None:
        super().__init__({code: code for code in weights})
        self.update(listed)
        self._text = text

    def __missing__(self, _: int) -> str:
        return self._text


class _Symbols(dict[int, str]):
    """Weights on a level by code point, also those that are not listed."""

    def __init__(self, rest: Rest, level: int, others: tuple[str, ...]) -> None:
        super().__init__()
        self._rest, self._level, self._others = rest, level, others

    def __missing__(self, code: int) -> str:
        primary = self._rest.primary(code) if isinstance(self._rest, Implicit) else None
        if primary is None:
            return "" if self._level else _FOREIGN + chr(code)
        return self._others[self._level - 1] if self._level else primary


def _characters(data: bytes, size: int) -> list[str]:
    return [chr(int.from_bytes(data[i : i + size], "big")) for i in range(0, len(data), size)]


def _full_units(weights: Iterable[Weight]) -> frozenset[str]:
    full: set[str] = set()
    empty: set[str] = set()
    for weight in set(weights):
        first, second = _characters(weight[0], 2), _characters(weight[1], 2)  # type: ignore[arg-type]
        if not first:
            empty.update(second)
        elif len(first) == len(second) == 1:
            full.update(second)
    if full & empty:
        raise ValueError("weights of the second level do not say whether there is one of the first")
    return frozenset(full)
