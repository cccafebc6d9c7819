"""Session settings that decide how PostgreSQL prints values.

The stream and every lookup must pin the same ones: a row's identity is its text, and a row that is printed in two ways
is two rows.
"""

from typing import Any

from psycopg.conninfo import conninfo_to_dict

from cdc.keepalive import COUNT, IDLE_S, INTERVAL_S, UNACKNOWLEDGED_MS

SESSION_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "client_encoding": "UTF8",
    "xmlbinary": "base64",
}


_LIVELINESS = {
    "keepalives_idle": IDLE_S,
    "keepalives_interval": INTERVAL_S,
    "keepalives_count": COUNT,
    "tcp_user_timeout": UNACKNOWLEDGED_MS,
}


def liveliness(conninfo: str) -> dict[str, Any]:
    """Connection parameters that notice a peer that is gone, but for those that `conninfo` has (libpq, Parameter Key
    Words)."""
    given = conninfo_to_dict(conninfo)
    return {name: value for name, value in _LIVELINESS.items() if name not in given}


def session_sql() -> str:
    """The statements that pin them. (Not as startup options: poolers refuse those.)"""
    return "; ".join(f"SET {name} = '{value}'" for name, value in SESSION_SETTINGS.items())
