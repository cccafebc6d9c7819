"""Passwords, from wherever a setting says they are."""

from pathlib import Path

from pydantic import SecretStr

from service.settings.errors import SettingsError
from service.settings.sections import UpstreamSettings


def connection_url(url: str, upstream: UpstreamSettings) -> str:
    """`url` with the configured password, as libpq takes it. Raises `SettingsError`."""
    password = upstream_password(upstream)
    if password is None:
        return url
    from psycopg.conninfo import make_conninfo

    return make_conninfo(url, password=password)


def upstream_password(upstream: UpstreamSettings) -> str | None:
    """The configured password, if it is not in the URL. Raises `SettingsError`."""
    return secret(upstream.password, upstream.password_file, "[upstream] password_file")


def secret(value: SecretStr | None, file: Path | None, setting: str) -> str | None:
    """What is given as a value, or in a file. Raises `SettingsError` naming `setting`."""
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"{setting} cannot be read: {error}.") from None
