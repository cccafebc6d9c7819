"""Session settings that determine the text of PostgreSQL's values.

The stream and all lookups use the same settings: a row is identified by its text, so one row printed in two ways would
be two rows.
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


_KEEPALIVE = {
    "keepalives_idle": IDLE_S,
    "keepalives_interval": INTERVAL_S,
    "keepalives_count": COUNT,
    "tcp_user_timeout": UNACKNOWLEDGED_MS,
}


def keepalive_parameters(conninfo: str) -> dict[str, Any]:
    """Return keepalive parameters of a connection, except those that `conninfo` sets (libpq, Parameter Key Words)."""
    given = conninfo_to_dict(conninfo)
    return {name: value for name, value in _KEEPALIVE.items() if name not in given}


def session_sql() -> str:
    """Return the statements that set them. (Connection poolers refuse them as startup options.)"""
    return "; ".join(f"SET {name} = '{value}'" for name, value in SESSION_SETTINGS.items())
