"""Passwords and tokens, from a value or a file."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from service.settings.database_url import scheme_of, with_encoded_login
from service.settings.errors import SettingsError
from service.settings.sections import CdcSettings, UpstreamSettings


def connection_url(url: str, password: str | None = None) -> str:
    """Return `url` with the password, if any, as a connection string of libpq. Raises `SettingsError`.

    SQLAlchemy reads a URL with a driver: it writes several hosts, and spaces in options, in ways that libpq does not.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    database, driver = scheme_of(url)
    text = with_encoded_login(url) if database else url
    given = {} if password is None else {"password": password}
    try:
        if driver:
            return make_conninfo(**{**_sqlalchemy_parameters(text), **given})
        return make_conninfo(text, **given) if given else text
    except (ProgrammingError, ValueError):
        raise SettingsError(
            "The upstream's URL cannot be read. It looks like postgresql://user@host:5432/database; special characters "
            "in user and password are %-encoded."
        ) from None


def _sqlalchemy_parameters(url: str) -> dict[str, Any]:
    """Return libpq's parameters of a URL. Raises ValueError."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url).set(drivername="postgresql+psycopg")
        _, parameters = parsed.get_dialect()().create_connect_args(parsed)
    except ArgumentError as problem:
        raise ValueError from problem
    return dict(parameters)


def upstream_password(upstream: UpstreamSettings) -> str | None:
    """Return the configured password, unless the URL has it. Raises `SettingsError`."""
    return secret(upstream.password, upstream.password_file, "[upstream] password_file")


def replication_password(cdc: CdcSettings, upstream: UpstreamSettings) -> str | None:
    """Return the password of the change stream's login, unless its URL has it. Raises `SettingsError`."""
    own = secret(cdc.password, cdc.password_file, "[cdc] password_file")
    if own is None and (cdc.url is None or urlsplit(cdc.url).password is None):
        return upstream_password(upstream)
    return own


def secret(value: SecretStr | None, file: Path | None, setting: str) -> str | None:
    """Return the value, or the contents of the file. Raises `SettingsError` naming `setting`."""
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"{setting} cannot be read: {error}.") from None
