"""Change streams by the settings: from a replication slot or a binary log.

The stream process needs only these: no pool, no lookups, no planner. Debezium's topics begin at a snapshot of the
database and so need its lookups (`drivers`).
"""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cdc.stream import ChangeStream, Layouts
from service.settings.database_url import is_mysql
from service.settings.errors import SettingsError
from service.settings.secrets import connection_url, replication_password, upstream_password
from service.settings.stack import Settings

MakeStream = Callable[[Layouts], ChangeStream]


@dataclass(frozen=True, slots=True)
class StreamOrigin:
    """Factory of change streams; `begin_anew` drops connections before a new one, `close` ends them."""

    make_stream: MakeStream
    begin_anew: Callable[[], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


def open_stream(settings: Settings) -> StreamOrigin:
    """Returns the change stream of these settings. Raises `SettingsError`."""
    if settings.cdc.kafka is not None:
        from service.engine.databases.drivers import open_upstream

        upstream = open_upstream(settings)
        return StreamOrigin(upstream.change_stream, upstream.begin_anew, upstream.close)
    make = binlog_stream(settings) if is_mysql(settings.upstream.url) else slot_stream(settings)
    return StreamOrigin(make, _nothing_open, _nothing_open)


def slot_stream(settings: Settings) -> MakeStream:
    """Returns change streams of replication slots of PostgreSQL."""
    from cdc.postgres.slot import SlotOptions, slot_name
    from cdc.postgres.stream import PostgresStream

    cdc, url = settings.cdc, replication_url(settings)

    def make(layouts: Layouts) -> ChangeStream:
        name = slot_name(socket.gethostname(), settings.state.directory, url)
        slot = SlotOptions(cdc.slot, name, int(cdc.slot_keep), settings.state.persistent)
        return PostgresStream(url, cdc.publication, layouts, cdc.transaction_rows, silence_s=cdc.silence_s, slot=slot)

    return make


def replication_url(settings: Settings) -> str:
    """Returns PostgreSQL's connection string of the login for the change stream. Raises `SettingsError`."""
    upstream, cdc = settings.upstream, settings.cdc
    if cdc.url:
        return connection_url(cdc.url, replication_password(cdc, upstream))
    return connection_url(upstream.url, upstream_password(upstream))


def binlog_stream(settings: Settings) -> MakeStream:
    """Returns change streams of the binary log of MariaDB or MySQL. Raises `SettingsError`."""
    try:
        from cdc.mysql.stream import MySqlStream
        from service.engine.databases.mysql.address import Address
    except ImportError as missing:
        raise missing_extra("mysql", missing) from None

    upstream, cdc = settings.upstream, settings.cdc
    try:
        if cdc.url:
            address = Address.parse(cdc.url, replication_password(cdc, upstream))
        else:
            address = Address.parse(upstream.url, upstream_password(upstream))
    except ValueError as problem:
        raise SettingsError(str(problem)) from None

    def make(layouts: Layouts) -> ChangeStream:
        return MySqlStream(
            address.options(), layouts, cdc.transaction_rows, upstream.connect_timeout_s, silence_s=cdc.silence_s
        )

    return make


def missing_extra(name: str, missing: ImportError) -> SettingsError:
    """Returns the error of settings that need a package of the extra `name`."""
    return SettingsError(f"These settings need {missing.name}, which is not installed: pip install 'upquery[{name}]'.")


async def _nothing_open() -> None:
    pass
