"""Upper and lower case, character by character, as a database's collation has them (`SqlType.folding`).

A class is ``ascii`` (C and POSIX: only A-Z), ``simple`` (Unicode's one-to-one mappings), or ``simple`` with the
characters in which the upstream's tables differ from ours (another version of Unicode, or a language of its own), as
``simple:lÄauéE``: l or u, the character, and what it becomes. The empty class is not known.
"""

from collections.abc import Callable
from functools import lru_cache

ASCII = "ascii"
SIMPLE = "simple"
_UPPER = {i: i - 32 for i in range(ord("a"), ord("z") + 1)}
_LOWER = {i: i + 32 for i in range(ord("A"), ord("Z") + 1)}


def lower(folding: str, text: str) -> str:
    """LOWER."""
    return _lowering(folding)(text)


def upper(folding: str, text: str) -> str:
    """UPPER."""
    return _uppering(folding)(text)


def folds_ascii_plainly(folding: str) -> bool:
    """Return whether ASCII letters fold to each other and to nothing else: not so in Turkish."""
    exceptions = folding.partition(":")[2]
    return bool(folding) and not any(c.isascii() for triple in _triples(exceptions) for c in triple[1])


def simple_lower(character: str) -> str:
    """Unicode's simple mapping to lower case."""
    found = character.lower()
    return found if len(found) == 1 else "i"  # Only U+0130 has two.


def simple_upper(character: str) -> str:
    """Unicode's simple mapping to upper case."""
    for found in (character.upper(), character.title()):
        if len(found) == 1:
            return found
    return character


def class_of(lower_exceptions: dict[str, str], upper_exceptions: dict[str, str]) -> str:
    """The class ``simple`` with these exceptions."""
    marked = [("l", lower_exceptions), ("u", upper_exceptions)]
    text = "".join(mark + c + to for mark, found in marked for c, to in sorted(found.items()))
    return f"{SIMPLE}:{text}" if text else SIMPLE


def _triples(exceptions: str) -> list[str]:
    return [exceptions[i : i + 3] for i in range(0, len(exceptions), 3)]


@lru_cache(maxsize=16)
def _lowering(folding: str) -> Callable[[str], str]:
    if folding == ASCII:
        return lambda text: text.translate(_LOWER)
    return _folding(folding, "l", str.lower, simple_lower)


@lru_cache(maxsize=16)
def _uppering(folding: str) -> Callable[[str], str]:
    if folding == ASCII:
        return lambda text: text.translate(_UPPER)
    return _folding(folding, "u", str.upper, simple_upper)


def _folding(
    folding: str, mark: str, whole: Callable[[str], str], simple: Callable[[str], str]
) -> Callable[[str], str]:
    """By `whole` where every character is ASCII and none of these has an exception, else one by one.

    The mapping grows by the characters met: never beyond Unicode's.
    """
    exceptions = {t[1]: t[2] for t in _triples(folding.partition(":")[2]) if t[0] == mark}
    plain_ascii = not any(c.isascii() for c in exceptions)
    mapping = {ord(c): to for c, to in exceptions.items()}

    def function(text: str) -> str:
        if plain_ascii and text.isascii():
            return whole(text)
        for c in set(text):
            if ord(c) not in mapping:
                mapping[ord(c)] = simple(c)
        return text.translate(mapping)

    return function
