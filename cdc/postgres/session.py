"""Session settings that decide how PostgreSQL prints values.

The stream and every lookup must pin the same ones: a row's identity is its text, and a row that is printed in two ways
is two rows.
"""

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


def session_sql() -> str:
    """The statements that pin them. (Not as startup options: poolers refuse those.)"""
    return "; ".join(f"SET {name} = '{value}'" for name, value in SESSION_SETTINGS.items())
