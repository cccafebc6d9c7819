"""The weights of collations, read from the server (``WEIGHT_STRING``), once per process.

A collation is known if its weights are those of its characters, one after the other, apart from contractions that are
all known (`contractions`): of single bytes all pairs of characters are asked for, the families of Unicode ones
that are known to be like that are listed here. Others (tailored for a language, of other character sets of several
bytes) are not known: nothing is compared by them here.

*Invariants*: every weight was seen on the server, but those of characters that a rule gives (`Implicit`), which the
server's were compared with.

Not here: what follows from weights (`dataflow.collations`).
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import structlog

from dataflow.collations import CodePoints, Collation, Implicit, Rest, Weight
from service.engine.databases.mysql.contractions import DUCET
from service.engine.databases.mysql.sql_text import quoted
from service.engine.databases.mysql.wire import ServerError, Wire

log = structlog.get_logger()

_UNICODE = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_SINGLE_BYTE = frozenset(
    {
        "ascii",
        "latin1",
        "latin2",
        "latin5",
        "latin7",
        "cp850",
        "cp852",
        "cp866",
        "cp1250",
        "cp1251",
        "cp1256",
        "cp1257",
        "koi8r",
        "koi8u",
        "greek",
        "hebrew",
        "hp8",
        "dec8",
        "swe7",
        "armscii8",
        "geostd8",
        "keybcs2",
        "macce",
        "macroman",
    }
)
#: Of one weight per character, the same for all beyond the first plane; by what their names end with.
_GENERAL = ("_general_ci", "_general_nopad_ci", "_general_mysql500_ci", "_unicode_ci", "_unicode_nopad_ci")
_COMPUTED = ("_unicode_520_ci", "_unicode_520_nopad_ci")
#: With their levels. (``ai_cs`` has a first and a third, which do not say what belongs together.)
_UCA1400 = {
    f"_uca1400_{pad}{kind}": n for pad in ("", "nopad_") for kind, n in (("ai_ci", 1), ("as_ci", 2), ("as_cs", 3))
}
#: Of computed weights on the levels behind the first.
_OTHERS = (b"\0\x20", b"\0\x02")
#: UTS #10, 10.1.3: what the weights of characters that the collation's table does not have begin with.
_LEADS = range(0xFB00, 0xFC00)
#: Of unassigned characters: all beyond the planes that are read but for a few.
_UNASSIGNED = 0xFBC0
_READ = range(0x40000)
_TAGS = range(0xE0000, 0xE0200)
_LAST = 0x10FFFF
#: Shorter runs of computed weights are listed like the others.
_MIN_RUN = 64
_SURROGATES = range(0xD800, 0xE000)
_FIRST_PLANE = 0x10000
#: Characters of one statement.
_CHUNK = 0x4000

#: By the server's version and the collation's name; None is not known.
_KNOWN: dict[tuple[str, str], Collation | None] = {}


async def load_collations(wire: Wire, names: Iterable[str]) -> dict[str, Collation]:
    """Those of the collations that are known. Raises ServerError, ConnectionBroken."""
    found: dict[str, Collation] = {}
    for name in sorted(set(names)):
        key = (wire.version, name)
        if key not in _KNOWN:
            _KNOWN[key] = await _load(wire, name)
        known = _KNOWN[key]
        if known is not None:
            found[name] = known
    return found


async def _load(wire: Wire, name: str) -> Collation | None:
    charset = name.partition("_")[0]
    try:
        if charset in _UNICODE:
            return await _unicode(wire, charset, name)
        if charset in _SINGLE_BYTE:
            return await _single_byte(wire, charset, name)
    except ValueError as problem:
        log.info("collation is not compared by", collation=name, reason=str(problem))
    except ServerError as problem:
        log.warning("collation cannot be read", collation=name, reason=problem.message)
    return None


async def _pads(wire: Wire, charset: str, name: str) -> bool:
    reply = await wire.query(
        f"SELECT CONVERT('a' USING {charset}) COLLATE {name} = CONVERT('a ' USING {charset}) COLLATE {name}"
    )
    return reply.rows[0][0] == "1"


async def _made(name: str, weights: Mapping[int, Weight], **options: Any) -> Collation:
    """The collation, put together in a thread: that takes a second. ValueError if its weights are not understood."""
    return await asyncio.to_thread(Collation, name, weights, **options)


# --- single bytes ---------------------------------------------------------------------------------------------------

_DIGITS = "(SELECT 0 AS d UNION ALL {})".format(" UNION ALL ".join(f"SELECT {i}" for i in range(1, 16)))
_BYTES = f"(SELECT a.d * 16 + b.d AS n FROM {_DIGITS} a, {_DIGITS} b)"


async def _single_byte(wire: Wire, charset: str, name: str) -> Collation | None:
    def weight(of: str) -> str:
        return f"WEIGHT_STRING({of} COLLATE {name})"

    one, two = f"CHAR(x.n USING {charset})", f"CHAR(y.n USING {charset})"
    pairs = await wire.query(
        f"SELECT COUNT(*) FROM {_BYTES} x, {_BYTES} y WHERE {weight(f'CONCAT({one}, {two})')} <>"
        f" CONCAT({weight(one)}, {weight(two)})"
    )
    if pairs.rows[0][0] != "0":
        return None
    reply = await wire.query(f"SELECT CONVERT({one} USING utf8mb4), {weight(one)}, x.n FROM {_BYTES} x")
    weights: dict[int, Weight] = {}
    for character, found, number in reply.rows:
        # What has no character of Unicode comes as a question mark.
        if isinstance(character, str) and len(character) == 1 and (character != "?" or number == "63"):
            weights[ord(character)] = _bytes(found)
    return await _made(name, weights, pad_space=await _pads(wire, charset, name), unit_bytes=1)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value or "").encode()


# --- Unicode --------------------------------------------------------------------------------------------------------


async def _unicode(wire: Wire, charset: str, name: str) -> Collation | None:
    pad_space = await _pads(wire, charset, name)
    if name.endswith("_bin"):
        return Collation(name, {}, pad_space=pad_space, rest=CodePoints())
    beyond = charset == "utf8mb4"
    if name.endswith(_GENERAL):
        weights = await _weights(wire, charset, name, range(_FIRST_PLANE))
        rest: Rest = None
        if beyond:
            some = await _weights(wire, charset, name, range(_FIRST_PLANE, _FIRST_PLANE + 1))
            weights |= some
            (rest,) = some.values()  # type: ignore[assignment]
        return await _made(name, weights, pad_space=pad_space, rest=rest)
    if name.endswith(_COMPUTED) or name.endswith(tuple(_UCA1400)):
        return await _computed(wire, charset, name, pad_space)
    return None


def _levels(name: str) -> int:
    return _UCA1400.get(name.removeprefix(name.partition("_")[0]), 1)


def _weight_strings(text: str, levels: int) -> str:
    """Columns of a statement: a text's weights on each level."""
    if levels == 1:
        return f"WEIGHT_STRING({text})"
    return ", ".join(f"WEIGHT_STRING({text} LEVEL {level})" for level in range(1, levels + 1))


