"""Weights of collations, read from the server (``WEIGHT_STRING``), once per process.

A collation is supported if the weights of a text are those of its characters in sequence, apart from contractions that
are all known (`contractions`): for single-byte character sets all pairs of characters are tested; the families of
Unicode collations known to have this property are listed here. Others (tailored for a language, of other multibyte
character sets) are unsupported: texts are not compared by them here.

*Invariants*: every weight was read from the server, except those computed by a rule (`Implicit`), which were compared
with the server's.

Not here: use of the weights (`dataflow.collations`).
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import structlog

from dataflow.collations import CodePoints, Collation, Implicit, Rest, Weight
from dataflow.functions.folding import class_of, simple_lower, simple_upper
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
#: One weight per character, the same for all beyond the first plane; by the suffix of the name.
_GENERAL = ("_general_ci", "_general_nopad_ci", "_general_mysql500_ci", "_unicode_ci", "_unicode_nopad_ci")
_COMPUTED = ("_unicode_520_ci", "_unicode_520_nopad_ci")
#: By suffix, with their levels. (``ai_cs`` has a first and a third, which do not determine equality.)
_UCA1400 = {
    f"_uca1400_{pad}{kind}": n for pad in ("", "nopad_") for kind, n in (("ai_ci", 1), ("as_ci", 2), ("as_cs", 3))
}
#: Computed weights on the levels after the first.
_OTHERS = (b"\0\x20", b"\0\x02")
#: Prefixes of weights of characters outside the collation's table (UTS #10, 10.1.3).
_LEADS = range(0xFB00, 0xFC00)
#: Unassigned characters: nearly all beyond the planes that are read.
_UNASSIGNED = 0xFBC0
_READ = range(0x40000)
_TAGS = range(0xE0000, 0xE0200)
_LAST = 0x10FFFF
#: Shorter runs of computed weights are stored like the others.
_MIN_RUN = 64
_SURROGATES = range(0xD800, 0xE000)
_FIRST_PLANE = 0x10000
#: Characters of one statement.
_CHUNK = 0x4000
#: Characters with an upper or lower case are before this one.
_CASED = range(0x20000)

#: Cache by the server's version and the collation's name; None: unsupported.
_KNOWN: dict[tuple[str, str], Collation | None] = {}


async def load_collations(wire: Wire, names: Iterable[str]) -> dict[str, Collation]:
    """Returns the supported ones among the collations. Raises ServerError, ConnectionBroken."""
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
            found = await _unicode(wire, charset, name)
            if found is not None:
                found.folding = await _folding(wire, charset, name)
            return found
        if charset in _SINGLE_BYTE:
            return await _single_byte(wire, charset, name)
    except ValueError as problem:
        log.info("collation is not supported", collation=name, reason=str(problem))
    except ServerError as problem:
        log.warning("collation cannot be read", collation=name, reason=problem.message)
    return None


async def _pads(wire: Wire, charset: str, name: str) -> bool:
    reply = await wire.query(
        f"SELECT CONVERT('a' USING {charset}) COLLATE {name} = CONVERT('a ' USING {charset}) COLLATE {name}"
    )
    return reply.rows[0][0] == "1"


async def _made(name: str, weights: Mapping[int, Weight], **options: Any) -> Collation:
    """Builds the collation in a thread, which takes a second. Raises ValueError if its weights are not understood."""
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
        # Bytes without a Unicode character are returned as question marks.
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


async def _folding(wire: Wire, charset: str, name: str) -> str:
    """Returns upper and lower case of the collation's characters (`dataflow.functions.folding`)."""
    found: dict[int, tuple[str, str]] = {}
    digits = ", ".join(f"{_DIGITS} {alias}" for alias in "abcd")
    for start, stop in _chunks(_CASED if charset == "utf8mb4" else range(_FIRST_PLANE)):
        source = f"(SELECT {start} + a.d * 4096 + b.d * 256 + c.d * 16 + d.d AS n FROM {digits})"
        cased = (
            f"(SELECT n, LOWER(t) AS low, UPPER(t) AS up, t FROM"
            f" (SELECT n, CONVERT(CHAR(n USING utf32) USING {charset}) COLLATE {name} AS t FROM {source} x) y)"
        )
        changed = "CAST(low AS BINARY) <> CAST(t AS BINARY) OR CAST(up AS BINARY) <> CAST(t AS BINARY)"
        reply = await wire.query(f"SELECT n, low, up FROM {cased} z WHERE n < {stop} AND ({changed})")
        found.update((int(str(n)), (str(low), str(up))) for n, low, up in reply.rows)
    if any(len(text) != 1 for both in found.values() for text in both):
        return ""
    lower, upper = ({chr(code): both[i] for code, both in found.items()} for i in (0, 1))
    return await asyncio.to_thread(_case_class, lower, upper)


def _case_class(lower: dict[str, str], upper: dict[str, str]) -> str:
    """Returns the class of these mappings."""
    characters = [chr(code) for code in _CASED if code not in _SURROGATES]
    return class_of(
        {c: to for c in characters if (to := lower.get(c, c)) != simple_lower(c)},
        {c: to for c in characters if (to := upper.get(c, c)) != simple_upper(c)},
    )


def _levels(name: str) -> int:
    return _UCA1400.get(name.removeprefix(name.partition("_")[0]), 1)


def _weight_strings(text: str, levels: int) -> str:
    """Returns a statement's columns: the weights of a text on each level."""
    if levels == 1:
        return f"WEIGHT_STRING({text})"
    return ", ".join(f"WEIGHT_STRING({text} LEVEL {level})" for level in range(1, levels + 1))


def _weight(values: Sequence[object]) -> Weight:
    return _bytes(values[0]) if len(values) == 1 else tuple(map(_bytes, values))


async def _computed(wire: Wire, charset: str, name: str, pad_space: bool) -> Collation | None:
    """Returns a collation whose table lacks some characters, whose weights are computed."""
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
    """Runs of characters whose weights are computed by one rule."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int]] = []

    def add(self, code: int, base: int) -> None:
        self.extend(code, code, base)

    def extend(self, first: int, last: int, base: int) -> None:
        if self._runs and self._runs[-1][1:] == (first - 1, base):
            self._runs[-1] = (self._runs[-1][0], last, base)
        else:
            self._runs.append((first, last, base))

    def long(self) -> tuple[tuple[int, int, int], ...]:
        """Returns the runs that become a rule."""
        return tuple(sorted(run for run in self._runs if run[1] - run[0] >= _MIN_RUN))

    def short(self, levels: int) -> dict[int, Weight]:
        """Returns the weights of characters in short runs."""
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
    """Returns the rule's prefix that yields this weight; None if none does."""
    levels = len(weight) if isinstance(weight, tuple) else 1
    first = weight[0] if isinstance(weight, tuple) else weight
    if len(first) != 4:
        return None
    lead = int.from_bytes(first[:2], "big")
    base = lead - (code >> 15)
    return base if lead in _LEADS and weight == _computed_weight(code, base, levels) else None


async def _weights(wire: Wire, charset: str, name: str, codes: range) -> dict[int, Weight]:
    """Reads the weights of characters by code point."""
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
    """Returns the runs of characters whose weight differs from those of their characters."""
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
    """Concatenates the weights of characters."""
    if any(isinstance(weight, tuple) for weight in weights):
        return tuple(b"".join(level) for level in zip(*weights, strict=True))
    return b"".join(weights)  # type: ignore[arg-type]
