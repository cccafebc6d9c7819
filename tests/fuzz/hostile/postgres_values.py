"""Hostile values of PostgreSQL's types, as texts that the server may refuse."""

from collections.abc import Callable
from random import Random

from tests.dataflow.functions.awkward import VALUES as AWKWARD
from tests.fuzz.hostile.texts import document, large_document, length, short_text, text

_LIMITS = {"int2": 15, "int4": 31, "int8": 63}
_MAX_WHOLE, _MAX_FRACTION = 131_072, 16_383
_FLOATS = (
    "-0",
    "0",
    "5e-324",
    "-5e-324",
    "2.2250738585072014e-308",
    "2.225073858507201e-308",
    "1.7976931348623157e308",
    "1e-45",
    "1.1754944e-38",
    "3.4028235e38",
    "-3.4028235e38",
    "NaN",
    "Infinity",
    "-Infinity",
    "9007199254740993",
    "1e15",
    "999999999999999.9",
    "1e-5",
    "0.00001",
    "16777217",
    "1e22",
    "1e23",
    "0.1",
    "0.30000000000000004",
    "8388608.5",
    "2.5",
    "-0.5",
    "9.5367431640625e-07",
    "4.5035996273704965e15",
    "9223372036854775807",
    "-9223372036854775808",
    "2147483647.5",
    "32767.5",
)
_MANY_DIGITS = ("1e-16383", "1e131071")
_DATES = (
    "4713-01-01 BC",
    "4713-11-24 BC",
    "0001-12-31 BC",
    "0001-01-01",
    "5874897-12-31",
    "infinity",
    "-infinity",
    "2000-02-29",
    "1900-02-28",
    "9999-12-31",
    "10000-01-01",
    "294276-12-31",
    "294277-01-01",
    "1582-10-10",
    "0044-03-15 BC",
    "0004-02-29",
)
_CLOCKS = ("00:00:00", "23:59:59.999999", "12:00:00.5", "24:00:00", "00:00:00.000001", "11:59:59.9999995")
_INTERVALS = (
    "178956970 years 7 mons",
    "-178956970 years -8 mons",
    "2147483647 days",
    "-2147483648 days",
    "2562047788:00:54.775807",
    "-2562047788:00:54.775808",
    "infinity",
    "-infinity",
    "0",
    "1 mon -30 days",
    "30 days -720:00:00",
    "1 year -1 day +1:00",
    "0.000001 s",
    "-1 mon 1 day",
    "1000000 hours",
    "1 day -23:59:59.999999",
)
_HUGE, _LONG, _MODERATE = 16_000_000, 1_000_000, 10_000