def _weight(values: Sequence[object]) -> Weight:
    return _bytes(values[0]) if len(values) == 1 else tuple(map(_bytes, values))


async def _computed(wire: Wire, charset: str, name: str, pad_space: bool) -> Collation | None:
    """A collation whose table does not have all characters: the others' weights are computed."""
    listed: dict[int, Weight] = {}
    runs = _Runs()
    planes = [_READ, _TAGS] if charset == "utf8mb4" else [range(_FIRST_PLANE)]
    for codes in planes:
        for code, weight in sorted((await _weights(wire, charset, name, codes)).items()):
            base = _base(code, weight)
            if base is None:
                listed[code] = weight
            else:
                runs.add(code, base)
    if charset == "utf8mb4":
        for first, last in ((_READ.stop, _TAGS.start - 1), (_TAGS.stop, _LAST)):
            ends = [range(first, first + 16), range(last - 15, last + 1)]
            some = [item for codes in ends for item in (await _weights(wire, charset, name, codes)).items()]
            if any(_base(code, weight) != _UNASSIGNED for code, weight in some):
                return None
            runs.extend(first, last, _UNASSIGNED)
    listed |= runs.short(_levels(name))
    contracted = name.endswith(tuple(_UCA1400))
    contractions = await _contractions(wire, charset, name, listed) if contracted else None
    rest = Implicit(runs.long())
    return await _made(name, listed, pad_space=pad_space, rest=rest, contractions=contractions)


