"""The stream's replication slot: permanent where the server bounds what it holds, else temporary.

A temporary slot is dropped with its connection, and the stream with it. A permanent one outlives the connection, so
that another one can continue the stream (`resumption`); until it is dropped, the server keeps its log from the slot's
position on.

*Invariants*: a permanent slot has the name of one service on one host. It is dropped by that service: when the stream
is closed, unless another process will continue it, when it is lost, and, after a crash, at the next start.

Not here: the connection that reads a slot (`replication`).
"""

import asyncio
import hashlib
import logging
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict

log = logging.getLogger(__name__)

SlotKind = Literal["auto", "permanent", "temporary"]
#: Beginning of the names of all slots of Upquery.
PREFIX = "upquery_"
#: Maximum characters of the host's name in a slot's name, whose limit is 63 (``NAMEDATALEN``).
_HOST_CHARACTERS, _HASH_CHARACTERS = 40, 12
#: Seconds that a connection which has just ended may still use its slot.
RELEASE_S = 5.0
_POLL_S = 0.05
#: Whether the server bounds what a slot holds; the second setting exists from version 18 on.
_BOUNDED = """
SELECT coalesce(bool_or(setting::bigint > CASE name WHEN 'max_slot_wal_keep_size' THEN -1 ELSE 0 END), false)
FROM pg_catalog.pg_settings WHERE name IN ('max_slot_wal_keep_size', 'idle_replication_slot_timeout')
"""
_ACTIVE = "SELECT active FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"
#: Bytes of the log that the slot holds.
_HELD = """
SELECT coalesce(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn), 0)::bigint
FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""
BOUND_STATEMENT = "ALTER SYSTEM SET max_slot_wal_keep_size = '4GB'; SELECT pg_reload_conf();"


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """Choice of a stream's slot: `name` is that of a permanent one, which is dropped when it holds `keep_bytes` on a
    server without a limit. `outlives_service`: a later process may continue the stream, so it may be left behind."""

    kind: SlotKind = "temporary"
    name: str = ""
    keep_bytes: int = 4 << 30
    outlives_service: bool = False


#: The default of a stream.
TEMPORARY = SlotOptions()


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot in use. `bounded`: the server bounds what it holds."""

    name: str
    permanent: bool
    bounded: bool = True


def slot_name(host: str, directory: Path, conninfo: str) -> str:
    """Return the name of the permanent slot of a service: the one on `host` with this state directory, for the database
    of `conninfo`. Names are unique in a server, not in a database."""
    try:
        parameters = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        # The start of the stream reports it.
        parameters = {}
    database = str(parameters.get("dbname") or parameters.get("user") or "")
    readable = re.sub(r"[^a-z0-9]+", "_", host.lower()).strip("_")[:_HOST_CHARACTERS] or "host"
    identity = "\0".join((host, str(directory.resolve()), database))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:_HASH_CHARACTERS]
    return f"{PREFIX}{readable}_{digest}"


async def choose(ordinary: psycopg.AsyncConnection, options: SlotOptions) -> Slot:
    """Return the slot to create. A leftover of its name is dropped."""
    temporary = Slot(f"{PREFIX}{secrets.token_hex(8)}", permanent=False)
    free = await drop(ordinary, options.name)
    if options.kind == "temporary":
        return temporary
    bounded = await is_bounded(ordinary)
    if options.kind == "auto" and not bounded:
        log.info(
            "the change stream uses a temporary slot, since the server does not limit what a slot may hold; when its "
            "connection breaks, everything is evicted. For a permanent slot, run: %s or set [cdc] slot = 'permanent'",
            BOUND_STATEMENT,
        )
        return temporary
    if not free:
        log.warning(
            "the slot %s is in use by another service with the same host name and state directory, so the change "
            "stream uses a temporary slot; give each service a state directory of its own",
            options.name,
        )
        return temporary
    return Slot(options.name, permanent=True, bounded=bounded)


async def is_bounded(ordinary: psycopg.AsyncConnection) -> bool:
    """Return whether the server limits what a slot holds."""
    row = await (await ordinary.execute(_BOUNDED)).fetchone()
    return row is not None and bool(row[0])


async def drop(ordinary: psycopg.AsyncConnection, name: str) -> bool:
    """Drop a slot if it exists; return False if it is still in use after `RELEASE_S`."""
    give_up = asyncio.get_running_loop().time() + RELEASE_S
    while True:
        row = await (await ordinary.execute(_ACTIVE, [name])).fetchone()
        if row is None:
            return True
        if not row[0]:
            try:
                await ordinary.execute("SELECT pg_catalog.pg_drop_replication_slot(%s)", [name])
            except psycopg.errors.UndefinedObject:
                pass
            except psycopg.errors.ObjectInUse:
                continue
            return True
        if asyncio.get_running_loop().time() > give_up:
            return False
        await asyncio.sleep(_POLL_S)


async def held_bytes(ordinary: psycopg.AsyncConnection, name: str) -> int:
    """Return how many bytes of its log the server keeps for the slot; 0 if there is no such slot."""
    row = await (await ordinary.execute(_HELD, [name])).fetchone()
    return 0 if row is None else int(row[0])