class PostgresValues:
    """Draws values. `long` says whether values of megabytes are among them."""

    def __init__(self, rng: Random, long: bool) -> None:
        self._rng = rng
        self._long = _LONG if long else 2000
        self._long_allowed = long

    def small(self, type_name: str) -> str:
        """A value of ordinary length."""
        if type_name.endswith("[]"):
            return self._array(type_name[:-2], self._rng.randrange(6))
        bare = type_name.partition("(")[0]
        if bare in AWKWARD and self._rng.random() < 0.15:
            value = self._rng.choice(AWKWARD[bare])
            return "" if value is None else value
        return _SMALL[bare](self, self._rng)

    def large(self, type_name: str) -> str:
        """A value that is long, deep or of many digits."""
        rng = self._rng
        if type_name.endswith("[]"):
            return self._large_array(type_name[:-2])
        match type_name:
            case "text":
                return text(rng, length(rng, self._long))
            case "bytea":
                return "\\x" + "ab" * length(rng, self._long // 2)
            case "json" | "jsonb":
                return large_document(rng, length(rng, 100_000 if self._long_allowed else 300))
            case "numeric":
                return self._digits(length(rng, _MAX_WHOLE), length(rng, _MAX_FRACTION + 1))
            case "interval":
                return rng.choice(_INTERVALS)
        return self.small(type_name)

    def huge(self, type_name: str) -> str | None:
        """A value of the greatest length that is tried; None: the type has none."""
        rng = self._rng
        match type_name:
            case "text":
                return text(rng, _HUGE)
            case "bytea":
                return "\\x" + "0f" * (_HUGE // 2)
            case "jsonb" | "json":
                return large_document(rng, 200_000)
            case "numeric":
                return self._digits(_MAX_WHOLE, rng.choice((0, _MAX_FRACTION)))
            case "text[]" | "int4[]" | "numeric[]":
                return self._large_array(type_name[:-2], 100_000)
        return None

    # --- by type ------------------------------------------------------------------------------------------------------

    def integer(self, type_name: str) -> str:
        rng, bits = self._rng, _LIMITS[type_name]
        match rng.randrange(4):
            case 0:
                return str(rng.choice((-1, 1)) * (2**bits - 1 - rng.randrange(3)))
            case 1:
                return str(-(2**bits) + rng.randrange(2))
            case 2 if type_name == "int4":
                return str(rng.choice((0, 1, 2, 5, 31, 32, 63, 64, 100, 1000, -5)))
        return str(rng.randrange(-20, 21))

    def number(self) -> str:
        rng = self._rng
        match rng.randrange(5):
            case 0:
                return rng.choice(("NaN", "Infinity", "-Infinity", "0", "0.000", "-0.5", *_MANY_DIGITS, "1.5"))
            case 1:
                return f"{rng.choice(('', '-'))}{rng.randrange(10)}.{rng.randrange(10 ** rng.randrange(1, 40))}"
            case 2:
                return f"{rng.randrange(-99, 100)}e{rng.randrange(-60, 60)}"
            case 3:
                return self._digits(rng.randrange(60), rng.randrange(60))
        return str(rng.randrange(-1000, 1000) / rng.choice((1, 2, 4, 8, 10, 100)))

    def _digits(self, whole: int, fraction: int) -> str:
        rng = self._rng
        pattern = rng.choice(("9", "1", "10", "49999", "5", "123456789", "0001"))
        digits = [(pattern * (n // len(pattern) + 1))[:n] for n in (whole, fraction)]
        return f"{rng.choice(('', '-'))}{digits[0] or '0'}.{digits[1]}"

    def double(self) -> str:
        rng = self._rng
        match rng.randrange(4):
            case 0:
                return rng.choice(_FLOATS)
            case 1:
                return f"{rng.choice(('', '-'))}{rng.randrange(10**17)}e{rng.randrange(-340, 300)}"
            case 2:
                return str(rng.choice((1, -1)) * 2.0 ** rng.randrange(-149, 128))
        return str(rng.randrange(-10_000, 10_000) / rng.choice((1, 2, 3, 4, 7, 10, 100)))

    def date(self) -> str:
        rng = self._rng
        if rng.random() < 0.4:
            return rng.choice(_DATES)
        year = rng.choice((rng.randrange(1, 4714), rng.randrange(1900, 2100), rng.randrange(1, 300_000)))
        return f"{year:04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}{rng.choice(('', '', ' BC'))}"

    def moment(self, zone: str) -> str:
        date, _, era = self.date().partition(" ")
        if "infinity" in date:
            return date
        return f"{date} {self.clock()}{zone}{' BC' if era else ''}"

    def clock(self) -> str:
        rng = self._rng
        if rng.random() < 0.4:
            return rng.choice(_CLOCKS)
        return f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(10**6):06}"

    def interval(self) -> str:
        rng = self._rng
        if rng.random() < 0.4:
            return rng.choice(_INTERVALS)
        months, days = (rng.randrange(-(10**n), 10**n + 1) for n in (rng.randrange(10), rng.randrange(10)))
        return (
            f"{months} mons {days} days {rng.choice(('', '-'))}{rng.randrange(10 ** rng.randrange(1, 8))}:59:59.999999"
        )

    def _array(self, element: str, count: int) -> str:
        rng = self._rng
        match rng.randrange(6):
            case 0 if count:
                rows = [self._array_of(element, 2) for _ in range(count)]
                return "{" + ",".join(rows) + "}"
            case 1 if count:
                start = rng.choice((0, -3, 5, 2**30))
                return f"[{start}:{start + count - 1}]={self._array_of(element, count)}"
            case 2:
                return rng.choice(("{}", "{NULL}", "{NULL,NULL}"))
        return self._array_of(element, count)

    def _array_of(self, element: str, count: int) -> str:
        return (
            "{" + ",".join("NULL" if self._rng.random() < 0.1 else self._element(element) for _ in range(count)) + "}"
        )

    def _element(self, element: str) -> str:
        value = self.small(element)
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    def _large_array(self, element: str, count: int = 0) -> str:
        rng = self._rng
        count = count or length(rng, 100_000 if self._long_allowed else 200)
        # Not those of a hundred thousand digits: together they would be gigabytes.
        some = [e for _ in range(20) if (e := self._element(element)).strip('"') not in _MANY_DIGITS]
        if element == "int4" and rng.random() < 0.5:
            return "{" + ",".join(map(str, range(count))) + "}"
        return "{" + ",".join(rng.choices([*some, "NULL"], k=count)) + "}"


_SMALL: dict[str, Callable[[PostgresValues, Random], str]] = {
    **{name: (lambda v, _, name=name: v.integer(name)) for name in _LIMITS},  # type: ignore[misc]
    "numeric": lambda v, _: v.number(),
    "float4": lambda v, _: v.double(),
    "float8": lambda v, _: v.double(),
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), lambda _, rng: short_text(rng)),
    "bool": lambda _, rng: rng.choice("tf"),
    "bytea": lambda _, rng: "\\x" + "".join(rng.choices(("00", "ff", "61", "5c", "0a"), k=rng.randrange(20))),
    "uuid": lambda _, rng: f"{rng.choice((0, 2**128 - 1, rng.randrange(2**128))):032x}",
    "mood": lambda _, rng: rng.choice(("sad", "ok", "happy")),
    "date": lambda v, _: v.date(),
    "time": lambda v, _: v.clock(),
    "timestamp": lambda v, _: v.moment(""),
    "timestamptz": lambda v, _: v.moment("+00"),
    "interval": lambda v, _: v.interval(),
    "json": lambda _, rng: document(rng),
    "jsonb": lambda _, rng: document(rng),
}
