"""Passwords and tokens, from a value or a file."""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from service.settings.errors import SettingsError
from service.settings.sections import CdcSettings, UpstreamSettings


def connection_url(url: str, password: str | None) -> str:
    """Return `url` with the password, if any, as a connection string of libpq."""
    if password is None:
        return url
    from psycopg.conninfo import make_conninfo

    return make_conninfo(url, password=password)


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
