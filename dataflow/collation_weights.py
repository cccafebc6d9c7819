"""The weights of a collation's characters taken apart: which text stands for all that weigh the same.

A *unit* is one weight of the first level with what belongs to it on the others: a string per level, whose characters
are the weights' numbers ("" where there is none). A *word* is the units of one character. *Primitive* words are not
made of other ones; each has a *representative*, the character that stands for all with that word.

*Invariants*: `text` gives one text for all that have the same units. It is the text itself if that is made of
representatives and `ambiguous` finds nothing in it.

Not here: comparing texts (`collations`).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: Of one character: bytes as WEIGHT_STRING has them; of a collation of several levels, those of each (LEVEL n).
Weight = bytes | tuple[bytes, ...]
Unit = tuple[str, ...]
Word = tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class Implicit:
    """Characters whose weights are computed (UTS #10, 10.1.3): ``base + (code >> 15)``, ``code & 0x7FFF | 0x8000``."""

    #: First and last code point, inclusive, and base; ascending.
    runs: tuple[tuple[int, int, int], ...]
    #: What belongs to both on further levels.
    others: tuple[int, ...] = (0x20, 0x02)

    def primary(self, code: int) -> str | None:
        """The weights of a character; None if they are not computed."""
        base = self._base(code)
        return None if base is None else chr(base + (code >> 15)) + chr(code & 0x7FFF | 0x8000)

    def character(self, primary: str) -> str | None:
        """The character that has these weights."""
        lead, trail = map(ord, primary)
        for base in {base for _, _, base in self.runs}:
            code = (lead - base) << 15 | trail & 0x7FFF
            if lead >= base and self._base(code) == base:
                return chr(code)
        return None

    def _base(self, code: int) -> int | None:
        at = bisect_right(self.runs, (code, _LAST, 0)) - 1
        return self.runs[at][2] if at >= 0 and code <= self.runs[at][1] else None


@dataclass(frozen=True, slots=True)
class CodePoints:
    """All characters, and their weights are their numbers."""


#: What characters weigh that are not listed: all the same (one of them must be listed), or by a rule. Those that it
#: says nothing of are not of the collation's character set, and differ from all others.
Rest = bytes | Implicit | CodePoints | None

#: Computed weights begin with one of these.
_LEADS = range(0xFB00, 0xFC00)
_BASES = frozenset({0xFB40, 0xFB80, 0xFBC0})
_LAST = 0x10FFFF
#: Characters are ranked by their numbers, small letters of ASCII before all others.
_NO_SMALL_LETTER = _LAST + 1
_NO_RANK = 2 * _NO_SMALL_LETTER
#: Before the number of a character that is not of the character set; greater than all weights there are.
_FOREIGN = chr(0x10FFFF)


def is_computed(code: int, weight: Weight) -> bool:
    """Return whether a character's first weights are those that are computed of its code point (see `Implicit`)."""
    first = weight if isinstance(weight, bytes) else weight[0]
    if len(first) != 4:
        return False
    lead, trail = int.from_bytes(first[:2], "big"), int.from_bytes(first[2:], "big")
    return lead in _LEADS and lead - (code >> 15) in _BASES and trail == code & 0x7FFF | 0x8000


class CollationWords:
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
        #: The representatives of primitive words.
        self._primitives: dict[Word, str] = {}
        #: How long those are that begin with a unit.
        self._lengths: dict[Unit, list[int]] = {}
        self._choose({code: made[weight] for code, weight in weights.items()})
        #: Finds characters of which there is one wherever units can be read as primitive words in several ways. (What
        #: is made of single units only is made in no other way, else the words in that other one were not primitive.)
        self.ambiguous: re.Pattern[str] | None = None
        several = [self._primitives[word] for word in self._ambiguous() if len(word) > 1]
        if several:
            self.ambiguous = re.compile(f"[{re.escape(''.join(sorted(several)))}]")
        self._words = {text: word for word, text in self._primitives.items()}
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
        if self.levels == 1 and len(weight) == self._unit_bytes and isinstance(weight, bytes):
            # Nearly all: what follows gives the same.
            return ((chr(int.from_bytes(weight, "big")),),)
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
        """Return whether a unit with this weight on the second level has one on the first."""
        return second in self._full

    # --- from words to texts ----------------------------------------------------------------------------------------

    def _choose(self, words: Mapping[int, Word]) -> None:
        """Finds the primitive words and the representative of each: a small letter if there is one."""
        best: dict[Word, int] = {}
        for code, word in words.items():
            rank = code if 0x61 <= code <= 0x7A else code + _NO_SMALL_LETTER
            if word and rank < best.get(word, _NO_RANK):
                best[word] = rank
        for word in sorted(best, key=lambda word: len(word) * _NO_RANK + best[word]):
            if self._parsed(word) is None:
                self._primitives[word] = chr(best[word] % _NO_SMALL_LETTER)
                lengths = self._lengths.setdefault(word[0], [])
                if len(word) not in lengths:
                    lengths.append(len(word))

    def _ambiguous(self) -> set[Word]:
        """The words that units are made of which others are made of, too (found as by Sardinas and Patterson)."""
        words = self._primitives
        if all(len(word) == 1 for word in words):
            return set()
        beginning: dict[Unit, list[Word]] = {}
        for word in words:
            beginning.setdefault(word[0], []).append(word)
        # What one way of reading has beyond the other -> what came before that, and the word that was read.
        before: dict[Word, list[tuple[Word, Word]]] = {}
        open_: list[tuple[Word, Word, Word]]
        open_ = [(word[n:], (), word) for word in words for n in range(1, len(word)) if self._is_primitive(word[:n])]
        while open_:
            ahead, previous, read = open_.pop()
            known = ahead in before
            before.setdefault(ahead, []).append((previous, read))
            if not known and ahead:
                open_ += [(w[len(ahead) :], ahead, w) for w in beginning.get(ahead[0], ()) if w[: len(ahead)] == ahead]
                open_ += [(ahead[n:], ahead, ahead[:n]) for n in range(1, len(ahead)) if self._is_primitive(ahead[:n])]
        # All that leads to where both ways end together.
        found: set[Word] = set()
        reached: set[Word] = set()
        ends: list[Word] = [()]
        while ends:
            for previous, read in before.get(ends.pop(), ()):
                found.add(read)
                if previous and previous not in reached:
                    reached.add(previous)
                    ends.append(previous)
        return found

    def _is_primitive(self, word: Word) -> bool:
        return word in self._primitives or (len(word) == 1 and self._computed(word[0]) is not None)

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
        if len(units) == 1:
            # Nearly all: what follows gives the same.
            text = self._computed(units[0])
            return self._primitives.get(units) if text is None else text
        #: By where a word ends: where it begins and what it is written as.
        ends: dict[int, tuple[int, str]] = {0: (0, "")}
        for start, unit in enumerate(units):
            if start not in ends:
                continue
            for length in self._lengths.get(unit, ()):
                text = self._primitives.get(units[start : start + length])
                if text is not None:
                    ends[start + length] = start, text
            if (text := self._computed(unit)) is not None:
                ends[start + 1] = start, text
        if len(units) not in ends:
            return None
        parts: list[str] = []
        at = len(units)
        while at:
            at, text = ends[at]
            parts.append(text)
        return "".join(reversed(parts))

    def _written(self, word: Word) -> str:
        text = self._parsed(word)
        if text is None:
            raise ValueError("no characters have the weights of a contraction")
        return text

    def text(self, levels: Sequence[Sequence[str]]) -> str | None:
        """The text that stands for those with these weights on the levels; None if there are none."""
        return self._parsed(tuple(self._units(levels)))

    def read_again(self, text: str) -> str:
        """The text that stands for all that have the same units as one made of representatives."""
        units: list[Unit] = []
        for character in text:
            word = self._words.get(character)
            units.extend(word if word is not None else [self._unit_of_rest(ord(character))])
        return self._written(tuple(units))

    def _unit_of_rest(self, code: int) -> Unit:
        primary = self._rest.primary(code) if isinstance(self._rest, Implicit) else None
        return (_FOREIGN + chr(code), *[""] * (self.levels - 1)) if primary is None else (primary, *self._others)

    # --- from texts to weights --------------------------------------------------------------------------------------

    def unit_of(self, character: str) -> Unit:
        """The unit of a representative that has one only; ValueError if it has several."""
        word = self._words.get(character, ())
        if len(word) == 1:
            return word[0]
        if isinstance(self._rest, CodePoints):
            return (character,)
        raise ValueError(f"{character!r} has not one weight")

    def symbols(self, level: int) -> Mapping[int, str]:
        """The weights on a level of each representative, for `str.translate`."""
        table: dict[int, str] = {} if isinstance(self._rest, CodePoints) else _Symbols(self._rest, level, self._others)
        for word, text in self._primitives.items():
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
