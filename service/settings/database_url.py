"""Schemes of database URLs: ``database://…``, or ``database+driver://…`` as in SQLAlchemy.

Not here: the parts of a URL (`secrets`, `service.engine.databases.mysql.address`). The process that starts all others
imports this, so neither a driver nor SQLAlchemy is needed, which takes about 0.2 s and 11 MiB.
"""

import re

from service.settings.errors import SettingsError

_MYSQL = ("mariadb", "mysql")
#: The driver of each database; the server reports whether it is MariaDB or MySQL.
_DRIVERS = {"postgresql": "psycopg", "postgres": "psycopg", **dict.fromkeys(_MYSQL, "pymysql")}
_SCHEME = re.compile(r"([a-z]\w*)(?:\+(\w+))?://", re.IGNORECASE)
_AT = re.compile("@(?=[^/?]*@)")


def is_mysql(url: str) -> bool:
    """Return whether the URL names MariaDB or MySQL."""
    return scheme_of(url)[0] in _MYSQL


def scheme_of(url: str) -> tuple[str, str]:
    """Return database and driver; "" for one that the URL does not name."""
    found = _SCHEME.match(url)
    return ("", "") if found is None else (found[1].lower(), (found[2] or "").lower())


def check_scheme(setting: str, url: str) -> None:
    """Raise `SettingsError` for a URL of another database or driver."""
    database, driver = scheme_of(url)
    if database not in _DRIVERS:
        raise SettingsError(
            f"{setting} has the unsupported scheme {database!r}. Use postgresql://user@host/database, "
            "mariadb://user@host/database or mysql://user@host/database."
        )
    known = _DRIVERS[database]
    if driver not in ("", known):
        raise SettingsError(
            f"{setting} has the unsupported driver {driver!r}. Use {database}+{known}://, or {database}:// alone."
        )


def with_encoded_login(url: str) -> str:
    """Return the URL with each @ in its user and password %-encoded. Otherwise parsers take the last part of such a
    password for the host, which errors quote."""
    return _AT.sub("%40", url)