class _Runs:
    """Runs of characters whose weights are computed alike."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int]] = []

    def add(self, code: int, base: int) -> None:
        """The next character."""
        self.extend(code, code, base)

    def extend(self, first: int, last: int, base: int) -> None:
        """The next characters."""
        if self._runs and self._runs[-1][1:] == (first - 1, base):
            self._runs[-1] = (self._runs[-1][0], last, base)
        else:
            self._runs.append((first, last, base))

    def long(self) -> tuple[tuple[int, int, int], ...]:
        """Those that a rule is made of."""
        return tuple(sorted(run for run in self._runs if run[1] - run[0] >= _MIN_RUN))

    def short(self, levels: int) -> dict[int, Weight]:
        """The weights in all others."""
        return {
            code: _computed_weight(code, base, levels)
            for first, last, base in self._runs
            if last - first < _MIN_RUN
            for code in range(first, last + 1)
        }


def _computed_weight(code: int, base: int, levels: int) -> Weight:
    first = (base + (code >> 15)).to_bytes(2, "big") + (code & 0x7FFF | 0x8000).to_bytes(2, "big")
    return first if levels == 1 else (first, *_OTHERS[: levels - 1])


def _base(code: int, weight: Weight) -> int | None:
    """What the rule begins with that gives this weight; None if none does."""
    levels = len(weight) if isinstance(weight, tuple) else 1
    first = weight[0] if isinstance(weight, tuple) else weight
    if len(first) != 4:
        return None
    lead = int.from_bytes(first[:2], "big")
    base = lead - (code >> 15)
    return base if lead in _LEADS and weight == _computed_weight(code, base, levels) else None


async def _weights(wire: Wire, charset: str, name: str, codes: range) -> dict[int, Weight]:
    """The weights of characters by code point."""
    found: dict[int, Weight] = {}
    digits = ", ".join(f"{_DIGITS} {alias}" for alias in "abcd")
    for start, stop in _chunks(codes):
        source = f"(SELECT {start} + a.d * 4096 + b.d * 256 + c.d * 16 + d.d AS n FROM {digits})"
        character = f"CONVERT(CHAR(x.n USING utf32) USING {charset}) COLLATE {name}"
        weights = _weight_strings(character, _levels(name))
        reply = await wire.query(f"SELECT x.n, {weights} FROM {source} x WHERE x.n < {stop}")
        found.update((int(str(number)), _weight(values)) for number, *values in reply.rows)
    return {code: weight for code, weight in found.items() if code not in _SURROGATES}


def _chunks(codes: range) -> Iterator[tuple[int, int]]:
    for start in range(codes.start, codes.stop, _CHUNK):
        yield start, min(start + _CHUNK, codes.stop)


async def _contractions(wire: Wire, charset: str, name: str, weights: dict[int, Weight]) -> dict[str, Weight]:
    """The runs of characters that do not weigh what their characters do."""
    written = [f"CONVERT({quoted(text)} USING {charset}) COLLATE {name}" for text in DUCET]
    levels = _levels(name)
    found: dict[str, Weight] = {}
    for start in range(0, len(DUCET), 100):
        columns = ", ".join(_weight_strings(text, levels) for text in written[start : start + 100])
        values = (await wire.query(f"SELECT {columns}")).rows[0]
        for n, text in enumerate(DUCET[start : start + 100]):
            weight = _weight(values[n * levels : (n + 1) * levels])
            if weight != _joined([weights[ord(c)] for c in text if ord(c) in weights]):
                found[text] = weight
    return found


def _joined(weights: Sequence[Weight]) -> Weight:
    """The weights of characters one after the other."""
    if any(isinstance(weight, tuple) for weight in weights):
        return tuple(b"".join(level) for level in zip(*weights, strict=True))
    return b"".join(weights)  # type: ignore[arg-type]
