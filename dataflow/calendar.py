"""Dates, times and intervals as PostgreSQL prints them (ISO, MDY; IntervalStyle postgres): texts to numbers and back.

Its calendar reaches from 4714 BC to the year 294276, beyond `datetime`, so days are counted here.
"""

import re

_DAY_US = 86_400_000_000
_SECOND_US = 1_000_000
_UNITS = {"year": 12, "mon": 1}
_INTERVAL_FIELD = re.compile(r"([+-]?\d+) (year|mon|day)s?(?: |$)|([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?$")


def to_days(text: str) -> int:
    """Days of a finite date since 0000-03-01, of the proleptic Gregorian calendar."""
    date, _, era = text.partition(" ")
    year, month, day = (int(part) for part in date.split("-"))
    return civil_days(1 - year if era == "BC" else year, month, day)


def civil_days(year: int, month: int, day: int) -> int:
    """Days since 0000-03-01. Year 0 is 1 BC. (Neri and Schneider's arrangement: the year starts in March.)"""
    year -= month <= 2
    month = (month + 9) % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1


def civil_date(days: int) -> tuple[int, int, int]:
    """The inverse of `civil_days`."""
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    year += era * 400 + (month >= 10)
    return year, month + 3 if month < 10 else month - 9, day


def date_text(days: int) -> str:
    """A date as PostgreSQL prints it."""
    year, month, day = civil_date(days)
    if year > 0:
        return f"{year:04}-{month:02}-{day:02}"
    return f"{1 - year:04}-{month:02}-{day:02} BC"


def to_microseconds(text: str) -> int:
    """A finite timestamp (with ``+00`` or without zone) as microseconds since 0000-03-01."""
    date, clock, *era = text.split(" ")
    days = to_days(f"{date} BC" if era else date)
    return days * _DAY_US + clock_microseconds(clock.removesuffix("+00"))


def timestamp_text(microseconds: int, zone: str = "") -> str:
    """A timestamp as PostgreSQL prints it, with `zone` behind the time."""
    days, clock = divmod(microseconds, _DAY_US)
    date, _, era = date_text(days).partition(" ")
    return f"{date} {clock_text(clock)}{zone}{' BC' if era else ''}"


def clock_microseconds(text: str) -> int:
    """``HH:MM:SS[.ffffff]`` as microseconds."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * _SECOND_US + int(fraction.ljust(6, "0"))


def clock_text(microseconds: int) -> str:
    """The inverse of `clock_microseconds`, without trailing zeros of the fraction."""
    seconds, fraction = divmod(microseconds, _SECOND_US)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def time_zone_parts(text: str) -> tuple[int, str]:
    """A time of day as microseconds, and its zone's text, if any."""
    for sign in "+-":
        clock, found, zone = text.partition(sign)
        if found:
            return clock_microseconds(clock), sign + zone
    return clock_microseconds(text), ""


def zone_seconds(zone: str) -> int:
    """Seconds east of Greenwich of ``+HH[:MM[:SS]]``."""
    parts = [int(part) for part in zone[1:].split(":")] + [0, 0]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return -seconds if zone[0] == "-" else seconds


def interval_parts(text: str) -> tuple[int, int, int] | str:
    """Months, days and microseconds of an interval; an infinity as its text. ValueError if it is none."""
    if text in ("infinity", "-infinity"):
        return text
    months = days = microseconds = position = 0
    while position < len(text):
        field = _INTERVAL_FIELD.match(text, position)
        if field is None:
            raise ValueError(f"not an interval: {text!r}")
        number, unit, sign, hours, minutes, seconds, fraction = field.groups()
        if unit == "day":
            days += int(number)
        elif unit:
            months += int(number) * _UNITS[unit]
        else:
            clock = clock_microseconds(f"{hours}:{minutes}:{seconds}.{fraction or ''}")
            microseconds += -clock if sign == "-" else clock
        position = field.end()
    return months, days, microseconds


def interval_text(months: int, days: int, microseconds: int) -> str:
    """An interval as PostgreSQL prints it (IntervalStyle postgres)."""
    years, months = int(months / 12), months - int(months / 12) * 12
    fields: list[str] = []
    negative = False
    for number, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if number:
            plus = "+" if negative and number > 0 else ""
            fields.append(f"{plus}{number} {unit}{'' if number == 1 else 's'}")
            negative = number < 0
    if microseconds or not fields:
        sign = "-" if microseconds < 0 else "+" if negative else ""
        fields.append(sign + clock_text(abs(microseconds)))
    return " ".join(fields)


def days_in_month(year: int, month: int) -> int:
    """Days of a month. Year 0 is 1 BC."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31
